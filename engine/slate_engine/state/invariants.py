"""What every manifest must keep to, lest SlateDB panics on it or readers get wrong answers.

The rules about trees are checked when a manifest is read and before one is written; those about numbers before writing.
Each runs over whole columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slate_engine.errors import InvalidError
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.ids import Ids
from slate_engine.format.key_range import BoundType
from slate_engine.state.flat import FlatTrees
from slate_engine.state.view_table import Mask

if TYPE_CHECKING:
    from slate_engine.state.manifest import Manifest

MOST_KEY_BYTES = 1 << 31
"""FlatBuffers end here, so that the keys of distinct SSTs can never be more."""

_U16, _U32, _U64 = 2**16, 2**32, 2**64


class InvalidManifest(InvalidError):
    """A manifest that must not be written: it breaks a rule that other processes rely on. The transition that made it is
    at fault; what is stored has not changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this manifest must not be written: {reason}")


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong, and with which of the flat views if it is about one."""

    reason: str
    view: int | None = None


def find_flaw(flat: FlatTrees, prefixes: Sequence[bytes]) -> Flaw | None:
    """The first rule about trees that does not hold."""
    return _flaw_of_views(flat) or _flaw_of_runs(flat) or _flaw_of_segments(prefixes)


def _first(wrong: Mask, reason: str) -> Flaw | None:
    found = np.flatnonzero(wrong)
    return Flaw(reason, int(found[0])) if len(found) else None


def _flaw_of_views(flat: FlatTrees) -> Flaw | None:
    views = flat.views
    # Many views may show one SST, or one range. No honest manifest does so with keys this long, and comparing them all
    # would take time out of proportion to its size.
    lengths = np.maximum(views.ssts.first.length, 0) + np.maximum(views.ssts.last.length, 0)
    if int(lengths[views.sst].sum()) > MOST_KEY_BYTES:
        return Flaw("the keys of all views take more bytes than a FlatBuffer can hold")
    flaw = _first(~views.ssts.first.present[views.sst], "the SST of a view has no first key")
    if flaw is None and len(views.ranges):
        visible = np.append(views.ranges.start_type == BoundType.EXCLUDED, np.False_)[views.visible]
        flaw = _first(visible, "the visible range of a view begins with an excluded bound")
    return flaw or _first(views.bounds().is_empty, "a view shows no key of its SST, or an SST ends before it begins")


def _flaw_of_runs(flat: FlatTrees) -> Flaw | None:
    """Neighbours in a run may share a key, but not overlap."""
    start = flat.l0_total
    if len(flat.views) - start < 2:
        return None
    bounds = flat.views.bounds()
    before, after = slice(start, -1), slice(start + 1, None)
    upper, lower = bounds.upper.take(before), bounds.lower.take(after)
    # An SST of an old version does not know its last key; then at least the first ones must ascend.
    overlap = (upper.compare(lower) > 0) & upper.present
    overlap &= ~(bounds.open[before] & _is_next_key(upper, lower))
    overlap |= bounds.lower.take(before).compare(lower) > 0
    last_of_run = flat.view_offsets[1:-1]
    overlap[last_of_run[(last_of_run > 0) & (last_of_run <= len(overlap))] - 1] = False
    flaw = _first(overlap, "two SSTs of a sorted run overlap")
    return None if flaw is None or flaw.view is None else Flaw(flaw.reason, flaw.view + start + 1)


def _is_next_key(keys: Spans, of: Spans) -> Mask:
    """Whether a key is the very next one after the other, that is, the other and a zero byte. Before it and from the
    other on there is one key only, which neighbours may share."""
    ends_with_zero = np.zeros(len(keys), np.bool_)
    longer = np.flatnonzero(keys.length == of.length + 1)
    ends_with_zero[longer] = keys.data[keys.start[longer] + of.length[longer]] == 0
    same_before: Mask = Spans(keys.data, keys.start, keys.length - 1).compare(of) == 0
    return same_before & ends_with_zero


def _flaw_of_segments(prefixes: Sequence[bytes]) -> Flaw | None:
    if b"" in prefixes:
        return Flaw("a segment has an empty prefix, which is the root's")
    for before, after in itertools.pairwise(prefixes):
        if after.startswith(before) or after < before:
            return Flaw(f"the segment prefixes {before!r} and {after!r} contain one another or are out of order")
    return None


def validate(manifest: Manifest) -> None:
    """Raise :class:`InvalidManifest` unless it is safe to write this. Called before every write."""
    if manifest.trees.flaw is not None:
        raise InvalidManifest(manifest.trees.flaw.reason)
    _check_runs(manifest)
    _check_numbers(manifest)
    _check_texts(manifest)
    if len({checkpoint.id for checkpoint in manifest.checkpoints}) < len(manifest.checkpoints):
        raise InvalidManifest("two checkpoints have the same id")


def check_succession(before: Manifest, after: Manifest) -> None:
    """Raise :class:`InvalidManifest` unless ``after`` may follow ``before``.

    Garbage collection deletes SSTs that are older than the newest of L0 and in no manifest. So one that comes to L0 must
    not be older than that, or it may be gone already: the clock that named it was behind."""
    if after.writer_epoch < before.writer_epoch or after.compactor_epoch < before.compactor_epoch:
        raise InvalidManifest("an epoch must not go back: it fences those who had a smaller one")
    watermark = before.trees.newest_l0_ms
    # While a clone is under construction its parents keep what it shows, whatever its age.
    if after.trees is before.trees or watermark is None or not before.initialized:
        return
    known = Ids.concat([tree.l0.sst_ids for tree in before.trees])
    order = known.order()
    known = known if order is None else known.take(order)
    for tree in after.trees:
        ids = tree.l0.sst_ids
        stale = np.flatnonzero((ids.ms < watermark) & (known.find(ids) < 0))
        if len(stale):
            raise InvalidManifest(
                f"the new SST {ids[int(stale[0])]} of L0 is older than the newest one there: name it anew, not before "
                f"{watermark} ms"
            )


def _check_runs(manifest: Manifest) -> None:
    for tree in manifest.trees:
        if any(before.id <= after.id for before, after in itertools.pairwise(tree.runs)):
            raise InvalidManifest("the ids of the sorted runs of a tree must descend")
    ids = manifest.trees.flat.run_ids
    if len(np.unique(ids)) < len(ids):
        raise InvalidManifest("two sorted runs have the same id: it is unique over all segments")
    if len(ids) and int(ids.max()) >= _U32:
        raise InvalidManifest("the id of a sorted run takes more than 32 bits")
    if len(manifest.ssts) and int(manifest.ssts.format_version.max()) >= _U16:
        raise InvalidManifest("the format version of an SST takes more than 16 bits")


def _check_numbers(manifest: Manifest) -> None:
    for name in ("writer_epoch", "compactor_epoch", "replay_after_wal_id", "last_l0_seq", "recent_snapshot_min_seq"):
        if not 0 <= getattr(manifest, name) < _U64:
            raise InvalidManifest(f"{name} takes more than 64 bits")
    # Readers add one to it.
    if not 0 <= manifest.wal_id_last_seen < _U64 - 1:
        raise InvalidManifest("wal_id_last_seen leaves no next WAL id")
    if not -(_U64 // 2) <= manifest.last_l0_clock_tick < _U64 // 2:
        raise InvalidManifest("last_l0_clock_tick takes more than 64 bits")
    for checkpoint in manifest.checkpoints:
        expire = 1 if checkpoint.expire_time_s is None else checkpoint.expire_time_s
        # Zero on the wire is no time but the want of one.
        if not (0 < expire < _U32 and 0 <= checkpoint.create_time_s < _U32):
            raise InvalidManifest(f"a time of checkpoint {checkpoint.id} is not within 32 bits of seconds")
        # Zero is the number that the commit has yet to fill in.
        if not 0 < checkpoint.manifest_id < _U64:
            raise InvalidManifest(f"checkpoint {checkpoint.id} keeps no manifest that there can be")


def _check_texts(manifest: Manifest) -> None:
    texts = [
        manifest.segment_extractor_name,
        *(checkpoint.name for checkpoint in manifest.checkpoints),
        *(external.path for external in manifest.external_dbs),
    ]
    for text in texts:
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise InvalidManifest(f"the text {text!r} cannot be written as UTF-8") from None
