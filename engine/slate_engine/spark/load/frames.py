"""A whole frame, loaded the best way."""

from __future__ import annotations

import os
import tempfile

from pyspark.sql import DataFrame

from slate_engine.spark.load.report import LoadReport
from slate_engine.spark.source import FORMAT


def load(
    frame: DataFrame, url: str = "", path: str = "", *, partitions: int | None = None, **options: str
) -> LoadReport:
    """Load all rows of ``frame`` as one commit, into the database ``path`` of the store at ``url``, or the one that the
    environment names. Rows become one sorted run, however the frame is partitioned: they are divided by ranges of keys
    first, into about ``partitions`` of them, or as many as Spark finds right. ``options`` are those of the sink, such as
    ``ttl="30d"`` or ``codec="zstd"``."""
    divided = frame.repartitionByRange("key") if partitions is None else frame.repartitionByRange(partitions, "key")
    sink = divided.write.format(FORMAT).mode("append").option("rangePartitioned", "true")
    with tempfile.TemporaryDirectory(prefix="slate-load-") as folder:
        report = os.path.join(folder, "report.json")
        sink.options(url=url, path=path, report=report, **options).save()
        return LoadReport.read(report)
