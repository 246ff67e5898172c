"""Making the format ``slatedb`` known to a Spark session."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import TYPE_CHECKING

from slate_engine.errors import InvalidError
from slate_engine.spark.holding import Keeper
from slate_engine.spark.redaction import hide_secrets
from slate_engine.spark.source import SlateSource
from slate_engine.spark.versions import PUSHDOWN, check_batches, pushes
from slate_engine.store import native_threads as _native_threads  # noqa: F401  its exit handler comes before the keeper's

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_keepers: dict[str, Keeper] = {}
"""By the id of the session: Python may have several objects for one."""


def register(spark: SparkSession) -> None:
    """See :func:`slate_engine.spark.register`."""
    if _id_of(spark) in _keepers:
        return
    check_batches()
    proven = pushes(spark)
    keeper = Keeper(_end_of(spark))
    atexit.register(keeper.close)
    # The class goes to other processes by value, and with it the keeper's address.
    spark.dataSource.register(type("SlateSource", (SlateSource,), {"keeper": keeper.address, "pushes": proven}))
    if proven:
        spark.conf.set(PUSHDOWN, "true")
    hide_secrets(spark)
    _keepers[_id_of(spark)] = keeper


def release(spark: SparkSession) -> None:
    """See :func:`slate_engine.spark.release`."""
    if _id_of(spark) not in _keepers:
        raise InvalidError("this session holds no checkpoints: call slate_engine.spark.register(spark) on it first")
    _keepers[_id_of(spark)].release()


def _id_of(spark: SparkSession) -> str:
    java = getattr(spark, "_jsparkSession", None)
    return str(spark.session_id if java is None else java.sessionUUID())  # type: ignore[attr-defined]


def _end_of(spark: SparkSession) -> Callable[[], bool]:
    """Tells whether the session has ended. One that speaks Spark Connect has no context, and ends with its process."""
    context = getattr(spark, "_sc", None)
    return lambda: context is not None and context._jsc is None
