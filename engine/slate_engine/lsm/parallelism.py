"""How many WAL files the writers of a database may have had under way at once.

A new writer has to fence as many ids. SlateDB's manifest has no place for the number and its processes drop fields that
they do not know, so it stands in an object of its own, which is written before the first parallel write and only grows.
A database without that object was written one file at a time.
"""

from __future__ import annotations

from slate_engine.errors import CorruptData
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.store.protocol import CREATE, Conflict, NotFound, Update

LARGEST = 1024


def _key(files: DatabaseFiles) -> str:
    return files.paths.under("gc/max_parallel_writes")


async def read_window(files: DatabaseFiles) -> int:
    """The number of ids to fence."""
    return (await _read(files))[0]


async def widen_window(files: DatabaseFiles, wanted: int) -> None:
    """Make the durable number at least ``wanted``."""
    while True:
        value, etag = await _read(files)
        if value >= wanted:
            return
        try:
            await files.store.put(_key(files), b"%d" % wanted, CREATE if etag is None else Update(etag))
        except Conflict:
            continue


async def _read(files: DatabaseFiles) -> tuple[int, str | None]:
    try:
        found = await files.store.get(_key(files))
    except NotFound:
        return 1, None
    text = bytes(found.data[:32]).strip()
    if not text.isdigit() or not 1 <= int(text) <= LARGEST:
        raise CorruptData(f"not a number from 1 to {LARGEST}: {text!r}", object=_key(files))
    return int(text), found.meta.etag
