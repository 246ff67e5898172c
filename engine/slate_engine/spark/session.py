"""Making the format ``slatedb`` known to a Spark session."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from slate_engine.spark.holding import Keeper
from slate_engine.spark.redaction import hide_secrets
from slate_engine.spark.source import SlateSource
from slate_engine.spark.versions import check_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

_keepers: WeakKeyDictionary[SparkSession, Keeper] = WeakKeyDictionary()


def register(spark: SparkSession) -> None:
    """See :func:`slate_engine.spark.register`."""
    if spark in _keepers:
        return
    check_batches()
    keeper = _keepers[spark] = Keeper(_end_of(spark))
    atexit.register(keeper.close)
    # The class goes to other processes by value, and with it the keeper's address.
    spark.dataSource.register(type("SlateSource", (SlateSource,), {"keeper": keeper.address}))
    spark.conf.set(PUSHDOWN, "true")
    hide_secrets(spark)


def release(spark: SparkSession) -> None:
    """See :func:`slate_engine.spark.release`."""
    if spark in _keepers:
        _keepers[spark].release()


def _end_of(spark: SparkSession) -> Callable[[], bool]:
    """Tells whether the session has ended. One that speaks Spark Connect has no context, and ends with its process."""
    context = getattr(spark, "_sc", None)
    return lambda: context is not None and context._jsc is None
