"""The settings of a job: each a flag, or a key of a YAML file, or both; a flag counts more.

``--key-column id`` is ``key-column: id`` in the file; ``--option region=eu --option endpoint=…`` is a mapping there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from slate_engine.errors import InvalidError
from slate_engine.spark.environment import PATH, STORE
from slate_engine.spark.options import STORE_PREFIX, Given, Location
from slate_engine.store.cost import R2, S3_EXPRESS, S3_STANDARD

PRICES = {"s3": S3_STANDARD, "s3-express": S3_EXPRESS, "r2": R2}


@dataclass(frozen=True)
class Setting:
    """One thing that a job can be told."""

    name: str
    help: str
    default: str = ""
    required: bool = False
    many: bool = False
    """NAME=VALUE, any number of times."""
    flag: bool = False
    choices: tuple[str, ...] = ()
    variable: str = ""
    """What names it in the environment, where no --url is given."""


DATABASE = (
    Setting(
        "url", f"the store of the database, such as s3://bucket; or {STORE} says it", required=True, variable=STORE
    ),
    Setting("path", f"the database in that store; or {PATH} says it", required=True, variable=PATH),
    Setting("wal-url", "the store of its log, where that is another one"),
    Setting("option", "an option of the store, such as endpoint=http://…", many=True),
)
COMMON = (
    Setting("master", "where Spark runs; what spark-submit says counts more", default="local[*]"),
    Setting("conf", "a setting of Spark", many=True),
    Setting("prices", "whose prices the requests are reckoned with", default="s3", choices=tuple(PRICES)),
    Setting("json", "print the summary as one line of JSON", flag=True),
)


class Settings:
    """What a job was told."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        return str(self._values[name])

    def flag(self, name: str) -> bool:
        return bool(self._values[name])

    def pairs(self, name: str) -> dict[str, str]:
        return dict(self._values[name])

    def number(self, name: str) -> int | None:
        given = self.text(name)
        if given and not given.isdecimal():
            raise InvalidError(f"--{name} must be a whole number, and is {given!r}")
        return int(given) if given else None

    @property
    def location(self) -> Location:
        return Location.of(Given(self.source_options))

    @property
    def source_options(self) -> dict[str, str]:
        """Where the database lies, as the options of ``spark.read.format("slatedb")``."""
        named = {"url": self.text("url"), "path": self.text("path"), "walUrl": self.text("wal-url")}
        place = {name: value for name, value in named.items() if value}
        return place | {STORE_PREFIX + name: value for name, value in self.pairs("option").items()}


class _Parser(argparse.ArgumentParser):
    """Tells mistakes like any other: a job that runs in a pod has to report them."""

    def error(self, message: str) -> NoReturn:
        raise InvalidError(f"{message}; `{self.prog} --help` lists what there is")


def parse(program: str, about: str, known: Sequence[Setting], arguments: Sequence[str]) -> Settings:
    """Raises :class:`InvalidError` for wrong flags, and for what the file should not hold."""
    parser = _Parser(prog=f"python -m {program}", description=about, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="a YAML file with settings of the same names")
    for each in known:
        _add(parser, each)
    given = vars(parser.parse_args(arguments))
    values = _of_file(given.pop("config"), known)
    for each in known:
        flag = given[each.name]
        if each.many:
            values[each.name] = {**values.get(each.name, {}), **dict(map(_pair, flag or []))}
        elif flag is not None:
            values[each.name] = flag
        values.setdefault(each.name, False if each.flag else each.default)
        if each.required and not values[each.name] and not _in_environment(each, values):
            raise InvalidError(f"--{each.name} is missing: {each.help}")
        if each.choices and values[each.name] not in each.choices:
            raise InvalidError(f"--{each.name} must be one of {', '.join(each.choices)}, and is {values[each.name]!r}")
    return Settings(values)


def _in_environment(setting: Setting, values: Mapping[str, Any]) -> bool:
    return bool(setting.variable and not values.get("url") and os.environ.get(setting.variable))


def _add(parser: argparse.ArgumentParser, setting: Setting) -> None:
    name, default = f"--{setting.name}", f" (default: {setting.default})" if setting.default else ""
    if setting.flag:
        parser.add_argument(name, dest=setting.name, action="store_true", default=None, help=setting.help)
    elif setting.many:
        parser.add_argument(name, dest=setting.name, action="append", metavar="NAME=VALUE", help=setting.help)
    else:
        parser.add_argument(name, dest=setting.name, metavar="TEXT", help=setting.help + default)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise InvalidError(f"{text!r} must be NAME=VALUE")
    return name, value


class _Texts(yaml.BaseLoader):  # type: ignore[misc]
    """Values as they are written: ``0042`` and ``1e3`` are keys of somebody, and no numbers. What is empty, or null, is not
    there."""

    def construct_scalar(self, node: yaml.ScalarNode) -> str | None:
        return None if node.style is None and node.value in _NULLS else str(node.value)


_NULLS = ("", "~", "null", "Null", "NULL")
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _of_file(path: str | None, known: Sequence[Setting]) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = yaml.load(Path(path).read_text(), _Texts)
    except (OSError, yaml.YAMLError) as error:
        raise InvalidError(f"the settings in {path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidError(f"{path} must hold a mapping of settings")
    settings = {each.name: each for each in known}
    values: dict[str, Any] = {}
    for name, value in found.items():
        if name not in settings:
            raise InvalidError(f"{path} has a setting {name!r}, which this job has not; it has {', '.join(settings)}")
        if value is not None:
            values[name] = _value(settings[name], value, path)
    return values


def _value(setting: Setting, value: Any, path: str) -> Any:
    if setting.many != isinstance(value, dict) or isinstance(value, list):
        raise InvalidError(f"{setting.name} in {path} must be {'a mapping' if setting.many else 'one value'}")
    if setting.many:
        pairs = {name: each for name, each in value.items() if each is not None}
        if not all(isinstance(text, str) for pair in pairs.items() for text in pair):
            raise InvalidError(f"each entry of {setting.name} in {path} must be one value")
        return pairs
    if setting.flag and value.lower() not in _FLAGS:
        raise InvalidError(f"{setting.name} in {path} must be true or false, and is {value!r}")
    return _FLAGS[value.lower()] if setting.flag else value
