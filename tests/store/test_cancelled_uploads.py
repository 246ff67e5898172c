"""An upload that is cancelled while a thread still writes for it: no other file is touched, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from slate_engine.runtime import SystemRuntime
from slate_engine.store import files
from slate_engine.store.disk import write_all
from slate_engine.store.files import FileStore
from slate_engine.store.fsspec_backend import FsspecBackend
from slate_engine.store.open import open_backend
from slate_engine.store.protocol import Buffer
from slate_engine.store.steps import Steps

A_WHILE = 0.2
"""More than enough for an upload to end that waits for nothing."""


class Gate:
    """Holds a step up in its thread until it is let through."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.open.wait(30)


async def one_chunk() -> AsyncIterator[Buffer]:
    yield b"SST" * 1000


async def cancelled(upload: asyncio.Task[str], gate: Gate, times: int) -> None:
    await asyncio.to_thread(gate.reached.wait, 30)
    for _ in range(times):
        upload.cancel()
        await asyncio.wait([upload], timeout=A_WHILE)


@pytest.mark.parametrize(
    ("threads", "times"), [(4, 1), (1, 2)], ids=["the end runs beside the write", "the end is cancelled as well"]
)
async def test_what_is_still_written_lands_in_no_other_file(
    threads: int, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()

    def slow(descriptor: int, data: Buffer) -> None:
        gate.pass_through()
        write_all(descriptor, data)

    monkeypatch.setattr(files, "write_all", slow)
    runtime = SystemRuntime(threads)
    upload = asyncio.ensure_future(FileStore(tmp_path / "store", runtime).put_stream("db/1.sst", one_chunk()))
    await cancelled(upload, gate, times)
    others = [os.open(tmp_path / f"other-{number}", os.O_CREAT | os.O_WRONLY) for number in range(8)]
    gate.open.set()
    assert [type(told) for told in await asyncio.gather(upload, return_exceptions=True)] == [asyncio.CancelledError]
    del upload
    runtime._threads.shutdown()
    assert [os.fstat(other).st_size for other in others] == [0] * 8
    for other in others:
        os.close(other)
    assert os.listdir(tmp_path / "store/db") == []


async def test_a_file_of_fsspec_is_not_closed_during_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, told = Gate(), list[str]()

    class SlowFile:
        def write(self, data: bytes) -> None:
            told.append("write")
            gate.pass_through()
            told.append("written")

        def close(self) -> None:
            told.append("closed")

    def opened(path: str, mode: str) -> SlowFile:
        Path(path).touch()
        return SlowFile()

    backend = open_backend(f"local://{tmp_path}/store", {}, runtime=SystemRuntime(4))
    assert isinstance(backend, FsspecBackend)
    monkeypatch.setattr(backend._fs, "open", opened)
    upload = asyncio.ensure_future(backend.put_stream("db/1.sst", one_chunk()))
    await cancelled(upload, gate, 1)
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert told == ["write", "written", "closed"]
    assert os.listdir(tmp_path / "store/db") == []


def test_after_the_end_no_step_is_taken() -> None:
    done: list[str] = []
    note: Callable[[str], None] = done.append
    steps = Steps(lambda: note("end"))
    steps.take(lambda: note("step"))
    steps.end()
    with pytest.raises(CancelledError):
        steps.take(lambda: note("late"))
    assert done == ["step", "end"]
