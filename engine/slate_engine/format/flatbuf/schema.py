"""A reader of FlatBuffers schemas (``.fbs``), as much of the language as our schemas use.

Understood: ``include``, ``namespace``, comments, ``enum``, ``union`` and ``table`` with scalars, enums, strings, tables,
unions and vectors of scalars or tables, the attribute ``(required)``, and defaults including ``null``. Anything else is a
:class:`SchemaError` rather than a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SCALARS: Mapping[str, tuple[int, bool]] = {
    "bool": (1, False),
    "byte": (1, True),
    "ubyte": (1, False),
    "short": (2, True),
    "ushort": (2, False),
    "int": (4, True),
    "uint": (4, False),
    "long": (8, True),
    "ulong": (8, False),
}
"""The width in bytes of each scalar type, and whether it is signed."""

_TOKEN = re.compile(r'\s+|//[^\n]*|(?P<token>[A-Za-z_]\w*|-?\d+|"[^"]*"|[{}()\[\]:;=,])')


class SchemaError(ValueError):
    """The schema says something that this reader does not understand."""


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    base: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Union:
    """A choice of tables. On the wire it takes two slots: a tag (1 is the first member) and the table."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A field as declared. ``default`` is None for ``= null``, that is, for a scalar whose absence means something."""

    name: str
    type: str
    vector: bool
    required: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """Everything that the files of a schema declare, in the order of declaration."""

    enums: dict[str, Enum]
    unions: dict[str, Union]
    tables: dict[str, Table]


def parse(files: Mapping[str, str], roots: tuple[str, ...]) -> Schema:
    """Read the ``roots`` and what they include; ``files`` gives the text of each file by name."""
    schema = Schema({}, {}, {})
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        if name not in files:
            raise SchemaError(f"there is no schema file {name}")
        _Parser(name, files[name]).declarations(schema, visit)

    for root in roots:
        visit(root)
    for table in schema.tables.values():
        for member in table.members:
            if member.type != "string" and not any(
                member.type in known for known in (SCALARS, schema.enums, schema.unions, schema.tables)
            ):
                raise SchemaError(f"{table.name}.{member.name} has the unknown type {member.type}")
    return schema


class _Parser:
    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise SchemaError(f"{name}: cannot read {text[at : at + 20]!r}")
            if match["token"]:
                self._tokens.append(match["token"])
            at = match.end()
        self._tokens.reverse()

    def declarations(self, schema: Schema, include: Callable[[str], None]) -> None:
        while self._tokens:
            match self._next():
                case "include":
                    include(self._next().strip('"'))
                    self._expect(";")
                case "namespace":
                    self._next()
                    self._expect(";")
                case "enum":
                    enum = self._enum()
                    schema.enums[enum.name] = enum
                case "union":
                    union = self._union()
                    schema.unions[union.name] = union
                case "table":
                    table = self._table()
                    schema.tables[table.name] = table
                case other:
                    raise SchemaError(f"{self._name}: {other!r} begins no declaration known here")

    def _next(self) -> str:
        if not self._tokens:
            raise SchemaError(f"{self._name}: ends in the middle of a declaration")
        return self._tokens.pop()

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise SchemaError(f"{self._name}: expected {token!r}, found {found!r}")

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def _enum(self) -> Enum:
        name = self._next()
        self._expect(":")
        base = self._next()
        self._expect("{")
        values: list[tuple[str, int]] = []
        while not self._accept("}"):
            label = self._next()
            value = int(self._next()) if self._accept("=") else (values[-1][1] + 1 if values else 0)
            values.append((label, value))
            self._accept(",")
        return Enum(name, base, tuple(values))

    def _union(self) -> Union:
        name = self._next()
        self._expect("{")
        members: list[str] = []
        while not self._accept("}"):
            members.append(self._next())
            self._accept(",")
        return Union(name, tuple(members))

    def _table(self) -> Table:
        name = self._next()
        self._expect("{")
        members: list[Member] = []
        while not self._accept("}"):
            members.append(self._member())
        return Table(name, tuple(members))

    def _member(self) -> Member:
        name = self._next()
        self._expect(":")
        vector = self._accept("[")
        kind = self._next()
        if vector:
            self._expect("]")
        default: str | None = "0"
        if self._accept("="):
            word = self._next()
            default = None if word == "null" else word
        required = False
        if self._accept("("):
            self._expect("required")
            self._expect(")")
            required = True
        self._expect(";")
        return Member(name, kind, vector, required, default)
