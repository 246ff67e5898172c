"""Parquet tables in object stores, written and read through our own stores: Spark needs no connector for them.

A table is a :class:`~slate_engine.spark.parquet.folder.Folder`. Tasks write under names that no reader looks at
(:mod:`~slate_engine.spark.parquet.writing`), and :mod:`~slate_engine.spark.parquet.commit` says how they become visible.
"""
