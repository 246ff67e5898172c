"""Which PySpark does what: said before anything fails in a way that nobody understands."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from slate_engine.errors import InvalidError

BATCHES = (4, 1)
"""The first with filter pushdown for Python data sources."""
STREAMS = (4, 2)
"""The first that tells a source where the batch begins that it is to end."""


def check_batches() -> None:
    _check(BATCHES, "slate_engine.spark")


def check_streams() -> None:
    _check(STREAMS, "a stream")


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark expects of a source's batches: times are of UTC, which later versions want to be told."""
    told: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **told)


def _check(needed: tuple[int, int], who: str) -> None:
    numbers = [int(part) for part in pyspark.__version__.split(".")[:2] if part.isdecimal()]
    if tuple(numbers) < needed:
        least = ".".join(map(str, needed))
        raise InvalidError(
            f"{who} needs PySpark {least} or later, and this is {pyspark.__version__}: pip install 'pyspark>={least}', in "
            "the driver and in the image of the executors"
        )
