"""The original has no soft destroy, and respects ours all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import slatedb.uniffi as u

from slate_engine.admin.destroying import destroy_hard, destroy_softly, objects_of, read_time, undelete
from slate_engine.format.filters import Point, Prefix
from slate_engine.format.key_range import ALL
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import NothingStored
from slate_engine.state.manifest import Checkpoint
from slate_engine.state.tombstone import Destroyed, Tombstone
from tests.interop import ours
from tests.interop.history import Model
from tests.interop.original import Original
from tests.interop.plan import play_theirs
from tests.interop.style import Style
from tests.interop.test_gc import BUSY, COMPACTING, theirs

pytestmark = pytest.mark.usefixtures("no_linger")


class FirstByte:
    def name(self) -> str:
        return "first byte; quite odd"

    def prefix_len(self, target: Point | Prefix) -> int | None:
        return 1


def files(them: Original) -> DatabaseFiles:
    return ours.database(ours.folder_store(them.folder), "db", them.style)


@pytest.fixture(params=[None, FirstByte()], ids=["plain", "segments"])
async def them(tmp_path: Path, request: pytest.FixtureRequest) -> Original:
    original = Original(tmp_path, Style(segments=request.param))
    await play_theirs(original, "db", BUSY, Model(), **COMPACTING)
    return original


async def refused(work: Any, *reasons: str) -> None:
    with pytest.raises(u.Error) as found:
        await work
    assert any(reason in str(found.value) for reason in reasons), found.value


async def open_and_close(them: Original) -> None:
    async with them.writer("db"):
        pass


async def test_no_process_of_the_original_uses_it_and_undelete_gives_all_of_it_back(them: Original) -> None:
    rows = await them.rows("db")
    kept = await them.create_checkpoint("db")
    await destroy_softly(files(them))
    admin = them.admin("db")
    extractor = "segment extractor configuration mismatch"
    await refused(them.rows("db"), extractor, "invalid DB state")
    await refused(them.rows("db", kept), extractor, "invalid DB state")
    await refused(open_and_close(them), extractor)
    await refused(them.create_checkpoint("db"), "invalid DB state")
    await refused(them.clone([("db", None, ALL)], "clone"), "invalid DB state")
    # Its administration may go on, and keeps the mark.
    await admin.delete_checkpoint(kept)
    await admin.run_gc_once(theirs())
    manifest = (await files(them).manifests.read_latest()).value
    name = None if them.style.segments is None else them.style.segments.name()
    assert Tombstone.of(manifest) == Tombstone(await read_time(files(them)) or 0, name)
    with pytest.raises(Destroyed):
        await files(them).latest()
    await undelete(files(them))
    assert ours.brief(await them.rows("db")) == ours.brief(rows)
    assert ours.brief(await ours.scan(await files(them).latest())) == ours.brief(rows)
    await open_and_close(them)
    assert ours.brief(await them.rows("db")) == ours.brief(rows)


async def test_checkpoints_that_writers_made_for_themselves_go(tmp_path: Path) -> None:
    """RFC-0004 has them, the original of today makes none: it reads past what it does not use."""
    them = Original(tmp_path, Style())
    await play_theirs(them, "db", BUSY[:4], Model())
    rows = await them.rows("db")
    writers = Checkpoint(UUID(int=9, version=4), 1, None, 1_700_000_000, writer_epoch=1)
    await files(them).manifests.update(lambda old: replace(old, checkpoints=(*old.checkpoints, writers)))
    assert [each.id for each in await them.admin("db").list_checkpoints(None)] == [str(writers.id)]
    assert ours.brief(await them.rows("db")) == ours.brief(rows)
    await destroy_softly(files(them))
    assert await them.admin("db").list_checkpoints(None) == []
    await undelete(files(them))
    assert ours.brief(await them.rows("db")) == ours.brief(rows)


async def test_a_live_writer_of_the_original_is_fenced(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    await play_theirs(them, "db", BUSY, Model(), **COMPACTING)
    builder = u.DbBuilder("db", them.store)
    db = await builder.build()
    await db.put(b"before", b"1")
    await db.flush()
    await destroy_softly(files(them))

    async def write_on() -> None:
        for _ in range(1200):
            await db.put(b"after", b"2")
            await asyncio.sleep(0.1)

    with pytest.raises(u.Error.Closed) as closed:
        await write_on()
    assert closed.value.reason is u.CloseReason.FENCED
    await undelete(files(them))
    assert b"before" in [row.key for row in await them.rows("db")]


async def test_each_finishes_a_deletion_of_the_other(them: Original) -> None:
    mine = files(them)
    planned = await them.admin("db").delete_db(False)
    assert sorted(planned) == await objects_of(mine)
    # We have begun, and crashed before the manifest was deleted.
    names = [name for name in planned if "/manifest/" not in name]
    await destroy_softly(mine)
    await mine.store.delete(names[::2])
    await them.admin("db").delete_db(True)
    assert not [file for file in (them.folder / "db").rglob("*") if file.is_file()]
    with pytest.raises(NothingStored):
        await destroy_hard(mine)
    # They have begun, and crashed when the manifest was gone.
    await mine.store.put("db/.deleting", b"")
    await mine.store.put("db/compacted/01M7GT22VVDBJD9VEAYK93725G.sst", b"")
    await destroy_hard(mine)
    assert not [file for file in (them.folder / "db").rglob("*") if file.is_file()]
    # The name is free again, for both.
    await play_theirs(them, "db", BUSY[:4], Model())
    assert len(await them.rows("db")) == 2
