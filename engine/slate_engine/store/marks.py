"""Whose object is this? How a write whose answer was lost is settled.

A PUT can be carried out although its answer never arrives: the connection breaks, a proxy times out, the server dies
after it has written. Trying again blindly is wrong for conditional writes: the second attempt finds the first one's object
and reports a conflict with ourselves. Comparing the *bytes* that are there is wrong too: two writers may well write the
same bytes (every WAL fence is empty, two collectors advance a boundary to the same number), and then the loser of a race
takes the winner's object for its own and goes on as if it had won.

So every write carries a mark, an attribute of the object that no other write has. After a failure the object is read, and
its mark says whose it is. A mark also says how the write came about, because the object that is found may be a later one:

``c.<random>``                 made by create-if-absent: right before it there was nothing
``u.<replaced>.<random>``      made by update-if-match: right before it stood the object whose etag hashes to ``<replaced>``
``o.<random>``                 made by an overwrite: says nothing about what was there

:func:`judge` turns what is found into one of four verdicts, and is right in every order of events:

* our mark: the write was carried out. WON.
* a refusal (412), and no answer was lost on the way: LOST, as the server says. The mark is looked at all the same: some
  HTTP libraries and proxies resend a PUT on their own, and that makes a refusal out of a success.
* create, answer lost, nothing there: AGAIN, with the same mark. If the first request is still under way and arrives later,
  one of the two wins and the other is refused, and both are ours.
* create, answer lost, somebody else's ``c`` object there: LOST. Nothing was there right before it, so ours never was.
* create, answer lost, an object there that was *updated* or that carries no mark: UNKNOWN. It may have replaced ours.
* update from E, answer lost, E still there: AGAIN. A late first request is refused once the second has replaced E.
* update from E, answer lost, an object with ``u.<E>`` there: LOST. One write replaced E, and it is not ours.
* update from E, answer lost, anything else: UNKNOWN. Ours may have been one of those in between.

UNKNOWN is reported as what it is (``StoreUnavailable(unknown_outcome=True)``), never as success and never as a conflict:
the caller reads the state anew, as it would after a restart.

Two limits, by nature. An object that is created and *deleted* again while its creator still waits for the answer leaves no
trace; names in SlateDB are deleted only long after they were written. And where an etag is a hash of the content (S3), an
object that goes back to former content goes back to its former etag; boundaries only ever grow.
"""

from __future__ import annotations

import enum
import hashlib

from slate_engine.runtime import Runtime
from slate_engine.store.backend import Signed
from slate_engine.store.protocol import Create, Overwrite, PutMode, Update


class Verdict(enum.Enum):
    WON = "won"
    LOST = "lost"
    AGAIN = "again"
    UNKNOWN = "unknown"


def new_mark(runtime: Runtime, mode: PutMode) -> str:
    chance = runtime.random_bytes(16).hex()
    match mode:
        case Create():
            return f"c.{chance}"
        case Update(etag):
            return f"u.{_digest(etag)}.{chance}"
        case Overwrite():
            return f"o.{chance}"


def judge(found: Signed | None, mark: str, mode: PutMode, *, refused: bool, lost: bool) -> Verdict:
    """What became of the write ``mark``, given the object that is there now.

    ``refused``: the latest attempt was answered by a failed condition. ``lost``: some attempt so far was not answered, and
    may have been carried out.
    """
    if found is not None and found.mark == mark:
        return Verdict.WON
    if refused and not lost:
        return Verdict.LOST
    match mode:
        case Overwrite():
            return Verdict.AGAIN
        case Create():
            if found is None:
                # A refusal means that something was there a moment ago, and it may have been ours.
                return Verdict.UNKNOWN if refused else Verdict.AGAIN
            return Verdict.LOST if found.mark.startswith("c.") else Verdict.UNKNOWN
        case Update(etag):
            if found is None:
                return Verdict.UNKNOWN
            if found.meta.etag == etag and not refused:
                return Verdict.AGAIN
            return Verdict.LOST if found.mark.startswith(f"u.{_digest(etag)}.") else Verdict.UNKNOWN


def _digest(etag: str) -> str:
    return hashlib.blake2b(etag.encode(), digest_size=8).hexdigest()
