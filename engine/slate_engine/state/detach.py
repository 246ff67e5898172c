"""When a clone needs its parent no more, and what then changes in its manifest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from slate_engine.state.manifest import ExternalDb, Manifest


def attached(manifest: Manifest) -> frozenset[UUID]:
    """The checkpoints in parents by which SSTs of this very manifest are kept."""
    return frozenset(
        external.final_checkpoint_id
        for external in manifest.external_dbs
        if external.final_checkpoint_id is not None and len(external.sst_ids)
    )


def detachable(manifest: Manifest, needed_by_checkpoints: Collection[UUID]) -> tuple[ExternalDb, ...]:
    """The parents of which nothing is shown any more, neither by this manifest nor by one that a checkpoint keeps
    (``needed_by_checkpoints`` is what :func:`attached` says of those)."""
    return tuple(
        external
        for external in manifest.external_dbs
        if external.final_checkpoint_id is not None
        and not len(external.sst_ids)
        and external.final_checkpoint_id not in needed_by_checkpoints
    )


def detached(manifest: Manifest, finals: Collection[UUID]) -> Manifest:
    """Without the parents that are kept by these checkpoints, and of which nothing is shown."""
    left = tuple(
        external
        for external in manifest.external_dbs
        if external.final_checkpoint_id not in finals or len(external.sst_ids)
    )
    return manifest if len(left) == len(manifest.external_dbs) else replace(manifest, external_dbs=left)
