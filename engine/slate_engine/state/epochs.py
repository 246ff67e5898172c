"""Claims: a writer or a compactor that begins takes the next epoch, and all that have a smaller one are fenced."""

from __future__ import annotations

from dataclasses import replace

from slate_engine.state.manifest import Manifest


def claim_writer(manifest: Manifest) -> Manifest:
    return replace(manifest, writer_epoch=manifest.writer_epoch + 1)


def claim_compactor(manifest: Manifest) -> Manifest:
    return replace(manifest, compactor_epoch=manifest.compactor_epoch + 1)
