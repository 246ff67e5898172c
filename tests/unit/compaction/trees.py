"""Manifests and books made of numbers: what planning looks at."""

from __future__ import annotations

from collections.abc import Sequence

from slate_engine.format.flatbuf.layout import FilterFormat
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_meta import Codec, SstInfo, SstType
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, Spec, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import Views

RUNNING = CompactionStatus.RUNNING


def ulid(number: int) -> Ulid:
    return Ulid.of(1_700_000_000_000, number)


def handle(number: int, size: int = 1, first: bytes = b"a", last: bytes = b"z") -> SstHandle:
    info = SstInfo(first, last, size, 0, size, 0, Codec.NONE, SstType.COMPACTED, 0, 0, FilterFormat.COMPOSITE)
    return SstHandle(ulid(number), info, 2)


def tree(l0: Sequence[int] = (), runs: Sequence[tuple[int, int]] = (), at: int = 0) -> Tree:
    """L0 SSTs of these sizes, newest first, numbered downwards to ``at + 1``; runs of these ids and sizes."""
    count = len(l0)
    newest_first = [handle(at + count - i, size) for i, size in enumerate(l0)]
    return Tree(
        l0=Views.of_ssts(Ssts.of(newest_first)),
        runs=tuple(SortedRun(id, Views.of_ssts(Ssts.of([handle(1_000_000 + at + id, size)]))) for id, size in runs),
    )


def manifest(root: Tree | None = None, **segments: Tree) -> Manifest:
    made = Manifest().with_root(root or Tree())
    for prefix, each in segments.items():
        made = made.with_tree(prefix.encode(), each)
    return made


def views(*numbers: int) -> tuple[Ulid, ...]:
    return tuple(map(ulid, numbers))


def job(number: int, spec: Spec, status: CompactionStatus = RUNNING) -> Compaction:
    return Compaction(ulid(number), spec, status)


def book(*jobs: Compaction) -> Compactions:
    made = Compactions(1)
    for each in jobs:
        made = made.with_job(each)
    return made


def l0_spec(numbers: Sequence[int], destination: int, segment: bytes = b"") -> TieredSpec:
    return TieredSpec(views(*numbers), (), destination, segment)


def runs_spec(runs: Sequence[int], segment: bytes = b"") -> TieredSpec:
    return TieredSpec((), tuple(runs), runs[-1], segment)
