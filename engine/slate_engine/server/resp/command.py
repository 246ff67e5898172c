"""The table of commands: what each takes, whether it writes, and who carries it out."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from slate_engine.server.resp.budget import Budget
from slate_engine.server.resp.replies import CommandError, Reply

if TYPE_CHECKING:
    from slate_engine.server.keyspace import ReadUnit, Unit
    from slate_engine.server.resp.session import Session


@dataclass(frozen=True)
class Call:
    """One request: the arguments after the command's name, who asks, and the unit of work it belongs to. ``shared`` is what
    is left for the replies of a transaction, if it is in one."""

    args: list[bytes]
    session: Session
    unit: Unit
    shared: Budget | None = None

    @property
    def now_ms(self) -> int:
        return self.session.service.keyspace.runtime.now_ms()

    def budget(self) -> Budget:
        """For a reply that is gathered from many parts."""
        return self.shared or Budget(self.session.service.limits.reply_bytes)


Handler = Callable[[Call], Awaitable[Reply]]

MOST_WORDS = 1024
"""Of a command without keys, such as COMMAND INFO: all of them are dealt with in one go, in which nobody else is served."""


class Later(Enum):
    LATER = "has to wait"


LATER: Final = Later.LATER
"""In place of a reply that cannot be given at once."""

Peek: TypeAlias = "Callable[[ReadUnit, list[bytes]], Reply | Later]"
"""Answers a whole request from what is in memory, if that is enough."""


@dataclass(frozen=True)
class Command:
    """``arity`` counts the command's name; a negative one is the least. ``keys`` are the positions of the first and the last
    key and the step between them, as Redis tells them to its clients."""

    name: str
    arity: int
    flags: frozenset[str]
    keys: tuple[int, int, int]
    group: str
    summary: str
    run: Handler
    at_once: Peek | None = None
    """The same for what is in memory, without waiting. Only for commands with a fixed number of arguments that read."""

    @property
    def writes(self) -> bool:
        return "write" in self.flags

    def check_arity(self, count: int) -> None:
        if count != self.arity if self.arity >= 0 else count < -self.arity:
            raise wrong_arguments(self.name.lower())
        if count > MOST_WORDS and not self.keys[0]:
            raise CommandError(f"ERR too many arguments for '{self.name.lower()}' command: at most {MOST_WORDS}")

    def keys_of(self, request: list[bytes]) -> list[bytes]:
        first, last, step = self.keys
        if not first:
            return []
        end = len(request) + last if last < 0 else last
        return request[first : end + 1 : step]


TABLE: dict[bytes, Command] = {}
"""By name, in capitals."""


def command(
    name: str,
    arity: int,
    flags: str,
    summary: str,
    *,
    keys: tuple[int, int, int] = (0, 0, 0),
    group: str,
    at_once: Peek | None = None,
) -> Callable[[Handler], Handler]:
    """Enter a handler in the table."""

    def enter(run: Handler) -> Handler:
        TABLE[name.encode()] = Command(name, arity, frozenset(flags.split()), keys, group, summary, run, at_once)
        return run

    return enter


def unknown_subcommand(container: str, name: bytes) -> CommandError:
    return CommandError(f"ERR unknown subcommand '{text(name)}'. Try {container} HELP.")


def wrong_arguments(name: str) -> CommandError:
    return CommandError(f"ERR wrong number of arguments for '{name}' command")


def syntax_error() -> CommandError:
    return CommandError("ERR syntax error")


def not_an_integer() -> CommandError:
    return CommandError("ERR value is not an integer or out of range")


def integer(text: bytes) -> int:
    """A whole number of 64 bits, written as Redis takes it: no sign but a minus, no leading zeros, no spaces."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19 or (digits[:1] == b"0" and text != b"0"):
        raise not_an_integer()
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise not_an_integer()
    return value


def real(text: bytes) -> float:
    """A floating-point number, which may be infinite."""
    try:
        value = float(text)
    except ValueError:
        raise CommandError("ERR value is not a valid float") from None
    if math.isnan(value) or text != text.strip() or b"_" in text:
        raise CommandError("ERR value is not a valid float")
    return value


def help_reply(container: str, lines: Iterable[str]) -> list[Reply]:
    head = f"{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    return [head, *lines, "HELP", "    Print this help."]


def text(word: bytes) -> str:
    return word[:128].decode(errors="backslashreplace")
