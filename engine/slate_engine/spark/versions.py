"""Which PySpark does what: said before anything fails in a way that nobody understands."""

from __future__ import annotations

import sys
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from slate_engine.errors import InvalidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = (4, 1)
"""The first with the Arrow batches and filters that a reader of ours is written for."""
STREAMS = (4, 2)
"""The first that tells a source where the batch begins that it is to end."""

LEAKING = (4, 3)
"""The last that is known to keep a pushed filter for all scans of a frame. It stands with the object that all of them share,
so the rows of a query depend on the queries before it, and on its own other scans."""

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_PUSHING_PROCESS = "pyspark.sql.worker.data_source_pushdown_filters"


def check_batches() -> None:
    _check(BATCHES, "slate_engine.spark")


def check_streams() -> None:
    _check(STREAMS, "a stream")


def pushes(spark: SparkSession) -> bool:
    """Whether this Spark keeps a pushed filter to its own scan. A version that is not known yet has to show it."""
    if _numbers(spark.version) <= LEAKING:
        return False
    from slate_engine.spark.probe import keeps_filters_apart

    return keeps_filters_apart(spark)


def refuse_pushdown() -> None:
    """Raise if Spark has started this process to push filters down, where :func:`pushes` says that it must not."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if _PUSHING_PROCESS not in sys.modules and getattr(main, "name", "") != _PUSHING_PROCESS:
        return
    raise InvalidError(
        f"{PUSHDOWN} is on, and Spark {pyspark.__version__} mixes up the filters that it pushes down: one query's filter "
        "stays on the frame, and later queries, joins and subqueries of the same frame silently lose rows. Turn it off "
        f'with spark.conf.set("{PUSHDOWN}", "false"). To read few bytes, name the keys when you load the frame: '
        'option("start", …), "end", "prefix" or "keys"'
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark expects of a source's batches: times are of UTC, which later versions want to be told."""
    told: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **told)


def _check(needed: tuple[int, int], who: str) -> None:
    if _numbers(pyspark.__version__) < needed:
        least = ".".join(map(str, needed))
        raise InvalidError(
            f"{who} needs PySpark {least} or later, and this is {pyspark.__version__}: pip install 'pyspark>={least}', in "
            "the driver and in the image of the executors"
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The major and the minor version."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
