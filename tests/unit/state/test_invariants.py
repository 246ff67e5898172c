"""Each rule that a manifest must keep: broken, it stops the write, and where readers rely on it also the read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.key_range import Bound, KeyRange
from slate_engine.state import invariants
from slate_engine.state.invariants import InvalidManifest, check_succession, validate
from slate_engine.state.manifest import THIS_MANIFEST, Checkpoint, ExternalDb, Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import Segment, SortedRun, Tree, Trees
from slate_engine.state.views import NO_VIEWS, SstView, Views
from tests.unit.state.reference import encode_table
from tests.unit.state.test_views_and_trees import sst, view
from tests.unit.state.wire import manifest_v2

CHECKPOINT = Checkpoint(UUID(int=5), 3, None, 1_700_000_000)


def l0(*views: SstView) -> Manifest:
    return Manifest(trees=Trees(Tree(Views.of(views))))


def run(*views: SstView, id: int = 1) -> Manifest:
    return Manifest(trees=Trees(Tree(runs=(SortedRun(id, Views.of(views)),))))


def without_first_key(number: int) -> SstView:
    whole = view(number)
    return replace(whole, sst=SstHandle(whole.sst.id, replace(whole.sst.info, first_entry=None), 2))


GOOD = {
    "empty": Manifest(),
    "an SST of old, without a last key": l0(view(1, last=None)),
    "one key": l0(view(1, b"a", b"a")),
    "a visible range that touches": l0(view(1, b"b", b"d", KeyRange.closed(b"d", b"x"))),
    "neighbours that share a key": run(view(1, b"a", b"c"), view(2, b"c", b"e")),
    "neighbours cut apart": run(
        view(1, b"a", b"m", KeyRange.half_open(b"a", b"c")), view(2, b"b", b"z", KeyRange.half_open(b"c", None))
    ),
    "neighbours that share a key, the first cut right after it": run(
        view(1, b"a", b"z", KeyRange.half_open(b"a", b"c\x00")), view(2, b"c", b"e")
    ),
    "a run of old SSTs": run(view(1, b"a", None), view(2, b"b", None)),
    "an empty run between two": Manifest(
        trees=Trees(
            Tree(
                Views.of([view(9)]),
                (
                    SortedRun(3, Views.of([view(1, b"x", b"y")])),
                    SortedRun(2, NO_VIEWS),
                    SortedRun(1, Views.of([view(2, b"a", b"b")])),
                ),
            )
        )
    ),
    "segments": Manifest(trees=Trees(segments=(Segment(b"a", Tree()), Segment(b"b", Tree())))),
}

BROKEN_TREES = {
    "no first key": l0(view(1), without_first_key(2)),
    "last before first": l0(view(1), view(2, b"b", b"a")),
    "a range beyond the SST": l0(view(1, b"b", b"d", KeyRange.half_open(b"e", b"f"))),
    "a range before the SST": l0(view(1, b"b", b"d", KeyRange.half_open(b"a", b"b"))),
    "a range that starts excluded": l0(view(1, b"a", b"d", KeyRange(Bound.excluded(b"b"), Bound.included(b"c")))),
    "overlap": run(view(1, b"a", b"d"), view(2, b"c", b"e")),
    "overlap in the second run": Manifest(
        trees=Trees(
            Tree(
                Views.of([view(8), view(9)]),
                (
                    SortedRun(2, Views.of([view(1, b"x", b"y")])),
                    SortedRun(1, Views.of([view(2, b"a", b"c"), view(3, b"b", b"d")])),
                ),
            )
        )
    ),
    "overlap by one key more": run(view(1, b"a", b"z", KeyRange.half_open(b"a", b"c\x00\x00")), view(2, b"c", b"e")),
    "overlap by a key that ends in one": run(
        view(1, b"a", b"z", KeyRange.half_open(b"a", b"c\x01")), view(2, b"c", b"e")
    ),
    "out of order": run(view(1, b"c", b"d"), view(2, b"a", b"b")),
    "old SSTs out of order": run(view(1, b"c", None), view(2, b"a", None)),
    "a segment with the root's prefix": Manifest(trees=Trees(segments=(Segment(b"", Tree()),))),
    "a segment twice": Manifest(trees=Trees(segments=(Segment(b"a", Tree()), Segment(b"a", Tree())))),
    "a segment in another": Manifest(trees=Trees(segments=(Segment(b"a", Tree()), Segment(b"ab", Tree())))),
}

BROKEN = {
    "run ids ascend": Manifest(trees=Trees(Tree(runs=(SortedRun(1, NO_VIEWS), SortedRun(2, NO_VIEWS))))),
    "a run id twice in a tree": Manifest(trees=Trees(Tree(runs=(SortedRun(2, NO_VIEWS), SortedRun(2, NO_VIEWS))))),
    "a run id in two trees": Manifest(
        trees=Trees(Tree(runs=(SortedRun(2, NO_VIEWS),)), (Segment(b"a", Tree(runs=(SortedRun(2, NO_VIEWS),))),))
    ),
    "a run id of 33 bits": run(view(1), id=2**32),
    "a format version of 17 bits": l0(replace(view(1), sst=replace(sst(1), format_version=2**16))),
    "segments out of order": Manifest(trees=Trees(segments=(Segment(b"b", Tree()), Segment(b"a", Tree())))),
    "no next WAL id": Manifest(wal_id_last_seen=2**64 - 1),
    "an epoch of 65 bits": Manifest(writer_epoch=2**64),
    "a negative seq": Manifest(last_l0_seq=-1),
    "a tick of 65 bits": Manifest(last_l0_clock_tick=2**63),
    "a checkpoint of no manifest": Manifest(checkpoints=(replace(CHECKPOINT, manifest_id=THIS_MANIFEST),)),
    "a checkpoint that expires at 0": Manifest(checkpoints=(replace(CHECKPOINT, expire_time_s=0),)),
    "a checkpoint that expires in 2106": Manifest(checkpoints=(replace(CHECKPOINT, expire_time_s=2**32),)),
    "a checkpoint made in 2106": Manifest(checkpoints=(replace(CHECKPOINT, create_time_s=2**32),)),
    "a checkpoint twice": Manifest(checkpoints=(CHECKPOINT, CHECKPOINT)),
    "a name that is no text": Manifest(checkpoints=(replace(CHECKPOINT, name="\ud800"),)),
    "a path that is no text": Manifest(external_dbs=(ExternalDb("\udfff", UUID(int=1), None, Ids.of([])),)),
}


@pytest.mark.parametrize("case", GOOD)
def test_sound_manifests_are_written_and_read(case: str) -> None:
    assert decode_manifest(encode_manifest(GOOD[case]), object="m") == GOOD[case]


@pytest.mark.parametrize("case", [*BROKEN_TREES, *BROKEN])
def test_a_broken_rule_stops_the_write(case: str) -> None:
    with pytest.raises(InvalidManifest):
        encode_manifest((BROKEN_TREES | BROKEN)[case])


@pytest.mark.parametrize("case", BROKEN_TREES)
def test_a_broken_tree_in_a_file_is_corrupt_data(case: str) -> None:
    data = b"\x00\x02" + encode_table("ManifestV2", manifest_v2(BROKEN_TREES[case]))
    with pytest.raises(CorruptData) as caught:
        decode_manifest(data, object="db/manifest/1.manifest")
    assert caught.value.object == "db/manifest/1.manifest"
    assert 2 <= caught.value.offset < len(data)


def test_segments_in_a_file_may_be_in_any_order() -> None:
    data = b"\x00\x02" + encode_table("ManifestV2", manifest_v2(BROKEN["segments out of order"]))
    assert [segment.prefix for segment in decode_manifest(data, object="m").segments] == [b"a", b"b"]


def changed(manifest: Manifest, **fields: Any) -> bytes:
    return b"\x00\x02" + encode_table("ManifestV2", manifest_v2(manifest) | fields)


def test_views_must_find_their_ssts_wherever_those_are_listed() -> None:
    manifest = l0(view(3), view(1), view(2))
    ssts = manifest_v2(manifest)["ssts"]
    assert decode_manifest(changed(manifest, ssts=ssts[::-1]), object="m") == manifest
    with pytest.raises(CorruptData, match=f"shows SST {sst(2).id}, which is not listed"):
        decode_manifest(changed(manifest, ssts=[ssts[0], ssts[2]]), object="m")
    with pytest.raises(CorruptData, match=f"SST {sst(1).id} is listed twice"):
        decode_manifest(changed(manifest, ssts=[*ssts, ssts[0]]), object="m")
    # One that no view shows is not kept.
    more = changed(manifest, ssts=[*ssts, manifest_v2(l0(view(9)))["ssts"][0]])
    assert decode_manifest(more, object="m") == manifest
    assert encode_manifest(decode_manifest(more, object="m")) == encode_manifest(manifest)


@pytest.mark.parametrize(
    "bound", [{"bound_type": 2}, {"bound_type": 1, "key": b"a"}, {"bound_type": 0}, {"bound_type": 9, "key": b"a"}]
)
def test_bounds_have_a_key_exactly_if_they_are_bounded(bound: dict[str, Any]) -> None:
    manifest = l0(view(1))
    (table,) = manifest_v2(manifest)["l0"]
    for start, end in ((bound, {"bound_type": 1}), ({"bound_type": 1}, bound)):
        visible = {"visible_range": {"start_bound": start, "end_bound": end}}
        with pytest.raises(CorruptData, match="bound"):
            decode_manifest(changed(manifest, l0=[table | visible]), object="m")


def test_an_empty_visible_range_is_corrupt() -> None:
    manifest = l0(view(1))
    (table,) = manifest_v2(manifest)["l0"]
    bound = {"bound_type": 3, "key": b"b"}
    visible = {"visible_range": {"start_bound": {"bound_type": 2, "key": b"b"}, "end_bound": bound}}
    with pytest.raises(CorruptData, match="range of keys is empty"):
        decode_manifest(changed(manifest, l0=[table | visible]), object="m")


@pytest.mark.parametrize("field", ["codec", "sst_type", "filter_format"])
def test_unknown_kinds_of_ssts_are_unsupported(field: str) -> None:
    manifest = l0(view(1))
    (table,) = manifest_v2(manifest)["ssts"]
    with pytest.raises(UnsupportedFormat, match=f"m at byte .* unknown {field} 7"):
        decode_manifest(changed(manifest, ssts=[table | {"info": table["info"] | {field: 7}}]), object="m")


def test_keys_that_are_shown_too_often_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = sst(1, b"k" * 1000, b"k" * 1000)
    manifest = l0(*(SstView(Ulid(i), shared) for i in range(40)))
    validate(manifest)
    monkeypatch.setattr(invariants, "MOST_KEY_BYTES", 40 * 2000 - 1)
    with pytest.raises(InvalidManifest, match="more bytes than"):
        validate(replace(manifest, trees=Trees(manifest.root)))


class TestSuccession:
    def test_a_new_l0_must_not_be_older_than_the_newest(self) -> None:
        before = l0(view(100), view(90))
        for fine in (l0(view(100, b"b"), view(100), view(90)), l0(view(90)), l0()):
            check_succession(before, fine)
        with pytest.raises(InvalidManifest, match="not before 100 ms"):
            check_succession(before, l0(view(99), view(100), view(90)))
        # It may have been compacted meanwhile: the marker remembers.
        compacted = Manifest(trees=Trees(Tree(last_compacted_l0_view=Ulid.of(100, 0))))
        with pytest.raises(InvalidManifest):
            check_succession(compacted, l0(view(99)))
        check_succession(compacted, l0(view(100)))

    def test_the_watermark_is_that_of_all_trees(self) -> None:
        before = Manifest(trees=Trees(Tree(), (Segment(b"s", Tree(Views.of([view(100, b"s", b"t")]))),)))
        with pytest.raises(InvalidManifest):
            check_succession(before, replace(before, trees=replace(before.trees, root=Tree(Views.of([view(50)])))))

    def test_epochs_do_not_go_back(self) -> None:
        for field in ("writer_epoch", "compactor_epoch"):
            with pytest.raises(InvalidManifest, match="epoch"):
                check_succession(Manifest(**{field: 2}), Manifest(**{field: 1}))


def test_the_rules_run_over_columns_not_over_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """No handle is made while a manifest is checked, written and read."""
    keys = [b"%06d" % i for i in range(2000)]
    ssts = [sst(i + 1, keys[i], keys[i + 1]) for i in range(len(keys) - 1)]
    manifest = run(*(SstView(each.id, each) for each in ssts))
    monkeypatch.setattr("slate_engine.state.ssts.SstHandle", None)
    assert np.array_equal(decode_manifest(encode_manifest(manifest), object="m").ssts.id.high, manifest.ssts.id.high)
