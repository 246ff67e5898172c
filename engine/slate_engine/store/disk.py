"""The few steps of a file system that make a local store safe: whole writes, synced folders, a lock on a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from slate_engine.store.protocol import Buffer


def stat_object(path: Path) -> os.stat_result:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return status


def write_all(descriptor: int, data: Buffer) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    with _opened(folder) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    with _opened(folder) as descriptor:
        os.fsync(descriptor)
