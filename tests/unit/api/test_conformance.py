"""The vocabulary against the wheel's, name by name: what a program written for the one finds in the other."""

from __future__ import annotations

import enum
import importlib
import inspect
import subprocess
import sys
import types
import typing
from typing import Any

import pytest
import slatedb.uniffi as wheel
from slatedb.uniffi._slatedb_uniffi.slatedb import _DEFAULT

import slate_engine
from slate_engine.api import HOME

NAMES = {name for name in wheel.__all__ if not name.endswith(("Protocol", "Impl"))}
"""The wheel's names without what its generator adds for itself: protocols of its own classes, and handles into Rust."""

OWED: set[str] = set()
"""Names that we do not have yet. This list only shrinks: a name that has come must be struck off."""

OURS_ALONE = {"PrometheusMetricsRecorder"}

ERRORS = {"Error", "InternalError", "MergeOperatorCallbackError"}
"""Compared by hand in test_error_tree.py: ours are a tree with more precise classes below the wheel's."""


def ours(name: str) -> Any:
    if name in HOME:
        return getattr(importlib.import_module(HOME[name]), name)
    return getattr(slate_engine, name, None)


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    """The parameters of a function: names, kinds, defaults."""
    return [
        (parameter.name, parameter.kind, None if parameter.default is _DEFAULT else parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


def spelt(kind: Any) -> str:
    """A type by its names alone, so that the wheel's ``Optional[Ttl]`` equals our ``Ttl | None``."""
    arguments = [spelt(argument) for argument in typing.get_args(kind)]
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(sorted(arguments))
    return f"{origin.__name__}[{', '.join(arguments)}]" if origin else getattr(kind, "__name__", str(kind))


def types_of(function: Any) -> dict[str, str]:
    hints = typing.get_type_hints(function)
    return {name: spelt(hint) for name, hint in hints.items() if name not in ("args", "kwargs", "values")}


def methods(cls: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(cls, callable) if not name.startswith("_")}


def variants(cls: type) -> dict[str, type]:
    return {name: value for name, value in methods(cls).items() if isinstance(value, type)}


def families() -> list[str]:
    return sorted(
        name
        for name in NAMES - OWED - ERRORS
        if isinstance(getattr(wheel, name), type) and variants(getattr(wheel, name))
    )


def of_kind(test: Any) -> list[str]:
    return sorted(name for name in NAMES - OWED - ERRORS if test(getattr(wheel, name)))


ENUMS = of_kind(lambda found: isinstance(found, type) and issubclass(found, enum.Enum))
CLASSES = sorted(set(of_kind(lambda found: isinstance(found, type))) - set(ENUMS))
RECORDS = sorted(
    name for name in CLASSES if hasattr(getattr(wheel, name), "__dataclass_fields__") and name not in families()
)


def test_every_name_of_the_wheel_is_here_or_owed() -> None:
    assert {name for name in NAMES if ours(name) is None} == OWED
    assert set(HOME) - NAMES == OURS_ALONE


def test_all_the_kinds_of_names_are_compared() -> None:
    """Guards the tests below against comparing nothing."""
    assert len(ENUMS) == 13
    assert len(RECORDS) == 43
    assert families() == [
        "CacheTarget",
        "CompactionSpec",
        "FilterContext",
        "MetricValue",
        "PrefixTarget",
        "ReaderMode",
        "SourceId",
        "Ttl",
    ]


@pytest.mark.parametrize("name", ENUMS)
def test_enums_have_the_same_members(name: str) -> None:
    assert [(one.name, one.value) for one in ours(name)] == [(one.name, one.value) for one in getattr(wheel, name)]


@pytest.mark.parametrize("name", CLASSES)
def test_constructors_take_the_same_arguments(name: str) -> None:
    assert shape(ours(name)) == shape(getattr(wheel, name))


@pytest.mark.parametrize("name", CLASSES)
def test_methods_take_the_same_arguments_and_give_the_same_types(name: str) -> None:
    theirs, mine = methods(getattr(wheel, name)), methods(ours(name))
    assert not theirs.keys() - mine.keys()
    for method, function in theirs.items():
        if isinstance(function, type):
            continue
        assert shape(mine[method]) == shape(function), method
        assert inspect.iscoroutinefunction(mine[method]) == inspect.iscoroutinefunction(function), method
        assert types_of(mine[method]) == types_of(function), method


@pytest.mark.parametrize("name", RECORDS)
def test_records_have_fields_of_the_same_types(name: str) -> None:
    theirs = types_of(getattr(wheel, name).__init__)
    assert {field: spelt(kind) for field, kind in typing.get_type_hints(ours(name)).items()} == theirs


@pytest.mark.parametrize("name", RECORDS)
def test_records_look_and_compare_alike(name: str) -> None:
    arguments = {parameter: f"<{parameter}>" for parameter, *_ in shape(ours(name))}
    theirs, mine = getattr(wheel, name)(**arguments), ours(name)(**arguments)
    assert str(mine) == str(theirs)
    assert vars(mine) == vars(theirs)
    assert mine == ours(name)(**arguments)
    for field in arguments:
        other = ours(name)(**{**arguments, field: "another"})
        assert mine != other
        setattr(other, field, arguments[field])
        assert mine == other
    with pytest.raises(TypeError):
        hash(mine)
    if arguments:
        with pytest.raises(TypeError):
            ours(name)(*arguments.values())


@pytest.mark.parametrize("name", families())
def test_variants_are_the_same(name: str) -> None:
    theirs, mine = variants(getattr(wheel, name)), variants(ours(name))
    assert list(mine) == list(theirs)
    for variant, cls in theirs.items():
        assert issubclass(mine[variant], ours(name))
        assert mine[variant].__qualname__ == cls.__qualname__
        assert shape(mine[variant]) == shape(cls)
        arguments = [7 for parameter, *_ in shape(cls)]
        one, other = mine[variant](*arguments), cls(*arguments)
        assert str(one) == str(other)
        asked = {method for method in methods(ours(name)) if method.startswith("is_")}
        assert {method: getattr(one, method)() for method in asked} == {
            method: getattr(other, method)() for method in methods(getattr(wheel, name)) if method.startswith("is_")
        }


def test_init_logging_takes_the_same_arguments() -> None:
    assert shape(ours("init_logging")) == shape(wheel.init_logging)


def test_the_vocabulary_is_quick_to_import() -> None:
    modules = sorted({module for module in HOME.values() if not module.endswith(".prometheus")})
    heavy = ["numpy", "numba", "pyarrow", "yaml", "prometheus_client", "slatedb"]
    code = f"import sys, {', '.join(modules)}; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
