"""The inspector finds fault with each kind of wrong change, and knows what counts where a table decides that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from slate_engine.format.columns import Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.wal import FENCE, build_wal_sst
from slate_engine.lsm.row import Row
from slate_engine.state.checkpoints import with_checkpoint
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, Worker
from slate_engine.state.compactions_write import encode_compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.store.two_phase.record import intent
from tests.simulation.inspector import Inspector
from tests.simulation.world import Broken, World, explore

JOB = Compaction(Ulid(2**80), TieredSpec((), (0,), 0), CompactionStatus.RUNNING, worker=Worker("a", 1))
KEPT = with_checkpoint(
    Manifest(compactor_epoch=2, wal_id_last_seen=2), id=UUID(int=1), now_ms=0, lifetime_ms=None
).numbered(2)


class Bench:
    """An inspector that is told what one likes, of a database with one manifest, and says what is wrong."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._inspector: Inspector = explore(self._made, 0)
        self.manifest(1, Manifest(compactor_epoch=2))

    async def _made(self, world: World) -> Inspector:
        return Inspector(world.runtime, lambda error: self.wrong.append(str(error)))

    def manifest(self, id: int, manifest: Manifest) -> None:
        self._inspector.stored(f"db/manifest/{id:020}.manifest", bytes(encode_manifest(manifest)))

    def book(self, id: int, *jobs: Compaction, epoch: int = 2) -> None:
        self._inspector.stored(
            f"db/compactions/{id:020}.compactions", bytes(encode_compactions(Compactions(epoch, jobs)))
        )

    def book_gone(self, id: int) -> None:
        self._inspector.deleted(f"db/compactions/{id:020}.compactions")

    def books_given_up_to(self, id: int) -> None:
        self._inspector.stored("db/gc/compactions.boundary", b"%d" % id)

    def wal(self, id: int, *seqs: int) -> None:
        self._inspector.stored(f"db/wal/{id:020}.sst", wal_file(*seqs))


def wal_file(*seqs: int) -> bytes:
    rows = Rows.of([Row(b"k", b"v", seq, 0, 0, 0) for seq in seqs])
    return build_wal_sst(rows).tobytes() if seqs else FENCE


Step = Callable[[Bench], None]

WRONG: list[tuple[str, list[Step]]] = [
    ("book 3 was created after 1", [lambda bench: bench.book(1), lambda bench: bench.book(3)]),
    ("compactor_epoch went back", [lambda bench: bench.book(1), lambda bench: bench.book(2, epoch=1)]),
    ("an epoch that no manifest has given out", [lambda bench: bench.book(1, epoch=3)]),
    ("the newest book is 1", [lambda bench: bench.book(1), lambda bench: bench.books_given_up_to(1)]),
    (
        "book 1 was deleted above the boundary 0",
        [lambda bench: bench.book(1), lambda bench: bench.book(2), lambda bench: bench.book_gone(1)],
    ),
    ("was RUNNING and is forgotten", [lambda bench: bench.book(1, JOB), lambda bench: bench.book(2)]),
    (
        "was RUNNING and is SUBMITTED",
        [
            lambda bench: bench.book(1, JOB),
            lambda bench: bench.book(2, replace(JOB, status=CompactionStatus.SUBMITTED, worker=None)),
        ],
    ),
    (
        "is worker a's, and b has RUNNING it",
        [lambda bench: bench.book(1, JOB), lambda bench: bench.book(2, replace(JOB, worker=Worker("b", 1)))],
    ),
    ("2 begins with sequence number 2", [lambda bench: bench.wal(1, 1, 2), lambda bench: bench.wal(2, 2, 3)]),
    ("1 ends with 5", [lambda bench: bench.wal(2, 2, 3), lambda bench: bench.wal(1, 4, 5)]),
    ("WAL file 1 was written over", [lambda bench: bench.wal(1), lambda bench: bench.wal(1, 1)]),
    ("WAL files that are gone: [2]", [lambda bench: bench.wal(1, 1), lambda bench: bench.manifest(2, KEPT)]),
]


@pytest.mark.parametrize(("wrong", "steps"), WRONG, ids=[wrong for wrong, _ in WRONG])
def test_it_finds_fault(wrong: str, steps: list[Step]) -> None:
    bench = Bench()
    for step in steps:
        assert not bench.wrong, "only the last step is wrong"
        step(bench)
    assert len(bench.wrong) == 1
    assert wrong in bench.wrong[0]


def test_what_is_right_passes() -> None:
    bench = Bench()
    bench.book(1, JOB)
    bench.book(2, replace(JOB, status=CompactionStatus.SCHEDULED, worker=None))
    bench.book(3, replace(JOB, worker=Worker("b", 1)))
    bench.books_given_up_to(2)
    bench.book_gone(1)
    bench.wal(2, 3, 4)
    bench.wal(1, 1, 2)
    bench.wal(3)
    bench.manifest(2, KEPT)
    assert bench.wrong == []


@pytest.mark.parametrize("seqs", [(1,), (7,)])
def test_where_a_table_decides_a_write_counts_from_its_record_on(seqs: tuple[int, ...]) -> None:
    """What is put in place of a recorded write is looked at as what it is: the same, or another."""

    async def scene(world: World) -> None:
        world.without_conditions()
        assert world.table is not None
        key, data = "db/wal/00000000000000000001.sst", wal_file(1)
        record = intent(world.bucket.url + key, data, world.runtime)
        await world.bucket.put(record.source.removeprefix(world.bucket.url), data)
        await world.table.put_if_absent(record)
        assert world.objects == {key: data}
        await world.bucket.put(key, wal_file(*seqs))
        await world.table.compare_and_set(record.committed(), expected=record.version)

    if seqs == (1,):
        explore(scene, 0)
    else:
        with pytest.raises(Broken, match="WAL file 1 was written over"):
            explore(scene, 0)
