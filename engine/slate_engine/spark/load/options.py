"""What a bulk load can be told, and how much of it the tasks on executors are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slate_engine.errors import InvalidError
from slate_engine.format.sst_meta import Codec
from slate_engine.spark.options import LOCATION, MIB, Given, Location

LOAD = (
    "rangePartitioned",
    "duplicates",
    "ttl",
    "codec",
    "sstBytes",
    "memoryBytes",
    "maxDuration",
    "takeOver",
    "report",
)

CODECS = {codec.name.lower(): codec for codec in Codec}


@dataclass(frozen=True)
class LoadOptions:
    """The options of ``df.write.format("slatedb")``."""

    range_partitioned: bool = False
    """The ranges of keys of the partitions are apart, so all rows become one sorted run. Without it partitions may lie over
    one another, as runs of their own, and the driver makes sure that no key is in two of them."""
    any_of_duplicates: bool = False
    """Of several rows with one key in a partition any one is kept; without it such rows end the load."""
    ttl_ms: int | None = None
    """Rows without an ``expire_ts`` of their own expire so long after the load began."""
    codec: Codec | None = None
    """How SSTs are compressed: as the newest SST of the database, if that is left open."""
    sst_bytes: int = 256 * MIB
    memory_bytes: int = 512 * MIB
    """What a task holds of its rows at most. Of a larger partition sorted parts go to the executor's local disk."""
    max_duration_ms: int = 24 * 3_600_000
    """Until then the load has to be committed: for so long no garbage collector touches what it has written."""
    take_over: bool = False
    """Go ahead although somebody else's writer or compactor seems to be at work: it loses the database."""
    report: str = ""
    """A file on the driver's machine that is to say, as JSON, what was committed."""

    @staticmethod
    def of(options: Mapping[str, str]) -> tuple[Location, LoadOptions]:
        given = Given(options)
        given.check_known(*LOCATION, *LOAD)
        default = LoadOptions()
        codec = given.text("codec").lower()
        if codec and codec not in CODECS:
            raise InvalidError(f"option codec must be one of {', '.join(CODECS)}, and is {codec!r}")
        return Location.of(given), LoadOptions(
            range_partitioned=_flag(given, "rangePartitioned"),
            any_of_duplicates=given.choice("duplicates", ("fail", "any"), "fail") == "any",
            ttl_ms=given.lifetime_ms("ttl", "") if given.text("ttl") else None,
            codec=CODECS[codec] if codec else None,
            sst_bytes=given.size("sstBytes", default.sst_bytes),
            memory_bytes=given.size("memoryBytes", default.memory_bytes),
            max_duration_ms=given.lifetime_ms("maxDuration", "24h"),
            take_over=_flag(given, "takeOver"),
            report=given.text("report"),
        )


def _flag(given: Given, name: str) -> bool:
    return given.choice(name, ("true", "false"), "false") == "true"
