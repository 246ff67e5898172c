"""The verb ``verify``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slate_engine.cli.failures import CORRUPT
from slate_engine.cli.help import CARE
from slate_engine.cli.progress import progress
from slate_engine.cli.session import Session
from slate_engine.cli.text import plural, show_size


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=CARE)(verify)


def verify(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only that every object that is needed is there; no SST is read.")
    ] = False,
) -> None:
    """Read every object and check it.

    Checksums, the order of rows, and that manifests and objects agree. Also the SSTs of parents, if it is a clone.
    Safe beside writers, compactors and collectors. Exit code 4 if anything is wrong; each finding names the object,
    and the byte where one can tell.

    \b
    Example:
      slate --store s3://bucket --path orders verify
    """
    session: Session = context.obj
    session.run(_verify(session, quick))


async def _verify(session: Session, quick: bool) -> int:
    from slate_engine.cli.verification import verify

    with progress("verifying") as report:

        def tell(done: int, total: int, size: int) -> None:
            report(done, total, text=f"{done:,} of {total:,} objects, {show_size(size)}")

        found = await verify(session.files(), quick=quick, progress=tell)
    session.print(found.facts(), _findings)
    return CORRUPT if found.findings else 0


def _findings(result: dict[str, Any]) -> str:
    checked = (
        f"{plural(result['objects'], 'object')}, {show_size(result['size_bytes'])}, "
        f"{plural(result['rows'], 'row version')} read"
    )
    if not result["findings"]:
        return f"sound: {checked}"
    return "\n".join([f"{plural(len(result['findings']), 'finding')} in {checked}:", *map(_line, result["findings"])])


def _line(finding: str) -> str:
    return f"  {finding}"
