"""Settings as text: JSON, TOML and YAML, in strings and in files. All give the same thing, a tree of JSON values."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from slate_engine.api.schema import Json
from slate_engine.errors import InvalidError


class Object(dict[str, Json]):
    """A JSON object that remembers which of its keys came more than once; a plain dict would hide the slip."""

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        super().__init__()
        self.repeated: list[str] = []
        for key, value in pairs:
            if key in self:
                self.repeated.append(key)
            self[key] = value


def parse_json(text: str, what: str, *, note_repeated: bool = False) -> Json:
    """JSON as the standard has it: without the ``NaN``, infinite numbers and half characters that Python lets pass."""
    try:
        tree: Json = json.loads(
            text,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=Object if note_repeated else None,
        )
        json.dumps(tree, ensure_ascii=False).encode()
        return tree
    except (ValueError, RecursionError) as reason:
        raise InvalidError(f"{what} is not valid JSON: {reason}") from None


def read_file(path: str) -> dict[str, Json] | None:
    """The settings in a file whose name ends in .json, .toml, .yaml or .yml, or ``None`` if there is no such file.

    A relative path is looked for in the working directory and then in each of its parents, as the original does.
    """
    suffix = Path(path).suffix
    if suffix not in (".json", ".toml", ".yaml", ".yml"):
        raise InvalidError(f"unknown configuration file format: {path!r} must end in .json, .toml, .yaml or .yml")
    found = next((place for place in _places(Path(path)) if place.is_file()), None)
    if found is None:
        return None
    try:
        text = found.read_text(encoding="utf-8")
        tree = _parse_yaml(text) if suffix in (".yaml", ".yml") else _parse(suffix, text)
    except (OSError, ValueError, RecursionError, InvalidError) as reason:
        raise InvalidError(f"cannot read settings from {found}: {reason}") from None
    if not isinstance(tree, dict):
        raise InvalidError(f"cannot read settings from {found}: expected names and values, not {type(tree).__name__}")
    return tree


def overlay(below: dict[str, Json], above: dict[str, Json]) -> dict[str, Json]:
    """Both trees in one; where they differ, the one above counts."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = overlay(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _places(path: Path) -> Iterator[Path]:
    if path.is_absolute():
        yield path
    else:
        here = Path.cwd()
        yield from (place / path for place in (here, *here.parents))


def _parse(suffix: str, text: str) -> Json:
    return parse_json(text, "the file") if suffix == ".json" else cast(Json, tomllib.loads(text))


def _parse_yaml(text: str) -> Json:
    """YAML 1.2's core schema. PyYAML's own is that of 1.1, in which ``off`` is false and ``1:30`` is ninety."""
    import yaml  # not at the top: few need it, and all would wait for it

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - overrides PyYAML's

    for tag, pattern in (
        ("null", r"(?:~|null|Null|NULL|)$"),
        ("bool", r"(?:true|True|TRUE|false|False|FALSE)$"),
        ("int", r"(?:[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)$"),
        ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), None)
    try:
        tree: Json = yaml.load(text, Loader)
    except yaml.YAMLError as reason:
        raise ValueError(str(reason)) from None
    return {} if tree is None else tree


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _integer(text: str) -> int | float:
    # The original reads "-0" as the floating-point number that it is, and a count cannot be one.
    return -0.0 if text == "-0" else int(text)
