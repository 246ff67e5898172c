"""What is asked for when a clone is made, and how a clone that stands is known to be of the same request.

A client that may have to repeat its request gives it an id. The final checkpoints, which the clone's manifest names, get ids
that are signed with it: eight random bytes, and eight that follow from these and from the whole request. So each attempt has
checkpoints of its own, and every one of them tells whose request it was made for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from slate_engine.errors import InvalidError
from slate_engine.format.key_range import ALL, Bound, KeyRange
from slate_engine.runtime import Runtime, uuid4
from slate_engine.state.manifest import Manifest

_RANDOM_BYTES = 8


@dataclass(frozen=True)
class CloneSource:
    """A database to clone: as it is, or at a checkpoint; all of it, or some keys."""

    path: str
    checkpoint: UUID | None = None
    keys: KeyRange = ALL


@dataclass(frozen=True)
class CloneRequest:
    """One database of these sources, cut down to ``keys``."""

    sources: tuple[CloneSource, ...]
    keys: KeyRange = ALL
    id: UUID | None = None

    @staticmethod
    def of(sources: Sequence[CloneSource], keys: KeyRange, id: UUID | None) -> CloneRequest:
        """Raises :class:`InvalidError` if no clone can be made of these sources."""
        found = tuple(replace(source, path=source.path.strip("/")) for source in sources)
        paths = [source.path for source in found]
        if not found:
            raise InvalidError("a clone needs a source: name the database to clone")
        if len(set(paths)) < len(paths):
            raise InvalidError(f"each source may be named once only, not {paths}; give it the one range that is wanted")
        return CloneRequest(found, keys, id)

    @property
    def alone(self) -> bool:
        """Whether there is one source: only then its log can be copied."""
        return len(self.sources) == 1

    @property
    def names_all_checkpoints(self) -> bool:
        """Whether it asks for the same state whenever it is made."""
        return all(source.checkpoint is not None for source in self.sources)

    def keys_of(self, source: CloneSource) -> KeyRange | None:
        """Which keys of a source are wanted; None if there are none."""
        return source.keys.intersect(self.keys)

    def final_checkpoint_id(self, runtime: Runtime) -> UUID:
        """A new id for a checkpoint by which a parent keeps what the clone shows."""
        return uuid4(runtime) if self.id is None else self._signed(uuid4(runtime).bytes[:_RANDOM_BYTES])

    def made(self, manifest: Manifest) -> bool:
        """Whether the clone was certainly made for this request. A clone that shows nothing of its parents any more does
        not name them either, so then it cannot be told."""
        finals = (external.final_checkpoint_id for external in manifest.external_dbs)
        return self.id is not None and any(
            final is not None and final == self._signed(final.bytes[:_RANDOM_BYTES]) for final in finals
        )

    def _signed(self, drawn: bytes) -> UUID:
        assert self.id is not None
        wanted = [
            (source.path, str(source.checkpoint), None if keys is None else [_bound(keys.start), _bound(keys.end)])
            for source in self.sources
            for keys in [self.keys_of(source)]
        ]
        told = self.id.bytes + drawn + json.dumps(wanted).encode()
        return UUID(bytes=drawn + hashlib.sha256(told).digest()[: 16 - len(drawn)], version=4)


def _bound(bound: Bound) -> list[object]:
    return [int(bound.type), bound.key.hex() if bound.bounded else None]
