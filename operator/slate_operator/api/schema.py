"""Models become structural schemas: what the API server wants of a CRD, from what pydantic tells about a model.

The differences are few but strict. A schema stands in one piece, without references. What may be left out is left out, so
``null`` needs no type of its own. Defaults are the API server's to fill in, on the way down to the last field, but never in
the items of a list, where the owners of server-side apply would fight over them. And prose is for ``kubectl explain``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from slate_operator.api.rule import RULES

Schema = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
_COPIED = (
    *("type", "enum", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"),
    *("maxProperties", PRESERVE, "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
)
_REST = re.compile(r"[^.]*\.\s*", re.DOTALL)
"""The first sentence of a model says what it is, which a field says better; all others hold wherever it is used."""


def structural(model: type[BaseModel], *, defaults: bool = True) -> Schema:
    """The schema of a model with everything in it, in the order in which its fields are written.

    A status has no defaults: what the operator did not say must not come back to it as something that it said.
    """
    told = model.model_json_schema(by_alias=True)
    return _Writer(told.get("$defs", {})).schema(told, defaults=defaults)


class _Writer:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def schema(self, told: Mapping[str, Any], *, defaults: bool) -> Schema:
        """One schema; what is told of a field comes before what is told of its model, and the rules of both hold."""
        merged = self._resolved(told)
        written: Schema = {}
        if description := _prose(merged, defaults=defaults):
            written["description"] = description
        for name in _COPIED:
            if name in merged:
                written[name] = merged[name]
        if "const" in merged:
            written["enum"] = [merged["const"]]
        if written.get("type") == "integer":
            written["format"] = "int64"
        if merged.get("default") is not None and defaults:
            written["default"] = merged["default"]
        if "properties" in merged:
            required = merged.get("required", [])
            written["properties"] = {
                name: self._property(field, defaults=defaults, optional=name not in required)
                for name, field in merged["properties"].items()
            }
            if required:
                written["required"] = list(required)
        elif isinstance(values := merged.get("additionalProperties"), Mapping):
            written["additionalProperties"] = self.schema(values, defaults=False)
        if "items" in merged:
            written["items"] = self.schema(merged["items"], defaults=False)
        if rules := merged.get(RULES):
            written[RULES] = rules
        return written

    def _property(self, told: Mapping[str, Any], *, defaults: bool, optional: bool) -> Schema:
        """A part that the model makes by itself is made by the API server too, as far as there are defaults in it; they
        would not be looked at in a part that is not there."""
        written = self.schema(told, defaults=defaults)
        if defaults and optional and "$ref" in told and _has_defaults(written):
            written["default"] = {}
        return written

    def _resolved(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """With the reference followed and the possibility of null forgotten."""
        own = dict(told)
        if "anyOf" in own:
            (some,) = (each for each in own.pop("anyOf") if each.get("type") != "null")
            own = {**some, **own}
        if "$ref" not in own:
            return own
        model = self._resolved(self._definitions[own.pop("$ref").rpartition("/")[2]])
        if "description" in own:
            own["description"] += " " + _REST.sub("", model["description"], count=1)
        return {**model, **own, RULES: [*model.get(RULES, ()), *own.get(RULES, ())]}


def _has_defaults(schema: Schema) -> bool:
    return any("default" in each or _has_defaults(each) for each in schema.get("properties", {}).values())


def _prose(told: Mapping[str, Any], *, defaults: bool) -> str:
    """The description as one paragraph, with what ``kubectl explain`` would not show by itself at its end."""
    text = inspect.cleandoc(told.get("description", ""))
    default = told.get("default")
    if defaults and default is not None:
        text += f" Default: {default if isinstance(default, str) else json.dumps(default)}."
    if examples := told.get("examples"):
        text += f" For example: {', '.join(examples)}."
    return " ".join(text.split())
