"""Keeping credentials out of what Spark writes down: options of a frame stand in plans, and plans in its event log and UI.

Spark blanks the options whose names match a pattern. Its own pattern does not know the names that stores and Hadoop give to
secrets, so these are added to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slate_engine.spark.options import HADOOP, STORE_PREFIX
from slate_engine.store.options import OPTIONS, PASSED_ON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERN = "spark.sql.redaction.options.regex"


def secret_names() -> list[str]:
    """All options of the data source that hold secrets, in small letters."""
    secret = {name.lower() for option in OPTIONS if option.secret for name in (option.name, *option.variables)}
    by_hadoop = {theirs for theirs, ours in HADOOP.items() if ours in secret}
    return sorted({STORE_PREFIX + name for name in secret} | by_hadoop)


def hide_secrets(spark: SparkSession) -> None:
    """What the session hides already stays hidden. Doing it twice changes nothing."""
    names = "|".join(map(re.escape, secret_names()))
    ours = f"(?i:^(?:{names}|{re.escape(STORE_PREFIX + PASSED_ON)}.*)$)"
    theirs = spark.conf.get(PATTERN) or ""
    if ours not in theirs:
        spark.conf.set(PATTERN, f"{theirs}|{ours}" if theirs else ours)
