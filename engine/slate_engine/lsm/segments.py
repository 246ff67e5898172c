"""Which tree a key belongs to, in a database with a segment extractor."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from slate_engine.errors import InvalidError
from slate_engine.format.columns import Rows
from slate_engine.format.filters import Point, PrefixExtractor
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.table import cut
from slate_engine.state.manifest import Manifest


def check_extractor(manifest: Manifest, extractor: PrefixExtractor | None) -> None:
    """A database is read and written with the extractor it was made with, or its keys would be looked for elsewhere."""
    ours = extractor.name() if extractor else None
    if manifest.segment_extractor_name != ours:
        raise InvalidError(
            "Invalid error: segment extractor configuration mismatch "
            f"(persisted: {manifest.segment_extractor_name!r}, configured: {ours!r}): open the database with the extractor "
            "that it was created with"
        )
    for segment in manifest.segments:
        if extractor is not None and extractor.prefix_len(Point(segment.prefix)) != len(segment.prefix):
            raise InvalidError(
                f"Invalid error: segment prefix {segment.prefix!r} is not recognized by the configured extractor {ours!r}"
            )


class Segments:
    """The prefixes in use. None may begin another, or a key could belong to two trees."""

    def __init__(self, extractor: PrefixExtractor | None, prefixes: Iterable[bytes] = ()) -> None:
        self._extractor = extractor
        self.prefixes: list[bytes] = sorted(prefixes)

    def add(self, keys: Iterable[bytes]) -> None:
        """Take note of the segments of these keys; refuses a key that has none, before anything is written."""
        if self._extractor is None:
            return
        for prefix in sorted({self._prefix(key) for key in keys}):
            place = bisect_left(self.prefixes, prefix)
            if place < len(self.prefixes) and self.prefixes[place] == prefix:
                continue
            around = self.prefixes[max(place - 1, 0) : place + 1]
            clash = next((other for other in around if other.startswith(prefix) or prefix.startswith(other)), None)
            if clash is not None:
                raise InvalidError(
                    f"Invalid error: segment prefix {prefix!r} would nest with existing segment {clash!r}; the extractor "
                    "must not give a prefix of another one"
                )
            insort(self.prefixes, prefix)

    def _prefix(self, key: bytes) -> bytes:
        assert self._extractor is not None
        length = self._extractor.prefix_len(Point(key))
        if not length:
            raise InvalidError(
                f"Invalid error: segment extractor produced an empty prefix for key {key!r}; every key of this database "
                f"must have one by {self._extractor.name()!r}"
            )
        return key[:length]

    def split(self, rows: Rows) -> list[tuple[bytes, Rows]]:
        """A sorted batch by segment; without an extractor all of it is the root's."""
        if self._extractor is None:
            return [(b"", rows)]
        # A copy, made in one step: a flush splits in a thread while commits add segments, and a smaller one moves the others
        # on, so that one of them would be met twice.
        parts = [(prefix, cut(rows, KeyRange.of_prefix(prefix))) for prefix in self.prefixes.copy()]
        return [(prefix, part) for prefix, part in parts if len(part)]
