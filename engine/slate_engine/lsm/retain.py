"""Which row versions are still needed when rows are rewritten: at a flush, and later at every compaction.

Somebody may still read at ``min_seq`` or above it, so of each key every version above ``min_seq`` stays, and the newest at
or below it, with all merge operands down to what they build on. Nothing older can be seen by anyone any more. A value
whose time has come becomes a tombstone, because older versions of the key may lie deeper down; only where nothing lies
deeper can tombstones at the end of a key's history go as well.
"""

from __future__ import annotations

import numpy as np

from slate_engine.format.columns import HAS_EXPIRE, I64, MERGE, TOMBSTONE, U8, U64, Rows
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import readonly
from slate_engine.lsm.order import first_of_key, take_bytes


def retain(rows: Rows, order: I64, *, min_seq: int, now_ms: int, deepest: bool) -> Rows:
    """The versions of ``rows`` that are still needed, in the given order (by key, newest version first).

    ``now_ms`` is the clock by which rows expire; ``deepest`` says that no older version of these keys lies anywhere else.
    """
    flags = rows.flags[order]
    keep = np.empty(len(order), np.uint8)
    first = first_of_key(rows.keys, order)
    seq, expire = rows.seq[order], rows.expire_ts[order]
    _choose(readonly(first), readonly(seq), flags, readonly(expire), np.uint64(min_seq), now_ms, deepest, keep)
    kept = np.flatnonzero(keep)
    picks, flags = order[kept], flags[kept]
    gone = (flags & TOMBSTONE).astype(np.uint8)
    return Rows(
        take_bytes(rows.keys, picks),
        take_bytes(rows.values, picks, gone),
        rows.seq[picks],
        flags,
        rows.create_ts[picks],
        np.where(flags & HAS_EXPIRE, rows.expire_ts[picks], 0),
    )


@kernel
def _choose(
    first: U8, seq: U64, flags: U8, expire: I64, min_seq: np.uint64, now_ms: int, deepest: bool, keep: U8
) -> None:
    count = len(seq)
    start = 0
    while start < count:
        end = start + 1
        while end < count and not first[end]:
            end += 1
        settled = False
        for i in range(start, end):
            if settled:
                keep[i] = 0
                continue
            keep[i] = 1
            if flags[i] & HAS_EXPIRE and expire[i] <= now_ms:
                if flags[i] & MERGE:
                    keep[i] = 0
                    continue
                flags[i] = (flags[i] & ~np.uint8(HAS_EXPIRE)) | np.uint8(TOMBSTONE)
            if not flags[i] & MERGE and seq[i] <= min_seq:
                settled = True
        if deepest:
            for i in range(end - 1, start - 1, -1):
                if not keep[i]:
                    continue
                if not flags[i] & TOMBSTONE:
                    break
                keep[i] = 0
        start = end
