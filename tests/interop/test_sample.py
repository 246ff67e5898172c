"""The sample databases, which SlateDB 0.17 wrote: every file decodes, and every database gives its rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slate_engine.format.filters import Bloom
from slate_engine.format.sst import open_sst
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.wal import read_wal
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.store import boundary
from tests.interop import ours
from tests.interop.history import Row
from tests.interop.original import Original, get
from tests.interop.style import Style
from tests.unit.format.samples import First3

DATA = Path(__file__).parents[1] / "data"
STORE = DATA / "store"
EXPECTED = sorted(path.stem for path in (DATA / "expected").glob("*.json"))
STYLES = {"big": Style(SstOptions(filters=(Bloom(12, First3()),))), "seg": Style(segments=First3())}


def expected_rows(name: str) -> list[Row]:
    listed = json.loads((DATA / "expected" / f"{name}.json").read_text())
    return [Row(bytes.fromhex(key), bytes.fromhex(value), *numbers) for key, value, *numbers in listed]


async def snapshot_of(name: str) -> Snapshot:
    path, _, checkpoint = name.partition("@")
    database = ours.database(ours.folder_store(STORE), path, STYLES.get(path, Style()))
    return await (database.checkpoint(checkpoint) if checkpoint else database.latest())


def test_the_sample_is_all_there() -> None:
    assert len(EXPECTED) == 13
    assert len(list(STORE.iterdir())) == 15


@pytest.mark.parametrize("name", EXPECTED)
async def test_a_database_gives_its_rows(name: str) -> None:
    await ours.check(await snapshot_of(name), expected_rows(name), absent=[b"\0", b"nope", b"\xff" * 9])


@pytest.mark.parametrize("path", sorted(path.name for path in STORE.iterdir()))
async def test_every_state_that_is_kept_is_what_the_original_sees(path: str) -> None:
    """Also where nobody wrote down what to expect: each newest state, and each checkpoint by its id."""
    style = STYLES.get(path, Style())
    original = Original(STORE, style)
    database = ours.database(ours.folder_store(STORE), path, style)
    for checkpoint in [None, *(str(each.id) for each in (await database.manifest()).checkpoints)]:
        snapshot = await (database.latest() if checkpoint is None else database.checkpoint(checkpoint))
        async with original.reader(path, checkpoint) as reader:
            rows = await ours.scan(snapshot)
            assert rows == await original.rows(path, checkpoint)
            for row in ours.every(rows, 10):
                assert await ours.get(snapshot, row.key) == await get(reader, row.key) == row


def test_every_file_decodes() -> None:
    decoded: dict[str, int] = {}
    for path in sorted(STORE.glob("**/*")):
        if path.is_file():
            kind = decode(path)
            decoded[kind] = decoded.get(kind, 0) + 1
    assert decoded == {
        "manifest": 86,
        "compactions": 23,
        "compacted": 48,
        "wal": 48,
        "fence": 13,
        "boundary": 2,
    }


def decode(path: Path) -> str:
    """Decode one file whole; gives what it was."""
    data, name = path.read_bytes(), str(path.relative_to(STORE))
    match path.parent.name:
        case "manifest":
            decode_manifest(data, object=name)
        case "compactions":
            decode_compactions(data, object=name)
        case "compacted":
            sst = open_sst(data, object=name)
            stats = sst.stats()
            assert stats is not None
            assert len(sst.rows()) == stats.num_puts + stats.num_deletes + stats.num_merges
            sst.filters()
        case "wal":
            assert bool(len(read_wal(data, object=name))) == bool(data)
            return "wal" if data else "fence"
        case "gc":
            assert boundary.parse(data, name) > 0
            return "boundary"
        case other:
            pytest.fail(f"{name}: nothing is known of {other}")
    return path.parent.name
