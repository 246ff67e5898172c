"""The local store: crashes, processes, etags, and living side by side with SlateDB's own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.files import FileStore
from slate_engine.store.protocol import CREATE, OVERWRITE, Denied, NotFound, PutMode, StoreUnavailable, Update
from tests.store.contract.suite import listed

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


@pytest.fixture
def store(root: Path, runtime: SystemRuntime) -> FileStore:
    return FileStore(root, runtime)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_an_object_is_a_plain_file(store: FileStore, root: Path) -> None:
    await store.put("db/manifest/1.manifest", b"bytes", CREATE)
    assert (root / "db/manifest/1.manifest").read_bytes() == b"bytes"
    assert files(root) == ["db/manifest/1.manifest"]
    (root / "db/wal").mkdir()
    (root / "db/wal/1.sst").write_bytes(b"by somebody else")
    assert bytes((await store.get("db/wal/1.sst")).data) == b"by somebody else"


async def test_temporary_files_are_not_listed_nor_named(store: FileStore, root: Path) -> None:
    await store.put("db/a", b"")
    (root / "db/a#12345").write_bytes(b"half")
    (root / "db/b#x1").write_bytes(b"an object")
    assert [meta.key for meta in await listed(store, "")] == ["db/a", "db/b#x1"]
    with pytest.raises(InvalidError, match="temporary"):
        await store.put("db/c#1", b"")


class Crash(BaseException):
    pass


STEPS = ["fsync", "link", "rename", "unlink", "write", "utime"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("mode", ["create", "update", "overwrite"])
@pytest.mark.parametrize("after", [False, True])
async def test_a_crash_leaves_the_object_old_or_new(
    step: str, mode: str, after: bool, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = None if mode == "create" else b"old"
    etag = "" if old is None else await store.put("a/k", old)
    real = getattr(os, step)

    def crash(*args: object, **kwargs: object) -> object:
        if after:
            real(*args, **kwargs)
        raise Crash

    monkeypatch.setattr(os, step, crash)
    modes: dict[str, PutMode] = {"create": CREATE, "update": Update(etag), "overwrite": OVERWRITE}
    with contextlib.suppress(Crash):
        await store.put("a/k", b"new", modes[mode])
    monkeypatch.undo()
    try:
        found: bytes | None = bytes((await store.get("a/k")).data)
    except NotFound:
        found = None
    assert found in (old, b"new")
    assert [meta.key for meta in await listed(store, "")] == (["a/k"] if found is not None else [])
    await store.put("a/k", b"goes on")


async def test_nothing_is_visible_before_it_is_on_disk(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for name in ("fsync", "link", "rename"):
        real = getattr(os, name)

        def note(*args: object, _name: str = name, _real: object = real, **kwargs: object) -> object:
            assert callable(_real)
            is_folder = _name == "fsync" and os.path.isdir(f"/proc/self/fd/{args[0]}")
            order.append("fsync folder" if is_folder else _name)
            return _real(*args, **kwargs)

        monkeypatch.setattr(os, name, note)
    (root / "x").mkdir(parents=True)
    await store.put("x/k", b"1", CREATE)
    assert order == ["fsync", "link", "fsync folder"]
    order.clear()
    await store.put("x/k", b"2")
    assert order == ["fsync", "rename", "fsync folder"]


async def test_an_unsynced_folder_is_an_unknown_outcome(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.put("x/k", b"1")
    real = os.fsync

    def fail_on_folders(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail_on_folders)
    with pytest.raises(StoreUnavailable) as caught:
        await store.put("x/k2", b"2", CREATE)
    assert caught.value.unknown_outcome


async def test_no_etag_comes_back(store: FileStore) -> None:
    """The same few sizes within one tick of the clock, on inodes that are used again at once."""
    seen = Counter[str]()
    etag = await store.put("k", b"0")
    for number in range(300):
        seen[etag] += 1
        etag = await store.put("k", b"%d" % (number % 10), Update(etag))
    assert max(seen.values()) == 1


async def test_a_copy_is_independent(store: FileStore, root: Path) -> None:
    await store.put("a", b"1")
    await store.copy("a", "b")
    assert (root / "a").stat().st_ino == (root / "b").stat().st_ino
    await store.put("a", b"2", Update((await store.head("a")).etag))
    assert bytes((await store.get("b")).data) == b"1"
    assert files(root) == ["a", "b"]


async def test_a_name_is_an_object_or_a_folder(store: FileStore) -> None:
    await store.put("a/b", b"")
    for mode in (CREATE, OVERWRITE):
        with pytest.raises(InvalidError, match="folder"):
            await store.put("a", b"", mode)
        with pytest.raises(InvalidError, match="folder"):
            await store.put("a/b/c", b"", mode)
    await store.delete(["a", "a/b/c"])
    assert [meta.key for meta in await listed(store, "")] == ["a/b"]


async def test_refuses_to_leave_its_folder(store: FileStore, root: Path) -> None:
    (root.parent / "secret").write_bytes(b"")
    for prefix in ("../", "/etc/", "a/../../", "./"):
        with pytest.raises(InvalidError):
            await listed(store, prefix)
    assert await listed(store, "..") == []


async def test_a_name_that_is_too_long(store: FileStore) -> None:
    with pytest.raises(InvalidError, match="too long"):
        await store.put("x" * 300, b"")


async def test_permissions(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(Denied, match="who owns the folder"):
        await store.head("a")


def rival(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.rival_process", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, cwd=REPOSITORY, text=True, **pipes)


async def test_a_killed_process_leaves_whole_objects(store: FileStore, root: Path) -> None:
    for _ in range(3):
        with rival("overwrite", root / "killed") as writer:
            for _ in range(6000):
                if await listed(store, "killed/new/2") or writer.poll() is not None:
                    break
                await asyncio.sleep(0.01)
            writer.kill()
        found = await listed(store, "killed/")
        assert len(found) > 2
        for meta in found:
            data = bytes((await store.get(meta.key)).data)
            assert len(data) == meta.size >= 100_000
            assert set(data) == {data[0]}
        await store.delete(meta.key for meta in found)


@pytest.mark.parametrize("kind", ["create", "update"])
async def test_of_several_processes_one_wins(kind: str, store: FileStore, root: Path) -> None:
    with contextlib.ExitStack() as stack:
        rivals = {str(number): stack.enter_context(rival("compete", root, str(number))) for number in range(4)}
        for process in rivals.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for number in range(100):
            key = f"{kind}/{number}"
            etag = "-" if kind == "create" else await store.put(key, b"start")
            for process in rivals.values():
                assert process.stdin is not None
                process.stdin.write(f"{key} {etag}\n")
                process.stdin.flush()
            told = {name: process.stdout.readline() for name, process in rivals.items() if process.stdout}
            winners = [name for name, word in told.items() if word == "won\n"]
            assert len(winners) == 1, told
            assert bytes((await store.get(key)).data) == winners[0].encode()
        for process in rivals.values():
            process.kill()


def test_the_url_names_the_folder(store: FileStore, root: Path) -> None:
    assert re.fullmatch(r"file:///.*/bucket", store.url)
    assert store.url == root.as_uri()
