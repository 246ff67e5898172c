"""The verb ``compact``, and what it shares with :mod:`slate_engine.cli.compactor`: how new SSTs are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from slate_engine.cli.failures import Misused, exit_code
from slate_engine.cli.help import CARE
from slate_engine.cli.progress import progress
from slate_engine.cli.session import Session
from slate_engine.cli.text import parse_bytes, plural, show_bytes, show_size

if TYPE_CHECKING:
    from slate_engine.cli.progress import Report as Line
    from slate_engine.lsm.compaction.compactor import Report
    from slate_engine.lsm.compaction.options import WorkerOptions
    from slate_engine.lsm.compaction.plan import Policy, Proposal
    from slate_engine.lsm.compaction.worker import Progress
    from slate_engine.state.manifest import Manifest

MEBIBYTE = 1 << 20


class Output(NamedTuple):
    """How SSTs are made, as the options say; sizes in MiB but for the blocks."""

    codec: str
    block_size: int
    memory: int
    sst_size: int
    ranges: int


Codec = Annotated[
    str, typer.Option(metavar="CODEC", help="none, snappy, zlib, lz4 or zstd; that of the newest SST unless given.")
]
BlockSize = Annotated[int, typer.Option(min=1, max=1 << 16, metavar="BYTES", help="The size of blocks in new SSTs.")]
Memory = Annotated[int, typer.Option(min=1, metavar="MIB", help="The most that merging holds in memory, in MiB.")]
SstSize = Annotated[int, typer.Option(min=1, metavar="MIB", help="The size at which an SST is ended, in MiB.")]
Ranges = Annotated[int, typer.Option(min=1, help="Into how many ranges of keys one job is cut at most.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Take the place of a compactor that was at work a moment ago. Closes SlateDB's writer."
    ),
]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=CARE)(compact)


def compact(
    context: typer.Context,
    policy: Annotated[
        str, typer.Option(metavar="major|tiered|leveled", help="All of each tree into one run; or what is due.")
    ] = "major",
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="With major: also trees of one run, to drop what has expired since.")
    ] = False,
    segment: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="With major: only this segment; may be repeated, empty for the root."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be merged, and why.")] = False,
    codec: Codec = "",
    block_size: BlockSize = 4096,
    memory: Memory = 256,
    sst_size: SstSize = 256,
    ranges: Ranges = 4,
    force: Force = False,
) -> None:
    """Merge SSTs, so that reads have fewer places to look.

    Drops deleted, overwritten and expired rows that nobody can see any more. Safe beside a writer, readers and
    collectors. There is one compactor for a database at a time: this refuses if another was at work in the last five
    minutes, because the one inside a SlateDB writer takes the writer with it when it loses its place.

    \b
    Examples:
      slate --store s3://bucket --path orders compact --dry-run
      slate --store s3://bucket --path orders compact --rewrite --codec zstd
      slate --store s3://bucket --path orders compact --policy tiered
    """
    session: Session = context.obj
    prefixes = None if segment is None else frozenset(map(parse_bytes, segment))
    wanted = policy_named(policy, rewrite=rewrite, segments=prefixes)
    session.run(
        _compact(session, wanted, Output(codec, block_size, memory, sst_size, ranges), dry_run=dry_run, force=force)
    )


def policy_named(name: str, *, rewrite: bool = False, segments: frozenset[bytes] | None = None) -> Policy:
    from slate_engine.lsm.compaction.plan import Leveled, Major, SizeTiered

    if name != "major" and (rewrite or segments is not None):
        raise typer.BadParameter("only major takes it", param_hint="--rewrite and --segment")
    match name:
        case "major":
            return Major(rewrite, segments)
        case "tiered":
            return SizeTiered()
        case "leveled":
            return Leveled()
        case _:
            raise typer.BadParameter("choose major, tiered or leveled", param_hint="--policy")


def worker_options(manifest: Manifest, output: Output, jobs: int = 4, poll_interval: float = 5.0) -> WorkerOptions:
    """Raises :class:`Misused` if the options make no sense."""
    from dataclasses import replace

    from slate_engine.format.sst_meta import Codec as Codecs
    from slate_engine.lsm.compaction.options import MergeOptions, WorkerOptions, sst_options_of

    sst = replace(sst_options_of(manifest), block_size=output.block_size)
    if output.codec:
        name = output.codec.upper()
        if name not in Codecs.__members__:
            raise Misused(f"--codec {output.codec!r} is not known; it is {', '.join(Codecs.__members__).lower()}")
        sst = replace(sst, codec=Codecs[name])
    merge = MergeOptions(sst, max_sst_size=output.sst_size * MEBIBYTE, max_subcompactions=output.ranges)
    return WorkerOptions(
        merge,
        memory_bytes=output.memory * MEBIBYTE,
        max_concurrent_compactions=jobs,
        compactions_poll_interval=poll_interval,
    )


def show(line: Line, state: Progress) -> None:
    """How far the jobs are, in one line. What a job has left when its worker died counts for nothing here."""
    text = f"{plural(state.jobs, 'job')}, {show_size(state.done)} of {show_size(state.total)}"
    line(min(state.done, state.total), state.total, text=text)


async def _compact(session: Session, policy: Policy, output: Output, *, dry_run: bool, force: bool) -> int:
    from slate_engine.lsm.compaction.compactor import compact_once
    from slate_engine.lsm.compaction.coordinator import UNLIMITED
    from slate_engine.lsm.compaction.options import CompactorOptions
    from slate_engine.state.compactions import Compactions
    from slate_engine.state.stores import CompactionsStore

    files = session.files()
    manifest = (await files.manifests.read_latest()).value
    options = CompactorOptions(worker=worker_options(manifest, output))
    if dry_run:
        book = await CompactionsStore.open(files.store, files.paths.root, files.runtime).latest()
        proposals = policy.propose(manifest, Compactions() if book is None else book.value, UNLIMITED)
        session.print([_job_facts(manifest, each) for each in proposals], _plan_table)
        return 0
    with progress("compacting") as line:
        report = await compact_once(files, policy, options, force=force, progressed=lambda state: show(line, state))
    for error in report.errors:
        session.note(f"slate: {error.message}")
    session.print(_report_facts(report), _report_text)
    return exit_code(report.errors[0]) if report.errors else 0


def _job_facts(manifest: Manifest, proposal: Proposal) -> dict[str, Any]:
    from slate_engine.lsm.compaction.result import source_views

    spec = proposal.spec
    tree = manifest.trees.tree(spec.segment)
    assert tree is not None
    return {
        "segment": show_bytes(spec.segment) if spec.segment else None,
        "l0_ssts": len(spec.l0_views),
        "sorted_runs": list(spec.sorted_runs),
        "destination": spec.destination,
        "size_bytes": int(source_views(tree, spec).sizes.sum()),
        "why": proposal.reason,
    }


def _plan_table(jobs: list[dict[str, Any]]) -> object:
    from slate_engine.cli.tables import table

    if not jobs:
        return "nothing to compact"
    rows = [
        (
            job["segment"] or "(root)",
            job["l0_ssts"],
            ", ".join(map(str, job["sorted_runs"])) or "none",
            job["destination"],
            show_size(job["size_bytes"]),
            job["why"],
        )
        for job in jobs
    ]
    return table(("segment", ">SSTs of L0", "runs", ">to run", ">size", "why"), rows, wrap=("why",))


def _report_facts(report: Report) -> dict[str, Any]:
    return {
        "jobs": report.jobs,
        "failed": [error.message for error in report.errors],
        "read_bytes": report.bytes_read,
        "written_bytes": report.bytes_written,
        "seconds": round(report.seconds, 3),
    }


def _report_text(facts: dict[str, Any]) -> str:
    if not facts["jobs"]:
        return "nothing to compact"
    size = f"{show_size(facts['read_bytes'])} to {show_size(facts['written_bytes'])}"
    speed = show_size(facts["read_bytes"] / max(facts["seconds"], 1e-3))
    return f"{plural(facts['jobs'], 'job')}: {size} in {facts['seconds']:.1f} s, {speed} a second"
