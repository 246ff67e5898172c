"""Two writers that take a database from each other, told by how fast its writer epoch grows.

Every start of a writer takes the next epoch. Epochs that no start of our own pods explains were taken by somebody else. One
such is no harm: somebody used the command, or restored a checkpoint. Several in a short time are a fight, in which each side
undoes the other's start for ever; then ours gives way, for a time that doubles.
"""

from __future__ import annotations

from collections.abc import Iterable

from slate_operator.api.database import Contention
from slate_operator.build.naming import CONTAINER
from slate_operator.clock import seconds_of, stamp
from slate_operator.kube.cluster import Body

WINDOW = 900.0
ENOUGH = 3
"""So many foreign epochs within the window are a fight."""
FIRST_REST, LONGEST_REST = 60.0, 3600.0
CALM = 1800.0
"""After so long without a change, the next fight is a new one."""


def weighed(before: Contention | None, epoch: int, starts: Iterable[str], now: float) -> Contention:
    """What is known of the fight, if there is one. Nothing changes as long as nothing happens."""
    fresh = Contention(epochs=(epoch,), seen_at=(stamp(now),))
    if before is None or not before.epochs or epoch < before.epochs[-1]:
        return fresh
    if before.backing_off_until is not None:
        if now < seconds_of(before.backing_off_until):
            return before
        return fresh.model_copy(update={"attempts": before.attempts})
    known = _noted(before, epoch, starts, now)
    if foreign(known) >= ENOUGH:
        rest = min(FIRST_REST * 2.0**before.attempts, LONGEST_REST)
        return fresh.model_copy(
            update={"attempts": before.attempts + 1, "backing_off_until": stamp(now + rest)},
        )
    if known.attempts and now - seconds_of(known.seen_at[-1]) > CALM:
        return known.model_copy(update={"attempts": 0})
    return known


def foreign(contention: Contention) -> int:
    """Epochs since the first one that our own starts do not explain."""
    if not contention.epochs:
        return 0
    since = contention.seen_at[0]
    own = sum(1 for start in contention.starts if start > since)
    return max(0, contention.epochs[-1] - contention.epochs[0] - own)


def resting(contention: Contention | None, now: float) -> float | None:
    """Seconds that our writer still has to rest."""
    if contention is None or contention.backing_off_until is None:
        return None
    left = seconds_of(contention.backing_off_until) - now
    return left if left > 0 else None


def starts_of(pods: Iterable[Body]) -> set[str]:
    """When the container that writes was started in these pods, as far as they tell."""
    found = set()
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            if container.get("name") != CONTAINER:
                continue
            for state in (container.get("state") or {}, container.get("lastState") or {}):
                for phase in ("running", "terminated"):
                    if at := (state.get(phase) or {}).get("startedAt"):
                        found.add(at)
    return found


def _noted(before: Contention, epoch: int, starts: Iterable[str], now: float) -> Contention:
    since = before.seen_at[0]
    new_starts = {start for start in starts if start > since} - set(before.starts)
    if epoch == before.epochs[-1] and not new_starts:
        return before
    epochs, seen_at = list(before.epochs), list(before.seen_at)
    if epoch != epochs[-1]:
        epochs.append(epoch)
        seen_at.append(stamp(now))
    # The last one from before the window stays: the others are counted from it.
    oldest = stamp(now - WINDOW)
    while len(epochs) > 1 and seen_at[1] < oldest:
        del epochs[0], seen_at[0]
    # One that stood all the while was the newest when the window began, too: older starts explain nothing that is to come.
    if len(epochs) == 1:
        seen_at[0] = max(seen_at[0], oldest)
    kept = sorted(start for start in {*before.starts, *new_starts} if start > seen_at[0])
    return before.model_copy(update={"epochs": tuple(epochs), "seen_at": tuple(seen_at), "starts": tuple(kept)})
