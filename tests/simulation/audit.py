"""Looking at a bucket from outside when a run has ended: whether the objects that it left behind keep to the rules of the
format; and handing them to the original."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from slate_engine.state.manifest import Manifest
from tests.simulation.memo import decode_manifest, read_wal
from tests.simulation.session import PATH
from tests.simulation.world import World

_NAME = re.compile(rf"{PATH}/(manifest|wal)/([0-9]{{20}})\.(manifest|sst)")


def numbered(world: World, kind: str) -> dict[int, bytes]:
    """The numbered objects of one kind by their number."""
    found: dict[int, bytes] = {}
    for key, data in world.objects.items():
        match = _NAME.fullmatch(key)
        if match is not None and match[1] == kind:
            found[int(match[2])] = data
    return found


def audit(world: World) -> None:
    """Fails unless manifests and WAL are what every reader of the format relies on. For the end of a run."""
    newest = _audit_manifests(world)
    _audit_wal(world, newest)


def _audit_manifests(world: World) -> Manifest:
    """Numbers have no gaps above the boundary, and what must not go back does not."""
    given_up = int(world.objects.get(f"{PATH}/gc/manifest.boundary", b"0"))
    files = {id: data for id, data in numbered(world, "manifest").items() if id > given_up}
    ids = list(files)
    assert ids == list(range(ids[0], ids[-1] + 1)), f"the manifests have gaps: {ids}"
    manifests = [decode_manifest(data, object=f"manifest {id}") for id, data in files.items()]
    for name in ("writer_epoch", "compactor_epoch", "replay_after_wal_id", "last_l0_seq", "last_l0_clock_tick"):
        for (id, before), (_, after) in itertools.pairwise(zip(ids, manifests, strict=True)):
            assert getattr(before, name) <= getattr(after, name), f"{name} went back after manifest {id}"
    for id, manifest in zip(ids, manifests, strict=True):
        for sst in manifest.ssts if id == ids[-1] else ():
            assert f"{PATH}/compacted/{sst.id}.sst" in world.bucket._objects, f"SST {sst.id} of the newest is missing"
    return manifests[-1]


def _audit_wal(world: World, manifest: Manifest) -> None:
    """The log has no gaps behind what was flushed, and no sequence number in two files."""
    files = numbered(world, "wal")
    live = [id for id in files if id > manifest.replay_after_wal_id]
    first = manifest.replay_after_wal_id + 1
    assert live == list(range(first, first + len(live))), f"the WAL has gaps: {live}"
    last_seq = 0
    for id, data in files.items():
        rows = read_wal(data, object=f"WAL {id}")
        if not len(rows):
            continue
        seqs = rows.seq.tolist()
        assert sorted(seqs) == seqs, f"the rows of WAL file {id} are out of order"
        assert seqs[0] > last_seq, f"WAL file {id} begins with {seqs[0]}, an older one ends with {last_seq}"
        last_seq = seqs[-1]


def export(world: World, folder: Path) -> None:
    """Write the objects to a folder, as a database on local files."""
    for key, (stored, _) in world.bucket._objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(stored.data))
