"""How a live database is, in the numbers that whoever runs it wants to see."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.lsm.reader import Reader
from slate_engine.lsm.writer import Writer
from slate_engine.state.manifest import Manifest


@dataclass(frozen=True)
class Vitals:
    """``trouble`` says why nothing becomes durable at the moment, or why a reader sees nothing new, if that is so;
    ``staleness_seconds`` how old what it shows may be. ``refuses_reads``: a file of the log is missing, so the reader cannot
    follow it, and answers no read until it can."""

    manifest_id: int
    writer_epoch: int
    last_seq: int
    durable_seq: int
    unflushed_bytes: int
    l0_ssts: int
    sorted_runs: int
    size_bytes: int
    trouble: str | None
    staleness_seconds: float | None = None
    refuses_reads: bool = False


def of_writer(writer: Writer) -> Vitals:
    state = writer.state
    return Vitals(
        manifest_id=state.manifest_id,
        writer_epoch=writer.epoch,
        last_seq=writer.last_seq,
        durable_seq=writer.durable_seq,
        unflushed_bytes=state.unflushed_bytes,
        trouble=None if writer.trouble is None else writer.trouble.message,
        refuses_reads=False,
        **_shape(state.manifest),
    )


def of_reader(reader: Reader) -> Vitals:
    state, trouble = reader.state, reader.lost or reader.trouble
    return Vitals(
        manifest_id=state.manifest_id,
        writer_epoch=state.manifest.writer_epoch,
        last_seq=reader.last_seq,
        durable_seq=reader.last_seq,
        unflushed_bytes=sum(table.sorted.nbytes for table in state.tail.tables),
        trouble=None if trouble is None else trouble.message,
        staleness_seconds=reader.staleness,
        refuses_reads=reader.lost is not None,
        **_shape(state.manifest),
    )


def _shape(manifest: Manifest) -> dict[str, int]:
    return {
        "l0_ssts": sum(len(tree.l0) for tree in manifest.trees),
        "sorted_runs": sum(len(tree.runs) for tree in manifest.trees),
        "size_bytes": manifest.estimated_size,
    }
