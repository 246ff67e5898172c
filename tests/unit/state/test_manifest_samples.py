"""Every manifest that the original wrote reads as the original itself reads it, and goes on as such when we write it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import slatedb.uniffi as u

from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from tests.unit.state.samples import DATABASES, MANIFESTS, STORE, name
from tests.unit.state.wheel import admin, our_manifest, store_at, wheels_manifest


def test_there_are_samples() -> None:
    assert len(MANIFESTS) == 86


@pytest.mark.parametrize("file", MANIFESTS, ids=name)
def test_read_and_written_again_it_is_the_same_and_no_larger(file: Path) -> None:
    data = file.read_bytes()
    manifest = decode_manifest(data, object=name(file))
    again = encode_manifest(manifest)
    assert decode_manifest(again, object="again") == manifest
    assert len(again) <= len(data)
    # Whatever does not show in the value would be lost here.
    assert encode_manifest(decode_manifest(again, object="again")) == again


@pytest.mark.parametrize("database", DATABASES)
async def test_the_wheel_sees_the_same_in_its_files_and_in_ours(database: str, tmp_path: Path) -> None:
    shutil.copytree(STORE / database, tmp_path / database)
    original = admin(tmp_path, database)
    files = [file for file in MANIFESTS if file.parts[-3] == database]
    for file in files:
        id = int(file.stem)
        ours = decode_manifest(file.read_bytes(), object=name(file))
        theirs = await original.read_manifest(id)
        assert wheels_manifest(theirs) == our_manifest(ours)
        # The same number in another database, so that the old file is not in the way.
        copy = tmp_path / f"{database}-{id}" / "manifest" / f"{id:020d}.manifest"
        copy.parent.mkdir(parents=True)
        copy.write_bytes(encode_manifest(ours))
        theirs = await admin(tmp_path, f"{database}-{id}").read_manifest(id)
        assert wheels_manifest(theirs) == our_manifest(ours)


@pytest.mark.parametrize("database", DATABASES)
async def test_the_wheel_reads_the_same_rows_through_our_manifest(database: str, tmp_path: Path) -> None:
    shutil.copytree(STORE, tmp_path, dirs_exist_ok=True)
    newest = max((tmp_path / database / "manifest").iterdir())
    manifest = decode_manifest(newest.read_bytes(), object=newest.name)
    before = await _rows(tmp_path, database, manifest)
    ours = encode_manifest(manifest)
    (newest.parent / f"{int(newest.stem) + 1:020d}.manifest").write_bytes(ours)
    assert before
    assert await _rows(tmp_path, database, manifest) == before


async def _rows(folder: Path, database: str, manifest: Manifest) -> list[tuple[bytes, bytes, int]]:
    builder = u.DbReaderBuilder(database, store_at(folder))
    builder.with_reader_mode(u.ReaderMode.FOLLOW_LATEST())
    builder.with_merge_operator(_Append())
    if manifest.segment_extractor_name is not None:
        builder.with_segment_extractor(_Segments(manifest))
    reader = await builder.build()
    try:
        rows = await reader.scan(u.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False))
        found = []
        while (row := await rows.next()) is not None:
            found.append((row.key, row.value, row.seq))
        return found
    finally:
        await reader.shutdown()


class _Segments(u.PrefixExtractor):
    """Finds the segments that the manifest has."""

    def __init__(self, manifest: Manifest) -> None:
        super().__init__()
        self._name = manifest.segment_extractor_name or ""
        self._prefixes = [segment.prefix for segment in manifest.segments]

    def name(self) -> str:
        return self._name

    def prefix_len(self, target: u.PrefixTarget) -> int | None:
        key = target.key if target.is_point() else target.prefix
        return next((len(prefix) for prefix in self._prefixes if key.startswith(prefix)), None)


class _Append(u.MergeOperator):
    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand
