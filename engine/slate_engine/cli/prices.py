"""The option by which a user says whose prices count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slate_engine.cli.failures import Misused

if TYPE_CHECKING:
    from slate_engine.store.cost import PriceList

Prices = Annotated[
    str,
    typer.Option(
        metavar="LIST",
        help="Whose prices to reckon with: s3, s3-express or r2.",
        autocompletion=lambda: ["s3", "s3-express", "r2"],
    ),
]


def price_list(name: str) -> PriceList:
    """The list of that name."""
    from slate_engine.store.cost import R2, S3_EXPRESS, S3_STANDARD

    lists = {"s3": S3_STANDARD, "s3-express": S3_EXPRESS, "r2": R2}
    if name not in lists:
        raise Misused(f"there is no price list {name!r}; choose one of {', '.join(lists)}")
    return lists[name]
