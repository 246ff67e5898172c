"""Deep copies: a database that begins as another one is, and shares nothing with it.

The objects come first and the manifest last, so a copy that is not finished is no database. A mark beside it says what it
is going to be. A client that makes the same copy again copies only what is not there yet; one that gives it up destroys it
for good, as if it were a database. Inside one store the service copies, without the bytes passing through here; to another
store they stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from slate_engine.admin.checkpoints import (
    CheckpointOptions,
    commit_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
)
from slate_engine.admin.parents import neighbour, newest_or_none
from slate_engine.admin.transfers import AT_ONCE, Transfer, carry_out
from slate_engine.errors import Error, InvalidError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import check_present, wal_ids
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import CheckpointExpired, CheckpointMissing, check_usable
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.store.protocol import CREATE, Buffer, Conflict, NotFound, Update

log = logging.getLogger(__name__)

HOLD_MS = 3_600_000
"""The source keeps its state for so long, and is asked to keep it on while the copy lasts."""
BATCH = 16 * AT_ONCE
"""After so many objects we look whether the source has to be asked again."""

_MADE = " made"

Progress = Callable[[int, int], None]
Move = Callable[[Sequence[Transfer], Callable[[], None]], Awaitable[None]]
"""Makes copies, and tells of each: here, or by others."""


def mark_key(target: DatabaseFiles) -> str:
    """The object that stands beside a copy from its first object until its end."""
    return target.paths.under("gc/copying")


async def copy_database(
    source: DatabaseFiles,
    target: DatabaseFiles,
    checkpoint: UUID | None = None,
    progress: Progress = lambda done, total: None,
    move: Move = carry_out,
    *,
    id: UUID | None = None,
) -> Versioned[Manifest]:
    """Make ``target`` a copy of the source as it is, or at a checkpoint. ``progress`` is told how many of how many objects
    are there. The service copies if both are in the very same ``store``. ``move`` is for those who have others copy. A
    client that gives its request an ``id`` may repeat it, and finds the copy that it has made: then the mark stays."""
    state = checkpoint or ("as it is" if id is None else f"as it is {id}")
    request = f"{source.store.url} {source.paths.root} {state}"
    standing = await newest_or_none(target.manifests)
    if standing is not None:
        mark = await _check_made(source, target, None if checkpoint is None and id is None else request)
        await _end(target, mark, keep=id is not None)
        return standing
    hold, manifest = await _begin(source, target, request, checkpoint)
    try:
        await _copy_objects(source, target, manifest, hold, progress, move)
        committed = await _commit(target, manifest, hold)
    except (Exception, asyncio.CancelledError):
        await _let_go(source, hold.id)
        raise
    await _end(target, hold.mark, keep=id is not None)
    await delete_checkpoint(source, hold.id)
    return committed


# --- several attempts at one copy ------------------------------------------------------------------------------------


@dataclass
class _Hold:
    """The checkpoint by which the source keeps its state for one attempt, and the mark that names that state."""

    source: DatabaseFiles
    id: UUID
    mark: _Mark
    renew_at: float = 0.0

    def __post_init__(self) -> None:
        self.renew_at = self.source.runtime.monotonic() + HOLD_MS / 3000

    async def renew(self) -> None:
        """Ask the source to keep it on, if that is due. Raises ``CheckpointMissing`` if the source does not any more."""
        if self.source.runtime.monotonic() >= self.renew_at:
            await refresh_checkpoint(self.source, self.id, HOLD_MS)
            self.renew_at = self.source.runtime.monotonic() + HOLD_MS / 3000


@dataclass(frozen=True)
class _Mark:
    """What a copy is going to be: what was asked for, and the manifest of the source that it copies; or, ``made``, what the
    database beside the mark was made for."""

    request: str
    manifest_id: int
    made: bool = False

    def encoded(self) -> bytes:
        return f"{self.request} manifest {self.manifest_id}{_MADE if self.made else ''}".encode()

    @staticmethod
    def decoded(data: Buffer) -> _Mark | None:
        """None for a mark of an older release, which is replaced."""
        text = bytes(data).decode(errors="replace")
        request, _, number = text.removesuffix(_MADE).rpartition(" manifest ")
        known = request and number.isascii() and number.isdigit()
        return _Mark(request, int(number), text.endswith(_MADE)) if known else None


async def _end(target: DatabaseFiles, mark: _Mark, *, keep: bool) -> None:
    """The copy is made. A mark that stays says for which request."""
    if keep:
        await target.store.put(mark_key(target), replace(mark, made=True).encoded())
    else:
        await target.store.delete([mark_key(target)])


def _hold_name(target: DatabaseFiles) -> str:
    return f"copying to {target.paths.root}"


async def _begin(
    source: DatabaseFiles, target: DatabaseFiles, request: str, checkpoint: UUID | None
) -> tuple[_Hold, Manifest]:
    """Have the source keep the state to copy, and mark the target with it.

    Another attempt may be at work: the process before this one, or the same command twice. Two attempts that copy two states
    would delete each other's log. So an attempt that finds the mark of another one copies the same state, as long as the
    source keeps that."""
    while True:
        found, etag = await _read_mark(target)
        known = await _known_hold(source, target, found) if found is not None and found.request == request else None
        id = uuid4(source.runtime)
        state = checkpoint if known is None else known.id
        options = CheckpointOptions(HOLD_MS, source=state, name=_hold_name(target), id=id, whole_log=True)
        try:
            held = (await commit_checkpoint(source, options)).value.checkpoint(id)
        except (CheckpointMissing, CheckpointExpired) as gone:
            if known is None or gone.id != known.id:
                raise
            continue  # the other attempt has ended in this very moment
        assert held is not None
        mark = _Mark(request, held.manifest_id)
        try:
            manifest = await source.manifests.read(held.manifest_id)
            check_usable(manifest)
            if state is not None:
                await check_present(source.log_store, source.paths, manifest.needed_wal_ids)
            if mark != found:
                await target.store.put(mark_key(target), mark.encoded(), CREATE if etag is None else Update(etag))
            return _Hold(source, id, mark), manifest
        except Conflict:
            await delete_checkpoint(source, id)
        except (Exception, asyncio.CancelledError):
            await _let_go(source, id)
            raise


async def _let_go(source: DatabaseFiles, hold: UUID) -> None:
    """After a failure. It expires by itself; what went wrong first is what the caller has to know."""
    with contextlib.suppress(Error):
        await delete_checkpoint(source, hold)


async def _read_mark(target: DatabaseFiles) -> tuple[_Mark | None, str | None]:
    """The mark and its etag."""
    try:
        found = await target.store.get(mark_key(target))
    except NotFound:
        return None, None
    return _Mark.decoded(found.data), found.meta.etag


async def _known_hold(source: DatabaseFiles, target: DatabaseFiles, mark: _Mark) -> Checkpoint | None:
    """A checkpoint by which another attempt keeps the state that the mark names."""
    now_s = source.runtime.now_ms() / 1000
    for each in await list_checkpoints(source, _hold_name(target)):
        if each.manifest_id == mark.manifest_id and not each.is_expired(now_s):
            return each
    return None


async def _check_made(source: DatabaseFiles, target: DatabaseFiles, request: str | None) -> _Mark:
    """The mark of the database at the target, which must be the copy that this very request has made. None is a request for
    the state of now without an id: what stands there shows the state of an earlier time."""
    mark, _ = await _read_mark(target)
    if mark is not None and mark.request == request:
        if mark.made:
            return mark
        # The attempt that made it ended before it could say so. Or another client made another database there meanwhile.
        if await _known_hold(source, target, mark) is not None:
            with contextlib.suppress(NotFound):
                if await _is_copy(target, await source.manifests.read(mark.manifest_id)):
                    return mark
    if source.store.url == target.store.url and source.paths == target.paths:
        # Not refused before: another endpoint may have a bucket of the same name, and that is another place.
        raise InvalidError(
            f"{source.path!r} cannot be copied to itself, nor to where a database stands already; choose another path"
        )
    raise InvalidError(f"at {target.path!r} there is a database already; choose another path, or destroy it")


async def _is_copy(target: DatabaseFiles, manifest: Manifest) -> bool:
    """Whether the target began as a copy of this state. It may have been written since."""
    first = await target.manifests.read((await target.manifests.objects.list())[0].id)
    return _state_of(first) == _state_of(_alone(manifest))


def _state_of(manifest: Manifest) -> tuple[object, ...]:
    return manifest.trees, manifest.replay_after_wal_id, manifest.wal_id_last_seen, manifest.last_l0_seq


def _alone(manifest: Manifest) -> Manifest:
    return replace(manifest, checkpoints=(), external_dbs=())


async def _commit(target: DatabaseFiles, manifest: Manifest, hold: _Hold) -> Versioned[Manifest]:
    await hold.renew()
    if (await _read_mark(target))[0] != hold.mark and await newest_or_none(target.manifests) is None:
        raise InvalidError(
            f"another client began another copy at {target.path!r} meanwhile; wait for that one, or make this one again"
        )
    alone = _alone(manifest)
    committed = await target.manifests.create_first(alone)
    if committed.value is not alone and not await _is_copy(target, manifest):
        raise InvalidError(
            f"somebody made a database at {target.path!r} while it was being copied to; it was left alone"
        )
    return committed


# --- the objects -----------------------------------------------------------------------------------------------------


async def _copy_objects(
    source: DatabaseFiles, target: DatabaseFiles, manifest: Manifest, hold: _Hold, progress: Progress, move: Move
) -> None:
    ids = manifest.needed_wal_ids
    await _drop_other_log(target, ids)
    log_stores = source.log_store, target.log_store
    work = [transfer async for transfer in _missing_ssts(source, target, manifest)]
    total = len(manifest.ssts) + len(ids)
    present = len(manifest.ssts) - len(work)
    work += [Transfer(log_stores[0], source.paths.wal(id), log_stores[1], target.paths.wal(id)) for id in ids]

    def one_more() -> None:
        nonlocal present
        present += 1
        progress(present, total)

    progress(present, total)
    for start in range(0, len(work), BATCH):
        await move(work[start : start + BATCH], one_more)
        await hold.renew()


async def _drop_other_log(target: DatabaseFiles, wanted: Sequence[int]) -> None:
    """An earlier attempt may have copied another part of the log, which whoever opens the copy would replay, too. A database
    has a manifest before it has a log: what lies here while there is none belongs to nobody."""
    store = target.log_store
    others = [id for id in await wal_ids(store, target.paths, 0) if id not in wanted]
    if others and await newest_or_none(target.manifests) is None:
        log.warning("%d WAL files that an earlier copy left at %r are deleted", len(others), target.path)
        await store.delete([target.paths.wal(id) for id in others])


async def _missing_ssts(source: DatabaseFiles, target: DatabaseFiles, manifest: Manifest) -> AsyncIterator[Transfer]:
    """The SSTs that have yet to be copied; each lies with the source or with one of its parents."""
    present = {meta.key async for page in target.store.list(target.paths.compacted_directory + "/") for meta in page}
    parents = [neighbour(source, external.path).paths for external in manifest.external_dbs]
    for id, owner in zip(manifest.ssts.id, manifest.owners.tolist(), strict=True):
        destination = target.paths.compacted(id)
        if destination not in present:
            home = source.paths if owner < 0 else parents[owner]
            yield Transfer(source.store, home.compacted(id), target.store, destination)
