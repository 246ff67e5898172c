"""The verb ``gc``: collect what nobody needs any more, or say what that would be."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from slate_engine.admin.lifetimes import parse_span
from slate_engine.cli.failures import Misused
from slate_engine.cli.help import CARE
from slate_engine.cli.prices import Prices, price_list
from slate_engine.cli.progress import progress
from slate_engine.cli.session import Session
from slate_engine.cli.tables import Limit
from slate_engine.cli.text import plural, show_dollars, show_size

if TYPE_CHECKING:
    from slate_engine.gc.options import GcOptions, Kind
    from slate_engine.gc.report import Report
    from slate_engine.store.cost import PriceList

AGED = ("manifests", "wal", "fences", "compacted", "compactions")
"""The kinds that --min-age is about; the others have reasons of their own to wait."""


def kinds() -> list[str]:
    """For the shell to complete."""
    from slate_engine.gc.options import Kind

    return [kind.value for kind in Kind]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=CARE)(gc)


def gc(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be deleted, why, and what it frees.")
    ] = False,
    forever: Annotated[bool, typer.Option("--forever", help="Go on collecting, each kind at its interval.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Of every database under --path, which is then a folder; without it, of all.")
    ] = False,
    min_age: Annotated[
        list[str] | None,
        typer.Option(metavar="[KIND=]SPAN", help="Leave alone what is younger, of one kind or all; 5min unless given."),
    ] = None,
    interval: Annotated[
        list[str] | None,
        typer.Option(metavar="[KIND=]SPAN", help="With --forever: how often to look for one kind, or all; 10min."),
    ] = None,
    grace: Annotated[
        str, typer.Option(metavar="SPAN", help="For how long a softly destroyed database can be undeleted; 7days.")
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only this kind; may be repeated.", autocompletion=kinds)
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Not this kind; may be repeated.", autocompletion=kinds)
    ] = None,
    collect_fences: Annotated[
        bool,
        typer.Option(
            "--collect-fences", help="Also empty WAL files, which keep stalled writers out: only if none can be."
        ),
    ] = False,
    prices: Prices = "s3",
    limit: Limit = 40,
) -> None:
    """Delete what nobody needs any more.

    That is what neither the present state nor a checkpoint nor a clone needs. Safe beside writers, compactors,
    readers and other collectors. Nothing is asked: garbage is what nobody can see any more, and a softly destroyed
    database goes only after its grace period. The kinds are destroyed (databases), checkpoints (expired ones),
    manifests, wal, fences, compacted (SSTs), compactions, detach (a clone from parents it needs no more) and
    two-phase (leftovers of writers on stores with --option cas).

    \b
    Examples:
      slate --store s3://bucket --path orders gc --dry-run
      slate --store s3://bucket --path orders gc --min-age 1h --min-age wal=1day
      slate --store s3://bucket gc --all --forever --grace 30days
    """
    session: Session = context.obj
    choice = Choice(min_age or [], interval or [], grace, only or [], skip or [], collect_fences)
    telling = Telling(prices, limit, dry_run)
    session.run(
        _forever(session, choice, telling, everything) if forever else _once(session, choice, telling, everything)
    )


class Choice(NamedTuple):
    """What is to be collected, as the options say."""

    min_age: list[str]
    interval: list[str]
    grace: str
    only: list[str]
    skip: list[str]
    collect_fences: bool


class Telling(NamedTuple):
    """How it is to be told, as the options say."""

    prices: str
    limit: int
    dry_run: bool


async def _once(session: Session, choice: Choice, telling: Telling, everything: bool) -> int:
    from slate_engine.gc.collector import collect_once
    from slate_engine.gc.loop import collect_all

    teller = _Teller(session, choice, telling)
    files = session.files()
    if everything:
        found = collect_all(files.store, files.runtime, files.paths.root, teller.options, wal_store=files.wal_store)
        reports = [report async for report in found]
    else:
        await files.manifests.read_latest()  # a collector takes an absent database for one that is gone
        with progress("collecting") as report_progress:
            done = 0

            def deleted(kind: Kind, count: int) -> None:
                nonlocal done
                done += count
                report_progress(done, text=f"{kind.value}, {plural(done, 'object')} deleted")

            reports = [await collect_once(files, teller.options, deleted)]
    for report in reports:
        teller.tell(report)
    if not reports:
        session.note(f"no databases under {session.name}")
    return teller.code


async def _forever(session: Session, choice: Choice, telling: Telling, everything: bool) -> int:
    from slate_engine.gc.loop import collect_all_forever, collect_forever

    teller = _Teller(session, choice, telling)
    files = session.files()
    if everything:
        await collect_all_forever(
            files.store,
            files.runtime,
            files.paths.root,
            teller.options,
            teller.tell_news,
            wal_store=files.wal_store,
        )
    else:
        await files.manifests.read_latest()
        await collect_forever(files, teller.options, teller.tell_news)
    return teller.code


class _Teller:
    """Prints reports, and keeps the exit code that they come to."""

    def __init__(self, session: Session, choice: Choice, telling: Telling) -> None:
        from slate_engine.gc.options import Kind, dry

        options = _options(choice)
        self.options = dry(options) if telling.dry_run else options
        self.code = 0
        self._session = session
        self._telling = telling
        self._prices = price_list(telling.prices)
        # Of these a real pass would only tell, too.
        self._spared = [kind for kind in Kind if (task := options.task(kind)) is not None and task.dry_run]

    def tell(self, report: Report) -> None:
        from slate_engine.cli.failures import exit_code

        for error in report.errors:  # the collector has logged them already
            self.code = self.code or exit_code(error)
        self._session.print(
            _report_facts(report, self._prices),
            lambda _: _report_table(report, self._prices, self._spared, self._telling.limit, self._telling.dry_run),
        )

    def tell_news(self, report: Report) -> None:
        """The same, unless there is nothing new: most passes of a long-running collector find nothing."""
        garbage = [each for each in report if each.kind not in self._spared]
        if report.errors or report.gone or garbage:
            self.tell(report)


def _options(choice: Choice) -> GcOptions:
    from dataclasses import replace

    from slate_engine.gc.options import GcOptions, Kind, Task

    defaults = GcOptions()
    tasks: dict[Kind, Task] = {kind: task for kind in Kind if (task := defaults.task(kind)) is not None}
    if choice.collect_fences:
        tasks[Kind.FENCES] = replace(tasks[Kind.FENCES], dry_run=False)
    for kind, seconds in _spans(choice.min_age, "--min-age", AGED):
        tasks[kind] = replace(tasks[kind], min_age=seconds)
    for kind, seconds in _spans(choice.interval, "--interval", tuple(kinds())):
        tasks[kind] = replace(tasks[kind], interval=seconds)
    if choice.grace:
        tasks[Kind.DESTROYED] = replace(tasks[Kind.DESTROYED], min_age=parse_span(choice.grace) / 1000)
    chosen = {_kind(name) for name in choice.only} or set(Kind)
    chosen -= {_kind(name) for name in choice.skip}
    if not chosen:
        raise Misused("--only and --skip leave no kind of garbage; leave one of them out")
    switched = {kind.name.lower(): tasks[kind] if kind in chosen else None for kind in Kind}
    return replace(defaults, **switched)  # type: ignore[arg-type]


def _spans(given: list[str], option: str, kinds: tuple[str, ...]) -> list[tuple[Kind, float]]:
    """``KIND=SPAN`` for one kind, ``SPAN`` for all of them; the later and the more particular counts."""
    found: list[tuple[Kind, float]] = []
    for text in sorted(given, key=lambda text: "=" in text):
        name, equals, span = text.rpartition("=")
        if equals and name not in kinds:
            raise Misused(f"{option} {text!r}: there is no kind {name!r} here; it is one of {', '.join(kinds)}")
        found += [(_kind(kind), parse_span(span) / 1000) for kind in ([name] if equals else kinds)]
    return found


def _kind(name: str) -> Kind:
    from slate_engine.gc.options import Kind

    try:
        return Kind(name)
    except ValueError:
        raise Misused(f"there is no kind of garbage {name!r}; the kinds are {', '.join(kinds())}") from None


def _report_facts(report: Report, prices: PriceList) -> dict[str, Any]:
    return {
        "path": report.path.strip("/"),
        "gone": report.gone,
        "waiting": report.waiting,
        "size_bytes": report.size,
        "dollars_a_month": report.dollars_a_month(prices),
        "prices": prices.name,
        "kinds": [
            {
                "kind": kind.kind.value,
                "dry_run": kind.dry_run,
                "error": None if kind.error is None else kind.error.message,
                "size_bytes": kind.size,
                "dollars_a_month": kind.dollars_a_month(prices),
                "garbage": [{"name": each.name, "size_bytes": each.size, "why": each.why} for each in kind.garbage],
            }
            for kind in report.kinds
        ],
    }


def _report_table(report: Report, prices: PriceList, spared: Collection[Kind], limit: int, dry_run: bool) -> object:
    """``spared`` are the kinds of which a real pass would only tell, too."""
    from rich.console import Group

    from slate_engine.cli.tables import table
    from slate_engine.gc.report import dollars_a_month

    name = report.path.strip("/") or "the root"
    lines: list[Any] = []
    if report.gone:
        lines.append(f"{name}: there is no database here any more")
    if report.waiting:
        lines.append(f"{name}: {report.waiting}")
    kinds = [kind for kind in report.kinds if kind.garbage and kind.kind not in spared]
    garbage = [each for kind in kinds for each in kind.garbage]
    if garbage and dry_run:
        rows: list[tuple[object, ...]] = [
            (each.kind.value, each.name, show_size(each.size), each.why) for each in garbage[: limit or None]
        ]
        lines.append(table(("kind", "would be deleted", ">size", "why"), rows, wrap=("why",)))
        if len(garbage) > limit > 0:
            lines.append(f"… and {len(garbage) - limit:,} more: --limit 0 shows all")
    elif garbage:
        rows = [(kind.kind.value, len(kind.garbage), show_size(kind.size)) for kind in kinds]
        lines.append(table(("kind", ">deleted", ">size"), rows))
    told = sum(len(kind.garbage) for kind in report.kinds if kind.kind in spared)
    if told:
        lines.append(f"{plural(told, 'fence')} that could go stay: see --collect-fences")
    size = sum(each.size for each in garbage)
    saved = f"{show_size(size)}, {show_dollars(dollars_a_month(size, prices))} a month ({prices.name})"
    if garbage:
        verb = "would free" if dry_run else "freed"
        lines.append(f"{name}: deleting {plural(len(garbage), 'item')} {verb} {saved}")
    elif not (report.gone or report.waiting):
        lines.append(f"{name}: no garbage")
    return Group(*lines)
