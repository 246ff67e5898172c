"""The CRDs are made from the models and nothing else, and have the shape that the API server and its clients want."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import yaml
from pydantic import ConfigDict, Field

from slate_operator.api import crd
from slate_operator.api.model import Free, Model, Reference
from slate_operator.api.resource import Resource
from slate_operator.api.rule import RULES, rule, rules
from slate_operator.api.schema import structural
from tests.operator.conftest import CRDS

KINDS = pytest.mark.parametrize("kind", crd.KINDS, ids=lambda kind: kind.__name__)
LARGEST = 200 * 1024
"""kubectl keeps a copy of an object in an annotation, which may have 256 KiB: a CRD has to fit in there."""


@KINDS
def test_the_files_are_made_from_the_models(kind: type[Resource]) -> None:
    file = CRDS / f"{kind.definition.plural}.yaml"
    assert file.read_text() == crd.text(kind), "crds/ is stale: run `make crds`"
    assert file.stat().st_size < LARGEST


def test_there_is_a_file_for_each_kind_and_no_other() -> None:
    assert {file.stem for file in CRDS.glob("*.yaml")} == {kind.definition.plural for kind in crd.KINDS}


@KINDS
def test_every_field_is_explained(kind: type[Resource]) -> None:
    silent = {
        path
        for path, schema in walk(crd.root(kind))
        if path[-1:] not in {(), ("items",), ("values",)} and not schema.get("description")
    }
    assert silent == {("apiVersion",), ("kind",), ("metadata",)}, "kubectl explain has nothing to say of these"


@KINDS
def test_the_schema_is_structural_and_has_no_defaults_in_lists(kind: type[Resource]) -> None:
    for path, schema in walk(crd.root(kind)):
        assert {"$ref", "anyOf", "title", "const", "examples"}.isdisjoint(schema), path
        assert schema.get("type"), path
        assert not ("default" in schema and {"items", "values"} & set(path)), path
        assert not ("default" in schema and path[:1] == ("status",) and len(path) > 1), path


@KINDS
def test_conditions_are_a_map(kind: type[Resource]) -> None:
    conditions = crd.root(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@KINDS
def test_the_models_are_what_the_controllers_know(kind: type[Resource]) -> None:
    from slate_operator.kube import cluster

    known = {each.kind: each.plural for each in vars(cluster).values() if isinstance(each, cluster.Kind)}
    assert known[kind.definition.kind] == kind.definition.plural


class Part(Model):
    """A part. It has a rule."""

    model_config = ConfigDict(json_schema_extra=rules(rule("self.size > 0", "of the model")))
    size: int = Field(default=3, ge=1)
    colour: Literal["red"] = "red"


class Whole(Model):
    """A whole
    thing."""

    part: Part = Field(default_factory=Part, json_schema_extra=rules(rule("true", "of the field")))
    described: Part = Field(default_factory=Part, description="Another.")
    maybe: Part | None = None
    parts: list[Part] = Field(default_factory=list)
    by_name: dict[str, Part] = Field(default_factory=dict)
    free: Free = Field(default_factory=dict)
    other: Reference


def test_a_schema_of_every_shape() -> None:
    made = structural(Whole)
    assert made["description"] == "A whole thing."
    assert made["required"] == ["other"]
    fields = made["properties"]
    assert fields["part"]["default"] == {}, "so that the defaults in it are filled in"
    assert [each["message"] for each in fields["part"][RULES]] == ["of the model", "of the field"]
    assert fields["described"]["description"] == "Another. It has a rule."
    assert fields["part"]["properties"]["size"] == {
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "default": 3,
        "description": "Default: 3.",
    }
    assert fields["part"]["properties"]["colour"]["enum"] == ["red"]
    assert "default" not in fields["maybe"], "what may be missing is not made"
    assert "default" not in fields["parts"]["items"]["properties"]["size"]
    assert "default" not in fields["byName"]["additionalProperties"]["properties"]["size"]
    assert fields["free"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert "default" not in structural(Whole, defaults=False)["properties"]["part"]["properties"]["size"]


def test_the_files_are_plain_yaml() -> None:
    for kind in crd.KINDS:
        text = crd.text(kind)
        assert yaml.safe_load(text) == crd.crd(kind)
        assert "&id" not in text


def walk(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from walk(field, (*path, name))
    if "items" in schema:
        yield from walk(schema["items"], (*path, "items"))
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], (*path, "values"))
