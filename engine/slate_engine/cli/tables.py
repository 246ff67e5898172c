"""Tables and bars as all verbs draw them: no frames, numbers to the right, nothing in a cell taken for markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

Limit = Annotated[
    int, typer.Option(min=0, metavar="N", help="Show at most so many objects; 0 for all. JSON always has all.")
]

_BLOCKS = " ▏▎▍▌▋▊▉█"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, wrap: Sequence[str] = ()) -> Table:
    """A table with these columns. A name that begins with ``>`` is one of numbers; only those of ``wrap`` may be broken."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        name = column.removeprefix(">")
        made.add_column(
            name, justify="right" if column.startswith(">") else "left", no_wrap=name not in wrap, overflow="fold"
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return made


def facts_table(facts: Iterable[tuple[str, object]]) -> Table:
    """Names and what they are, one to a line."""
    from rich.table import Table
    from rich.text import Text

    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True, style="bold")
    made.add_column(overflow="fold")
    for name, value in facts:
        made.add_row(name, value if isinstance(value, Text) else Text(str(value)))
    return made


def bar(share: float, width: int = 24) -> str:
    """A bar of eighths of a character; whatever is not nothing shows."""
    eighths = max(round(min(share, 1.0) * width * 8), 1 if share > 0 else 0)
    whole, part = divmod(eighths, 8)
    return "█" * whole + (_BLOCKS[part] if part else "")
