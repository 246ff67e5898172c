"""Rules that the API server checks by itself, in CEL. Each is declared beside the model that it is about.

A rule is the cheapest place for a mistake to be found: before anything happened, in the terminal of who made it. So its
message does not name the mistake alone but says what to do instead.
"""

from __future__ import annotations

from typing import Any

RULES = "x-kubernetes-validations"


def rule(expression: str, message: str) -> dict[str, str]:
    """One rule. An expression with ``oldSelf`` is about changes only, and is not asked when the object is made."""
    return {"rule": expression, "message": message}


def rules(*each: dict[str, str]) -> dict[str, Any]:
    """The rules of a model or a field, for its ``json_schema_extra``."""
    return {RULES: list(each)}


def one_of(*fields: str) -> str:
    """Exactly one of the fields is given."""
    return f"{_given(fields)} == 1"


def at_most_one_of(*fields: str) -> str:
    return f"{_given(fields)} <= 1"


def fixed(*path: str) -> str:
    """An optional field of an object cannot be given later, taken away or changed."""
    field = ".".join(path)
    return f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"


def _given(fields: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"has(self.{field})" for field in fields) + "].filter(given, given).size()"
