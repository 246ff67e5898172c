"""What can be done to checkpoints, and what is refused."""

from __future__ import annotations

from uuid import UUID

import pytest

from slate_engine.state.checkpoints import (
    CheckpointExpired,
    CheckpointMissing,
    NotInitialized,
    with_checkpoint,
    with_checkpoint_refreshed,
    without_checkpoint,
    without_expired_checkpoints,
)
from slate_engine.state.epochs import claim_compactor, claim_writer
from slate_engine.state.manifest import THIS_MANIFEST, Checkpoint, Manifest

A, B, C = (UUID(int=number) for number in (1, 2, 3))
NOW = 1_700_000_000_999


def test_a_checkpoint_of_the_present_state() -> None:
    manifest = with_checkpoint(Manifest(), id=A, now_ms=NOW, lifetime_ms=1001, name="n")
    assert manifest.checkpoints == (Checkpoint(A, THIS_MANIFEST, 1_700_000_002, 1_700_000_000, "n"),)
    assert manifest.numbered(7).checkpoints == (Checkpoint(A, 7, 1_700_000_002, 1_700_000_000, "n"),)
    assert manifest.numbered(7).numbered(8) == manifest.numbered(7)


def test_one_without_end_and_one_from_another() -> None:
    manifest = with_checkpoint(Manifest(), id=A, now_ms=NOW).numbered(4)
    manifest = with_checkpoint(manifest, id=B, now_ms=NOW + 5000, source=A, lifetime_ms=60_000).numbered(9)
    assert [(c.manifest_id, c.expire_time_s) for c in manifest.checkpoints] == [(4, None), (4, 1_700_000_065)]


def test_the_same_request_again_changes_nothing() -> None:
    manifest = with_checkpoint(Manifest(), id=A, now_ms=NOW).numbered(4)
    assert with_checkpoint(manifest, id=A, now_ms=NOW + 9) is manifest


def test_an_expired_source_is_refused_at_the_very_second() -> None:
    manifest = with_checkpoint(Manifest(), id=A, now_ms=NOW, lifetime_ms=10_000).numbered(4)
    expires_ms = 1_700_000_010_000
    with_checkpoint(manifest, id=B, now_ms=expires_ms - 1, source=A)
    with pytest.raises(CheckpointExpired):
        with_checkpoint(manifest, id=B, now_ms=expires_ms, source=A)


def test_a_missing_source_and_a_database_under_construction_are_refused() -> None:
    with pytest.raises(CheckpointMissing, match=str(B)):
        with_checkpoint(Manifest(), id=A, now_ms=NOW, source=B)
    with pytest.raises(NotInitialized):
        with_checkpoint(Manifest(initialized=False), id=A, now_ms=NOW)


def test_refresh_and_delete() -> None:
    manifest = with_checkpoint(with_checkpoint(Manifest(), id=A, now_ms=NOW), id=B, now_ms=NOW).numbered(4)
    manifest = with_checkpoint_refreshed(manifest, B, now_ms=NOW, lifetime_ms=2000)
    assert [c.expire_time_s for c in manifest.checkpoints] == [None, 1_700_000_002]
    assert with_checkpoint_refreshed(manifest, B, now_ms=NOW, lifetime_ms=None).checkpoints[1].expire_time_s is None
    with pytest.raises(CheckpointMissing):
        with_checkpoint_refreshed(manifest, C, now_ms=NOW, lifetime_ms=1)
    assert [c.id for c in without_checkpoint(manifest, A).checkpoints] == [B]
    assert without_checkpoint(manifest, C) is manifest


def test_expired_ones_are_swept() -> None:
    manifest = with_checkpoint(Manifest(), id=A, now_ms=NOW)
    manifest = with_checkpoint(manifest, id=B, now_ms=NOW, lifetime_ms=1).numbered(2)
    assert without_expired_checkpoints(manifest, now_ms=1_699_999_999_999) is manifest
    assert [c.id for c in without_expired_checkpoints(manifest, now_ms=NOW + 1).checkpoints] == [A]


def test_claims() -> None:
    manifest = Manifest(writer_epoch=3, compactor_epoch=8)
    assert (claim_writer(manifest).writer_epoch, claim_compactor(manifest).compactor_epoch) == (4, 9)
    assert claim_writer(manifest).compactor_epoch == 8
