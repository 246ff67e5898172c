"""How a table is laid out in files, as the options of the write say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slate_engine.errors import InvalidError
from slate_engine.spark.options import MIB, Given

OPTIONS = ("compression", "partBytes", "rowGroupBytes")
CODECS = {
    "none": "none",
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "brotli": "brotli",
    "zstd": "zstd",
    "lz4": "lz4",
    "lz4_raw": "lz4",
}
"""What Spark calls a codec, and what Arrow does."""

LARGEST_PART = 4096 * MIB
"""More, and services refuse to copy it in one request."""


@dataclass(frozen=True)
class Layout:
    compression: str = "snappy"
    part_bytes: int = 256 * MIB
    """A file ends with the row group that makes it so long."""
    group_bytes: int = 64 * MIB
    """Rows of so many bytes are held in memory, and become a row group."""

    @staticmethod
    def of(options: Mapping[str, str]) -> Layout:
        given, default = Given(options), Layout()
        for name in options:
            if name.lower() not in {known.lower() for known in OPTIONS}:
                raise InvalidError(f"a Parquet table has no option {name!r}; it has {', '.join(OPTIONS)}")
        compression = given.choice("compression", CODECS, default.compression)
        part, group = given.size("partBytes", default.part_bytes), given.size("rowGroupBytes", default.group_bytes)
        if part > LARGEST_PART:
            raise InvalidError(f"partBytes must be at most {LARGEST_PART >> 30}g, which stores can copy, and is {part}")
        return Layout(CODECS[compression], part, min(group, part))
