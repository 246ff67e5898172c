"""What a backend owes the wrappers in front of it: an :class:`ObjectStore` whose writes can be signed.

A *mark* is a short unique text that travels with the bytes of one write, as a user attribute of the object. SlateDB uses
no attributes and ignores them, so a mark changes nothing for anybody else; but it lets the one who wrote the object
recognise it later, even among objects with identical bytes. See :mod:`slate_engine.store.marks` for what it is good for.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from slate_engine.errors import InvalidError
from slate_engine.store.protocol import OVERWRITE, Attributes, Buffer, Create, ObjectMeta, ObjectStore, PutMode

MARK = "slatewrite"
"""The attribute's name. Azure allows letters and digits only."""


@dataclass(frozen=True, slots=True)
class Signed:
    """An object as it stands, and the mark of the write that made it ("" when it carries none)."""

    meta: ObjectMeta
    mark: str


class Backend(ObjectStore, Protocol):
    """A store that does each call once, reports exactly what it knows of the outcome, and can sign what it writes.

    Backends do not retry writes, and keep their SDK from doing so: a second attempt that nobody sees would find the first
    one's object and report a conflict that is none.
    """

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str: ...

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str: ...

    async def read_mark(self, key: str) -> Signed:
        """Raises :class:`~slate_engine.store.protocol.NotFound`."""
        ...


def notes_of(mode: PutMode, mark: str) -> dict[str, str]:
    """All that is to be kept beside the bytes of a write."""
    notes = dict(mode.attributes) if isinstance(mode, Create) else {}
    return {**notes, MARK: mark} if mark else notes


def attributes_of(notes: Mapping[str, str]) -> Attributes:
    """What a creator noted, out of all that a service keeps beside an object. Some give names back in capitals."""
    return tuple((name.lower(), value) for name, value in notes.items() if name.lower() != MARK)


def check_key(key: str) -> str:
    """``key`` itself if every backend can hold it: relative, no empty, ``.`` or ``..`` segment, no control characters."""
    if not key:
        raise InvalidError("an object needs a name: the key is empty")
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        raise InvalidError(
            f"key {key!r} is not a relative path of non-empty names; remove '//', '.', '..' and outer '/'"
        )
    if not key.isprintable() and any(character < " " or character == "\x7f" for character in key):
        raise InvalidError(f"key {key!r} has control characters, which not every store can hold; choose another name")
    return key


def check_prefix(prefix: str) -> str:
    """``prefix`` itself if some key can begin with it. It need not end at a slash."""
    if prefix:
        check_key(prefix + "x")
    return prefix
