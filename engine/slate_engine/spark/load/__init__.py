"""Bulk load: a frame sorted, built into SSTs on executors, and committed to a database by one manifest.

All rows have one sequence number. ``df.write.format("slatedb")`` takes the partitions as they are; :func:`load` divides the
frame by ranges of its keys first, which gives one sorted run, and nothing to look through before the commit. See
:mod:`~slate_engine.spark.load.intent` for what holds while a load is under way, and
:mod:`~slate_engine.spark.load.commit` for its end.
"""

from __future__ import annotations

from slate_engine.spark.load.frames import load
from slate_engine.spark.load.report import LoadReport
from slate_engine.spark.load.writer import writer_of

__all__ = ["LoadReport", "load", "writer_of"]
