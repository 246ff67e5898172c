"""The two bytes before the FlatBuffer of a manifest or of ``.compactions``: its version, big endian."""

from __future__ import annotations

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.flatbuf.reader import Source
from slate_engine.format.sst_meta import Buffer

VERSION = 2
"""The version of both that SlateDB 0.17 writes, and so do we."""

PREFIX = VERSION.to_bytes(2, "big")


def open_envelope(data: Buffer, *, object: str, versions: tuple[int, ...]) -> tuple[int, Source]:
    if len(data) < 2:
        raise CorruptData("it is too short for a version", object=object, offset=0)
    version = int.from_bytes(data[:2], "big")
    if version not in versions:
        known = " or ".join(map(str, versions))
        raise UnsupportedFormat(
            f"{object} has format version {version}, known is {known}: use the newer SlateDB that wrote it"
        )
    return version, Source(memoryview(data)[2:], object=object, base=2)
