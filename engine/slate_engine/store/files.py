"""A store in a local folder, side by side with SlateDB's own.

An object is a file. It is written to a temporary file ``<name>#<digits>`` in the same folder, synced to disk, and only then
gets its name, in one step of the file system: so a crash at any moment leaves the object absent, or as it was, or whole.
SlateDB names its temporary files alike, and neither of us lists such names.

* create: ``link(2)``, which fails if the name is taken, in this and in every other process.
* overwrite, update-if-match and delete: under an exclusive lock on the folder, which is held for the last step only, not
  while bytes are written. Update compares the etag again under the lock and then renames. SlateDB itself takes no locks,
  but it never updates a local file either.

The etag is made of inode, modification time and size, like SlateDB's. The clock of a file system ticks in milliseconds and
inodes are used again at once, so a replacement's modification time is pushed past that of what it replaces: no etag
comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.backend import check_key, check_prefix
from slate_engine.store.cost import Request, RequestMeter, Tally
from slate_engine.store.disk import locked, stat_object, sync_folder, write_all
from slate_engine.store.protocol import (
    OVERWRITE,
    Buffer,
    Conflict,
    Create,
    Denied,
    NotFound,
    NotModified,
    Object,
    ObjectMeta,
    PutMode,
    StoreUnavailable,
    Update,
)
from slate_engine.store.ranges import check_ranges
from slate_engine.store.steps import Steps

PAGE = 1000
_TEMPORARY = re.compile(r"#[0-9]+$")
T = TypeVar("T")


class FileStore:
    """The folder ``root``; it and the folders in it are made as they are needed."""

    def __init__(self, root: Path | str, runtime: Runtime, *, meter: RequestMeter | None = None) -> None:
        self._root = Path(root).absolute()
        self._runtime = runtime
        self._meter = meter or Tally()

    @property
    def url(self) -> str:
        return self._root.as_uri()

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        def read() -> Object:
            with open(self._path(key), "rb", buffering=0) as file:
                meta = _meta(key, os.fstat(file.fileno()))
                if meta.etag == if_none_match:
                    raise NotModified
                return Object(meta, file.read())

        return await self._run(Request.GET, key, read)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        check_ranges(ranges)

        def read() -> list[Buffer]:
            with open(self._path(key), "rb", buffering=0) as file:
                # Not one byte more than there is: pread would set aside memory for whatever the range claims.
                size = os.fstat(file.fileno()).st_size
                return [os.pread(file.fileno(), max(0, min(end, size) - start), start) for start, end in ranges]

        return await self._run(Request.GET, key, read)

    async def head(self, key: str) -> ObjectMeta:
        return await self._run(Request.HEAD, key, lambda: _meta(key, stat_object(self._path(key))))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        def write() -> str:
            path = self._path(key)
            if isinstance(mode, Create) and path.is_file():
                # Not what decides it, but of many who race for one name all but the first are spared the disk.
                raise Conflict(key, mode)
            with self._temporary(path) as (temporary, descriptor):
                write_all(descriptor, data)
                os.fsync(descriptor)
                return self._publish(key, temporary, path, mode)

        return await self._run(Request.PUT, key, write)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        path = self._path(key)
        draft = self._temporary(path)
        steps = Steps(partial(draft.__exit__, None, None, None))
        temporary, descriptor = await self._run(Request.POST, key, draft.__enter__)

        def finish() -> str:
            os.fsync(descriptor)
            return self._publish(key, temporary, path, OVERWRITE)

        try:
            async for chunk in chunks:
                await self._run(Request.PUT, key, partial(steps.take, partial(write_all, descriptor, chunk)))
            return await self._run(Request.POST, key, partial(steps.take, finish))
        finally:
            await asyncio.shield(self._runtime.run(steps.end))  # also for one who is cancelled twice

    async def copy(self, source: str, destination: str) -> None:
        """A second name for the same file: files are never changed in place, so the two do not know of each other."""

        def link() -> None:
            path = self._path(destination)
            self._make_folder(path.parent)
            temporary = self._temporary_name(path)
            os.link(self._path(source), temporary)
            try:
                with locked(path.parent):
                    os.rename(temporary, path)
            finally:
                # Where both names stand for one file already, rename leaves the temporary one alone.
                temporary.unlink(missing_ok=True)
            sync_folder(path.parent)

        await self._run(Request.COPY, source, link)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        found = self._walk(prefix, start_after)
        while True:
            page = await self._run(Request.LIST, prefix, lambda: [*islice(found, PAGE)])
            if page:
                yield page
            if len(page) < PAGE:
                return

    async def delete(self, keys: Iterable[str]) -> None:
        paths = [self._path(key) for key in keys]

        def unlink() -> None:
            for path in paths:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError), locked(path.parent):
                    stat_object(path)
                    path.unlink()

        await self._run(Request.DELETE, "", unlink)

    async def close(self) -> None:
        """Nothing is kept open between calls."""

    def _path(self, key: str) -> Path:
        if _TEMPORARY.search(check_key(key)):
            raise InvalidError(f"key {key!r} ends like a temporary file and would never be listed; choose another name")
        return self._root / key

    def _temporary_name(self, path: Path) -> Path:
        return path.with_name(f"{path.name}#{int.from_bytes(self._runtime.random_bytes(6))}")

    @contextlib.contextmanager
    def _temporary(self, path: Path) -> Iterator[tuple[Path, int]]:
        """A new file beside ``path``, gone at the end unless it was renamed."""
        self._make_folder(path.parent)
        temporary = self._temporary_name(path)
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            yield temporary, descriptor
        finally:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)

    def _publish(self, key: str, temporary: Path, path: Path, mode: PutMode) -> str:
        """Give the finished temporary file its name, if ``mode`` allows."""
        match mode:
            case Create():
                try:
                    os.link(temporary, path)
                except FileExistsError:
                    if path.is_dir():
                        raise IsADirectoryError(str(path)) from None
                    raise Conflict(key, mode) from None
                etag = _etag(os.stat(temporary))
            case _:
                with locked(path.parent):
                    etag = self._replace(key, temporary, path, mode)
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise StoreUnavailable(
                f"writing {key!r} could not be made durable: {error}", unknown_outcome=True
            ) from error
        return etag

    def _replace(self, key: str, temporary: Path, path: Path, mode: PutMode) -> str:
        """Runs under the folder's lock."""
        try:
            present = stat_object(path)
        except FileNotFoundError:
            present = None
        if isinstance(mode, Update) and (present is None or _etag(present) != mode.etag):
            raise Conflict(key, mode)
        if present is not None:
            draft = os.stat(temporary)
            if draft.st_mtime_ns <= present.st_mtime_ns:
                os.utime(temporary, ns=(draft.st_atime_ns, present.st_mtime_ns + 1000))
        etag = _etag(os.stat(temporary))
        os.rename(temporary, path)
        return etag

    def _make_folder(self, folder: Path) -> None:
        """Make ``folder`` and its parents, each one durable in its own parent."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(str(folder)) from None
        sync_folder(folder.parent)

    def _walk(self, prefix: str, start_after: str) -> Iterator[ObjectMeta]:
        """Objects in the order of their whole keys: a folder stands where its name with a slash behind it stands."""

        def visit(folder: Path, base: str) -> Iterator[ObjectMeta]:
            try:
                with os.scandir(folder) as entries:
                    names = sorted((e.name + "/" if e.is_dir(follow_symlinks=False) else e.name) for e in entries)
            except (FileNotFoundError, NotADirectoryError):
                return
            path = f"{folder}/"  # joined by hand: a folder may hold a hundred thousand names
            for name in names:
                key = base + name
                if name.endswith("/"):
                    within = key.startswith(prefix) or prefix.startswith(key)
                    if within and (key > start_after or start_after.startswith(key)):
                        yield from visit(folder / name, key)
                elif key > start_after and key.startswith(prefix) and not _TEMPORARY.search(name):
                    # A file that is gone by now was deleted after the folder was read, and is not listed.
                    with contextlib.suppress(FileNotFoundError):
                        yield _meta(key, os.stat(path + name))

        # Start at the deepest folder that the prefix names in full, not at the root.
        base = check_prefix(prefix)[: prefix.rfind("/") + 1]
        return visit(self._root / base, base)

    async def _run(self, request: Request, key: str, work: Callable[[], T]) -> T:
        self._meter.count(request)
        try:
            return await self._runtime.run(work)
        except FileNotFoundError:
            raise NotFound(key) from None
        except PermissionError as error:
            raise Denied(f"{self.url}: {error.strerror}: {error.filename}; check who owns the folder") from error
        except (IsADirectoryError, NotADirectoryError):
            if request in (Request.GET, Request.HEAD):
                raise NotFound(key) from None
            raise InvalidError(f"{key!r}: on a local disk one name cannot be both an object and a folder") from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidError(f"key {key!r} is too long for the file system of {self.url}") from error
            raise StoreUnavailable(f"{self.url}, {key!r}: {error.strerror}", retryable=False) from error


def _meta(key: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(key, status.st_size, status.st_mtime_ns // 1_000_000, _etag(status))


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
