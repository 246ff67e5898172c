"""Settings in environment variables: ``SLATEDB_FLUSH_INTERVAL=250ms``, ``SLATEDB_COMPACTOR_OPTIONS.POLL_INTERVAL=9s``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import TypeVar

from slate_engine.api.schema import Json
from slate_engine.api.sources import overlay

T = TypeVar("T")


def read_environment(environment: Mapping[str, str], prefix: str) -> dict[str, Json]:
    """The tree of settings whose names start with ``prefix``. Case does not matter, dots go into tables."""
    tree: dict[str, Json] = {}
    for name, text in environment.items():
        if not name.strip().lower().startswith(prefix.lower()):
            continue
        *tables, key = name.strip()[len(prefix) :].strip().lower().split(".")
        if not all([*tables, key]):
            continue
        nested: dict[str, Json] = {key: parse_value(text)}
        for table in reversed(tables):
            nested = {table: nested}
        tree = overlay(tree, nested)
    return tree


def parse_value(text: str) -> Json:
    """A number, ``true``, ``false``, a list ``[1, 2]``, a table ``{a=1, b=two}``, or text, in quotes or not.

    What looks like one of these and is not, is text as well, to the last space.
    """
    reader = _Reader(text.strip())
    try:
        value = reader.value()
    except (ValueError, RecursionError):
        return text
    return value if reader.at == len(reader.text) else text


class _Reader:
    """Reads values off a text. Raises ``ValueError`` where the text does not go on as it must."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def value(self) -> Json:
        start = self.text[self.at : self.at + 1]
        if start == '"':
            return self._quoted()
        if start == "'":
            return self._take(r"'(.)'\s*")
        if start == "[":
            return self._enclosed("]", self.value)
        if start == "{":
            return dict(self._enclosed("}", self._member))
        if self.text.startswith(("true", "false"), self.at):
            return self._take(r"(true|false)\s*") == "true"
        return _plain(self._take(r"([^,{}\[\]]*)").strip())

    def _quoted(self) -> str:
        # The escapes are TOML's; let its reader undo them.
        quoted = self._take(r'("(?:\\.|[^"\\])*")\s*')
        return str(tomllib.loads(f"text = {quoted}")["text"])

    def _member(self) -> tuple[str, Json]:
        key = self._quoted() if self.text[self.at : self.at + 1] == '"' else self._take(r"([A-Za-z0-9_-]*)\s*")
        self._take(r"(=)\s*")
        return key, self.value()

    def _enclosed(self, end: str, item: Callable[[], T]) -> list[T]:
        found: list[T] = []
        self._take(r"([\[{])\s*")
        while self.text[self.at : self.at + 1] not in (end, ""):
            found.append(item())
            if self.text[self.at : self.at + 1] != ",":
                break
            self._take(r"(,)\s*")
        self._take(rf"(\{end})\s*")
        return found

    def _take(self, pattern: str) -> str:
        found = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        if found is None:
            raise ValueError(f"expected {pattern} at {self.at}")
        self.at = found.end()
        return found[1]


def _plain(text: str) -> Json:
    if "." in text:
        return float(text) if re.fullmatch(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", text) else text
    if re.fullmatch(r"\+?[0-9]+|-[0-9]+", text) and -(2**63) <= int(text) < 2**64:
        return int(text)
    return text
