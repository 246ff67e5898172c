"""Random manifests survive our own hands, Google's FlatBuffers runtime, and the original."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from slate_engine.errors import UnsupportedFormat
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.tree import SortedRun, Tree, Trees
from slate_engine.state.views import SstView, Views
from tests.unit.state import reference
from tests.unit.state.drawn import manifests
from tests.unit.state.reference import decode_table, encode_table
from tests.unit.state.wheel import admin, our_manifest, wheels_manifest
from tests.unit.state.wire import manifest_v1, manifest_v2


@given(manifests())
def test_what_we_write_we_read(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest), object="m") == manifest


@given(manifests())
def test_what_we_write_the_reference_reads(manifest: Manifest) -> None:
    data = encode_manifest(manifest)
    assert data[:2] == b"\x00\x02"
    assert decode_table("ManifestV2", data[2:]) == manifest_v2(manifest)


@given(manifests())
def test_what_the_reference_writes_we_read(manifest: Manifest) -> None:
    data = b"\x00\x02" + encode_table("ManifestV2", manifest_v2(manifest))
    assert decode_manifest(data, object="m") == manifest
    # Padding apart, ours is never larger.
    assert len(encode_manifest(manifest)) <= len(data) + 16


@given(manifests(segmented=False))
def test_version_1_is_read_with_sst_ids_for_view_ids(manifest: Manifest) -> None:
    manifest = replace(manifest, wal_object_store_uri="s3://wal", segment_extractor_name=None)
    data = b"\x00\x01" + encode_table("ManifestV1", manifest_v1(manifest))
    read = decode_manifest(data, object="m")
    assert read == replace(manifest, trees=Trees(_as_version_1(manifest.root)))
    # And it goes on as version 2, which has no place for the store of the WAL.
    assert decode_manifest(encode_manifest(read), object="m") == replace(
        read, wal_object_store_uri=None, trees=Trees(replace(read.root, last_compacted_l0_sst=None))
    )


def _as_version_1(tree: Tree) -> Tree:
    def renamed(views: Views) -> Views:
        return Views.of(SstView(view.sst.id, view.sst, view.visible_range) for view in views)

    marker = tree.last_compacted_l0_view
    runs = tuple(SortedRun(run.id, renamed(run.views)) for run in tree.runs)
    return Tree(renamed(tree.l0), runs, marker, last_compacted_l0_sst=marker)


@settings(max_examples=25)
@given(manifests(), manifests(segmented=False))
def test_the_wheel_sees_what_we_wrote(manifest: Manifest, old: Manifest) -> None:
    """In version 2 by our hand, and in version 1 by the reference's: so our reading of both is the wheel's."""
    old = replace(old, wal_object_store_uri="uri", segment_extractor_name=None)
    written = b"\x00\x01" + encode_table("ManifestV1", manifest_v1(old))
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "db" / "manifest"
        files.mkdir(parents=True)
        (files / f"{1:020d}.manifest").write_bytes(encode_manifest(manifest))
        (files / f"{2:020d}.manifest").write_bytes(written)
        first, second = asyncio.run(_read(Path(folder), 2))
    assert first == our_manifest(manifest)
    assert second == our_manifest(decode_manifest(written, object="m"))


async def _read(folder: Path, count: int) -> list[dict[str, object]]:
    wheel = admin(folder, "db")
    return [wheels_manifest(await wheel.read_manifest(id)) for id in range(1, count + 1)]


@pytest.mark.parametrize("version", [0, 3, 258])
def test_other_versions_are_refused_by_name(version: int) -> None:
    data = version.to_bytes(2, "big") + encode_manifest(Manifest())[2:]
    with pytest.raises(UnsupportedFormat, match=f"db/manifest/7.manifest has format version {version}"):
        decode_manifest(data, object="db/manifest/7.manifest")


def test_the_first_manifest_of_a_database_is_as_small_as_upstreams() -> None:
    data = encode_manifest(Manifest())
    assert len(data) <= 130
    assert decode_table("ManifestV2", data[2:]) == {
        "initialized": 1,
        "ssts": [],
        "l0": [],
        "compacted": [],
        "last_l0_clock_tick": -(2**63),
        "checkpoints": [],
        "sequence_tracker": b"\x01" + bytes(12),
        "segments": [],
    }


def test_unknown_fields_are_ignored() -> None:
    """A later version may append fields: here, a string in slot 18 of a table that has all others."""
    manifest = Manifest(segment_extractor_name="x", writer_epoch=3)
    value = manifest_v2(manifest)
    table = reference.SCHEMA.tables["ManifestV2"]
    extra = replace(table.members[-1], name="destroyed")
    reference.SCHEMA.tables["ManifestV2"] = replace(table, members=(*table.members, extra))
    try:
        data = b"\x00\x02" + encode_table("ManifestV2", value | {"destroyed": "now"})
    finally:
        reference.SCHEMA.tables["ManifestV2"] = table
    assert decode_manifest(data, object="m") == manifest
