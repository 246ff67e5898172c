"""The compactor's book, against the samples, Google's runtime and the original."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u
from hypothesis import given, settings

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_meta import Codec, FilterFormat, SstInfo, SstType
from slate_engine.state.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    DrainSpec,
    TieredSpec,
)
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.compactions_write import InvalidCompactions, encode_compactions
from slate_engine.state.ssts import NO_SSTS, SstHandle, Ssts
from tests.unit.state.drawn import books
from tests.unit.state.reference import decode_table, encode_table
from tests.unit.state.samples import COMPACTIONS, STORE, name, read
from tests.unit.state.wheel import admin, our_compactions, wheels_compactions
from tests.unit.state.wire import compactions as wire
from tests.unit.state.wire import id_table, sst_table

JOB = Ulid.of(1_700_000_000_000, 7)
L0 = Ulid.of(1_600_000_000_000, 1)


def sst(ms: int, first: bytes = b"a", last: bytes = b"b") -> SstHandle:
    info = SstInfo(first, last, 100, 20, 90, 10, Codec.LZ4, SstType.COMPACTED, 120, 30, FilterFormat.COMPOSITE)
    return SstHandle(Ulid.of(ms, 5), info, 2)


def test_there_are_samples() -> None:
    assert len(COMPACTIONS) == 23


@pytest.mark.parametrize("file", COMPACTIONS, ids=name)
async def test_a_sample_reads_as_the_wheel_reads_it_also_from_our_hand(file: Path, tmp_path: Path) -> None:
    data = read(file)
    book = decode_compactions(data, object=name(file))
    database, id = file.parts[-3], int(file.stem)
    shutil.copytree(STORE / database, tmp_path / "theirs")
    shutil.copytree(STORE / database, tmp_path / "ours")
    again = encode_compactions(book)
    assert len(again) <= len(data)
    (tmp_path / "ours" / "compactions" / file.name).write_bytes(again)
    for path in ("theirs", "ours"):
        theirs = await admin(tmp_path, path).read_compactions(id)
        assert wheels_compactions(theirs) == our_compactions(book)


@given(books())
def test_what_we_write_we_and_the_reference_read(book: Compactions) -> None:
    data = encode_compactions(book)
    assert data[:2] == b"\x00\x02"
    assert decode_compactions(data, object="c") == book
    read = decode_table("CompactionsV1", data[2:])
    assert read == wire(book)


@given(books())
def test_what_the_reference_writes_we_read(book: Compactions) -> None:
    assert decode_compactions(b"\x00\x02" + encode_table("CompactionsV1", wire(book)), object="c") == book


@settings(max_examples=25)
@given(books())
def test_the_wheel_sees_what_we_wrote(book: Compactions) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "db" / "compactions"
        files.mkdir(parents=True)
        (files / f"{1:020d}.compactions").write_bytes(encode_compactions(book))
        theirs = asyncio.run(_read(Path(folder)))
    # The wheel shows what a job has written so far as its outputs, too: our jobs have none of their own then.
    assert _without_outputs(wheels_compactions(theirs)) == _without_outputs(our_compactions(book))


async def _read(folder: Path) -> u.VersionedCompactions:
    return await admin(folder, "db").read_compactions(1)


def _without_outputs(plain: dict[str, object]) -> dict[str, object]:
    jobs = plain["jobs"]
    assert isinstance(jobs, list)
    return plain | {"jobs": [{key: job[key] for key in ("id", "spec", "status", "active")} for job in jobs]}


def _book(job: dict[str, object], version: int = 2) -> bytes:
    return version.to_bytes(2, "big") + encode_table("CompactionsV1", {"recent_compactions": [job]})


def test_in_version_1_the_destination_is_the_smallest_run() -> None:
    for runs, destination in (([7, 3, 5], 3), ([], 0)):
        job = {"id": id_table(JOB), "spec_type": 1, "spec": {"sorted_runs": runs, "destination": 99}}
        (read,) = decode_compactions(_book(job, version=1), object="c").jobs
        assert read.spec == TieredSpec((), tuple(runs), destination)
        (read,) = decode_compactions(_book(job, version=2), object="c").jobs
        assert read.spec == TieredSpec((), tuple(runs), 99)


def test_old_files_name_ssts_which_count_only_without_views() -> None:
    ssts = {"ssts": [id_table(L0)]}
    job = {"id": id_table(JOB), "spec_type": 1, "spec": ssts}
    assert decode_compactions(_book(job), object="c").jobs[0].spec.l0_views == (L0,)
    job["spec"] = {**ssts, "l0_view_ids": [id_table(JOB)]}
    assert decode_compactions(_book(job), object="c").jobs[0].spec.l0_views == (JOB,)
    job["spec"] = {**ssts, "l0_view_ids": []}
    assert decode_compactions(_book(job), object="c").jobs[0].spec.l0_views == ()


@pytest.mark.parametrize("number", range(-2, 9))
def test_outputs_count_only_once_a_job_has_ended_and_unknown_statuses_are_submitted(number: int) -> None:
    job = {
        "id": id_table(JOB),
        "spec_type": 1,
        "spec": {"sorted_runs": [1]},
        "status": number,
        "output_ssts": [sst_table(sst(JOB.ms))],
    }
    (read,) = decode_compactions(_book(job), object="c").jobs
    known = {status.value for status in CompactionStatus}
    assert read.status == (number if number in known else CompactionStatus.SUBMITTED)
    ended = read.status in (CompactionStatus.COMPLETED, CompactionStatus.FAILED, CompactionStatus.COMPACTED)
    assert read.outputs == (Ssts.of([sst(JOB.ms)]) if ended else NO_SSTS)


def test_a_worker_without_a_name_has_not_claimed_anything() -> None:
    job = {"id": id_table(JOB), "spec_type": 1, "spec": {"sorted_runs": [1]}, "worker": {"last_heartbeat_ms": 5}}
    assert decode_compactions(_book(job), object="c").jobs[0].worker is None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"spec_type": 0}, CorruptData),
        ({"spec_type": 3}, UnsupportedFormat),
        ({"spec_type": 2, "spec": {"segment": b""}}, CorruptData),
        ({"ctx_type": 1}, CorruptData),
        ({"ctx_type": 2, "ctx": {}}, UnsupportedFormat),
    ],
)
def test_jobs_that_cannot_be_understood(change: dict[str, Any], error: type[Exception]) -> None:
    job: dict[str, Any] = {"id": id_table(JOB), "spec_type": 1, "spec": {"sorted_runs": [1]}, **change}
    tags = {field: job.pop(field) for field in ("spec_type", "ctx_type") if field in job}
    # The reference writes no tag that the schema lacks: it writes a known one, and that is changed in its place.
    known = {field: 1 if field == "ctx_type" or tag != 2 else 2 for field, tag in tags.items()}
    data = bytearray(_book(job | known))
    table = _child(data, _child(data, 2 + int.from_bytes(data[2:6], "little"), slot=1) + 4)
    for field, tag in tags.items():
        data[_field(data, table, 1 if field == "spec_type" else 6)] = tag
    with pytest.raises(error, match="c"):
        decode_compactions(bytes(data), object="c")


def _field(data: bytearray, table: int, slot: int) -> int:
    vtable = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    return table + int.from_bytes(data[vtable + 4 + 2 * slot : vtable + 6 + 2 * slot], "little")


def _child(data: bytearray, at: int, slot: int | None = None) -> int:
    place = at if slot is None else _field(data, at, slot)
    return place + int.from_bytes(data[place : place + 4], "little")


@pytest.mark.parametrize("version", [0, 3])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedFormat, match="version"):
        decode_compactions(_book({"id": id_table(JOB), "spec_type": 1, "spec": {}}, version=version), object="c")


def test_what_would_stop_upstream_is_not_written() -> None:
    fine = Compaction(JOB, TieredSpec((L0,), (), 1), CompactionStatus.COMPACTED, Ssts.of([sst(JOB.ms)]))
    encode_compactions(Compactions(1, (fine,)))
    for wrong in (
        replace(fine, outputs=Ssts.of([sst(JOB.ms - 1)])),
        replace(fine, spec=DrainSpec(b"", (L0,), ())),
    ):
        with pytest.raises(InvalidCompactions):
            encode_compactions(Compactions(1, (wrong,)))
    with pytest.raises(InvalidCompactions):
        encode_compactions(Compactions(1, (fine, fine)))


def test_pruned_keeps_what_is_active_and_the_newest_that_is_not() -> None:
    def job(number: int, status: CompactionStatus) -> Compaction:
        return Compaction(Ulid.of(JOB.ms + number, 0), TieredSpec((), (1,), 1), status)

    done, failed, running = CompactionStatus.COMPLETED, CompactionStatus.FAILED, CompactionStatus.RUNNING
    book = Compactions(1, (job(1, done), job(2, running), job(3, failed), job(4, CompactionStatus.COMPACTED)))
    assert [each.id.ms - JOB.ms for each in book.pruned().jobs] == [2, 3, 4]
    assert book.oldest_ms == JOB.ms + 1
    assert Compactions().pruned() == Compactions()
    assert book.with_job(job(2, done)).job(Ulid.of(JOB.ms + 2, 0)) == job(2, done)
