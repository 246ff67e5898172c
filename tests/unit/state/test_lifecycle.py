"""What clones, destroying, restoring and detaching make of any manifest: properties of the pure transitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.manifest import large_manifest
from slate_engine.errors import Fenced
from slate_engine.format.ids import Ids
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.runtime import SystemRuntime
from slate_engine.state.checkpoints import CheckpointExpired, CheckpointMissing, NotInitialized
from slate_engine.state.clones import InvalidUnion, Source, cloned, finished, projected, united
from slate_engine.state.destroy import (
    RETURN_S,
    BeingUndeleted,
    InvalidDeletion,
    NotAnnounced,
    NotDestroyed,
    active_checkpoints,
    announced,
    claimed_for_deletion,
    softly_destroyed,
    undeleted,
    withdrawn,
)
from slate_engine.state.detach import attached, detachable, detached
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.restore import Restoration, restored
from slate_engine.state.tombstone import Destroyed, Tombstone, check_alive, life_of
from slate_engine.state.tree import Segment, Tree, Trees
from tests.unit.state.drawn import key_ranges, keys, manifests

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
A, B = UUID(int=1), UUID(int=2)
CHANCE = SystemRuntime()
FEW = settings(max_examples=30)


def ids() -> Callable[[], UUID]:
    numbers = itertools.count(1000)
    return lambda: UUID(int=next(numbers))


@st.composite
def living(draw: st.DrawFn) -> Manifest:
    """A whole database, with room for another epoch."""
    drawn = draw(manifests())
    return replace(
        drawn, initialized=True, writer_epoch=draw(st.integers(0, 9)), compactor_epoch=draw(st.integers(0, 9))
    )


def shown(manifest: Manifest) -> list[tuple[object, KeyRange]]:
    return [(view.sst.id, view.key_range) for tree in manifest.trees for views in tree.views() for view in views]


# --- destroying ------------------------------------------------------------------------------------------------------


@FEW
@given(living())
def test_undeleting_gives_back_all_but_the_epochs(manifest: Manifest) -> None:
    destroyed = softly_destroyed(manifest, now_s=NOW_S)
    assert softly_destroyed(destroyed, now_s=NOW_S + 9) is destroyed
    # The mark is still there when SlateDB, or we, have written the manifest anew.
    again = decode_manifest(encode_manifest(destroyed), object="test")
    assert Tombstone.of(again) == Tombstone(NOW_S, manifest.segment_extractor_name)
    said = announced(again, now_s=NOW_S + 20)
    back = undeleted(decode_manifest(encode_manifest(said), object="test"), now_s=NOW_S + 21, since_s=NOW_S + 20)
    assert undeleted(back, now_s=NOW_S + 22, since_s=NOW_S + 20) is back
    assert announced(back, now_s=NOW_S + 22) is back
    assert (back.writer_epoch, back.compactor_epoch) == (manifest.writer_epoch + 1, manifest.compactor_epoch + 1)
    others = tuple(each for each in manifest.checkpoints if each.writer_epoch is None)
    assert replace(back, writer_epoch=manifest.writer_epoch, compactor_epoch=manifest.compactor_epoch) == replace(
        decode_manifest(encode_manifest(manifest), object="test"), checkpoints=others
    )


@FEW
@given(manifests().map(lambda drawn: replace(drawn, writer_epoch=1, compactor_epoch=1)), st.integers(0, 2**32))
def test_nothing_is_deleted_that_a_checkpoint_needs(manifest: Manifest, now_s: int) -> None:
    active = active_checkpoints(manifest, now_ms=now_s * 1000)
    assert active == [each for each in manifest.checkpoints if each.expire_time_s is None or each.expire_time_s > now_s]
    if active:
        with pytest.raises(InvalidDeletion, match=str(active[0].id)) as refused:
            claimed_for_deletion(manifest, now_ms=now_s * 1000)
        assert refused.value.checkpoints == tuple(active)
        return
    claimed = claimed_for_deletion(manifest, now_ms=now_s * 1000)
    assert claimed_for_deletion(claimed, now_ms=now_s * 1000) is claimed
    assert claimed.checkpoints == ()
    with pytest.raises(Destroyed, match="is being deleted for good"):
        announced(claimed, now_s=now_s)
    with pytest.raises(Destroyed, match="is being deleted for good"):
        undeleted(claimed, now_s=now_s, since_s=now_s)


def test_nothing_is_deleted_that_somebody_brings_back() -> None:
    destroyed = softly_destroyed(Manifest(), now_s=NOW_S)
    with pytest.raises(NotAnnounced):
        undeleted(destroyed, now_s=NOW_S, since_s=NOW_S)
    said = announced(destroyed, now_s=NOW_S)
    assert announced(said, now_s=NOW_S + RETURN_S // 2 - 1) is said, "it was said a moment ago"
    assert Tombstone.of(said) == Tombstone(NOW_S, None, returning_s=NOW_S)
    with pytest.raises(Destroyed):
        check_alive(said)
    for now_s in (NOW_S - RETURN_S + 1, NOW_S, NOW_S + RETURN_S - 1):
        with pytest.raises(BeingUndeleted, match="began to undelete it"):
            claimed_for_deletion(said, now_ms=now_s * 1000)
    # He never came to the end: from then on it may be deleted, and he must not come to it any more.
    late = NOW_S + RETURN_S
    with pytest.raises(NotAnnounced):
        undeleted(said, now_s=late, since_s=NOW_S)
    with pytest.raises(NotAnnounced):
        undeleted(said, now_s=NOW_S, since_s=NOW_S - 1)
    assert life_of(claimed_for_deletion(said, now_ms=late * 1000)) == "being deleted"
    # Or he says it again, or gives it up.
    assert Tombstone.of(announced(said, now_s=late)) == Tombstone(NOW_S, None, returning_s=late)
    assert withdrawn(said) == destroyed
    assert withdrawn(destroyed) is destroyed
    assert life_of(claimed_for_deletion(withdrawn(said), now_ms=NOW_S * 1000)) == "being deleted"


def test_what_cannot_be_destroyed_or_taken_back() -> None:
    unfinished = Manifest(initialized=False)
    with pytest.raises(NotInitialized):
        softly_destroyed(unfinished, now_s=NOW_S)
    with pytest.raises(NotDestroyed):
        announced(unfinished, now_s=NOW_S)
    with pytest.raises(NotDestroyed):
        undeleted(unfinished, now_s=NOW_S, since_s=NOW_S)


# --- clones ----------------------------------------------------------------------------------------------------------


@FEW
@given(living())
def test_a_clone_shows_the_same_and_says_where_it_lies(manifest: Manifest) -> None:
    clone = cloned(Source("parent of it", A, manifest), ids(), CHANCE)
    assert not clone.initialized
    assert clone.checkpoints == ()
    assert shown(clone) == shown(manifest)
    # Every SST is found where the parent finds it, or with the parent.
    home = [external.path for external in manifest.external_dbs]
    expected = [home[owner] if owner >= 0 else "parent of it" for owner in manifest.owners.tolist()]
    assert [clone.external_dbs[owner].path for owner in clone.owners.tolist()] == expected
    finals = [external.final_checkpoint_id for external in clone.external_dbs]
    assert None not in finals
    assert len({*finals}) == len(finals)
    assert finished(finished(clone)) == replace(clone, initialized=True)


@FEW
@given(living(), key_ranges(), key_ranges(), st.lists(keys, max_size=8))
def test_a_projection_shows_those_keys_and_no_others(
    manifest: Manifest, first: KeyRange, second: KeyRange, some: list[bytes]
) -> None:
    both = first.intersect(second)
    assume(both is not None)
    assert both is not None
    once, twice = projected(manifest, both, CHANCE), projected(projected(manifest, first, CHANCE), second, CHANCE)
    assert shown(projected(manifest, ALL, CHANCE)) == shown(manifest)
    for part in (once, twice):
        for key in some:
            through = [sst for sst, range in shown(part) if key in range]
            wanted = [sst for sst, range in shown(manifest) if key in range and key in both]
            assert through == wanted, (key, both)
        listed = {id for external in part.external_dbs for id in external.sst_ids}
        assert listed <= {*part.ssts.id}


def test_what_cannot_be_united() -> None:
    plain, named = Manifest(), Manifest(segment_extractor_name="by day")
    with pytest.raises(InvalidUnion, match=r"\['None', 'by day'\]"):
        united([Source("a", A, plain), Source("b", B, named)], ids(), CHANCE)
    assert united([Source("a", A, plain), Source("b", B, plain)], ids(), CHANCE).trees == Trees()


@FEW
@given(living(), keys)
def test_two_halves_united_are_the_whole(manifest: Manifest, middle: bytes) -> None:
    assume(middle != b"")
    halves = KeyRange.half_open(None, middle), KeyRange.half_open(middle, None)
    sources = [Source(f"half {i}", UUID(int=i), projected(manifest, half, CHANCE)) for i, half in enumerate(halves)]
    for source in sources:
        assume(all(each.path not in ("half 0", "half 1") for each in source.manifest.external_dbs))
    try:
        whole = united(sources, ids(), CHANCE)
    except InvalidUnion:
        # A view whose range begins below its SST's first key may reach over the middle, or a segment into another.
        return
    assert {*whole.ssts.id} == {id for source in sources for id in source.manifest.ssts.id}
    assert (whole.writer_epoch, whole.replay_after_wal_id, whole.checkpoints) == (0, 0, ())
    runs = [run.id for tree in whole.trees for run in tree.runs]
    assert len({*runs}) == len(runs)
    assert all(len({*tree.l0.ids}) == len(tree.l0) for tree in whole.trees)
    assert (whole.owners >= 0).all()


def test_segments_of_different_depth_are_not_united() -> None:
    def with_segment(prefix: bytes, of: Manifest) -> Manifest:
        return Manifest(segment_extractor_name="x", trees=Trees(Tree(), (Segment(prefix, of.root),)))

    some = large_manifest(4, 0, 1)
    with pytest.raises(InvalidUnion, match=r"segment b'a' of one database contains segment b'ab'"):
        united([Source("a", A, with_segment(b"a", some)), Source("b", B, with_segment(b"ab", some))], ids(), CHANCE)


# --- detaching -------------------------------------------------------------------------------------------------------


def test_a_parent_goes_when_nobody_needs_it() -> None:
    shows, empty, old = (
        ExternalDb(path, A, UUID(int=number), Ids.of(listed))
        for path, number, listed in [("shows", 1, large_manifest(4, 0, 1).ssts.id), ("empty", 2, ()), ("old", 3, ())]
    )
    manifest = Manifest(external_dbs=(shows, empty, old))
    assert attached(manifest) == {UUID(int=1)}
    assert detachable(manifest, ()) == (empty, old)
    assert detachable(manifest, {UUID(int=3)}) == (empty,)
    assert detached(manifest, {UUID(int=2)}).external_dbs == (shows, old)
    # One that shows something again, since somebody restored a checkpoint, stays whatever was planned.
    assert detached(manifest, {UUID(int=1), UUID(int=2)}).external_dbs == (shows, old)
    assert detached(manifest, {UUID(int=9)}) is manifest


# --- restoring -------------------------------------------------------------------------------------------------------


@FEW
@given(living(), living())
def test_the_past_becomes_the_present(now: Manifest, then: Manifest) -> None:
    kept, source = Checkpoint(A, 5, NOW_S + 60, NOW_S, "restoring"), Checkpoint(B, 3, None, NOW_S)
    now = replace(now, checkpoints=(source, kept))
    prepared = Restoration(B, then, A, now.writer_epoch, last_wal_id=77, last_seq=123)
    past = restored(now, prepared, now_ms=NOW_MS, name="before")
    assert past.trees.with_run_ids_from(0) == then.trees.with_run_ids_from(0)
    # A compaction of before the restore names no run that is there now.
    before = {run.id for manifest in (now, then) for tree in manifest.trees for run in tree.runs}
    assert not before & {run.id for tree in past.trees for run in tree.runs}
    assert (past.replay_after_wal_id, past.wal_id_last_seen) == (77, 77)
    assert past.last_l0_seq == max(123, then.last_l0_seq)
    assert past.checkpoints == (source, replace(kept, name="before", expire_time_s=None))
    # No parent is forgotten: the checkpoint of the present may show SSTs of it.
    finals = {each.final_checkpoint_id for each in (*now.external_dbs, *then.external_dbs)}
    assert {each.final_checkpoint_id for each in past.external_dbs} == finals
    with pytest.raises(Fenced):
        restored(replace(now, writer_epoch=now.writer_epoch + 1), prepared, now_ms=NOW_MS, name="before")
    with pytest.raises(CheckpointMissing):
        restored(replace(now, checkpoints=(kept,)), prepared, now_ms=NOW_MS, name="before")
    expired = replace(source, expire_time_s=NOW_S)
    with pytest.raises(CheckpointExpired):
        restored(replace(now, checkpoints=(expired, kept)), prepared, now_ms=NOW_MS, name="before")
    with pytest.raises(Destroyed):
        restored(softly_destroyed(now, now_s=NOW_S), prepared, now_ms=NOW_MS, name="before")
