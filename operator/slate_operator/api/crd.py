"""The CRDs, made from the models: ``python -m slate_operator.api.crd crds`` writes one file a kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from pydantic import BaseModel

from slate_operator.api.bulk_read import BulkRead
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.database import SlateDatabase
from slate_operator.api.definition import AGE, Column, Definition
from slate_operator.api.resource import Resource
from slate_operator.api.rule import RULES
from slate_operator.api.schedule import CheckpointSchedule
from slate_operator.api.schema import Schema, structural
from slate_operator.names import CATEGORY, GROUP, VERSION

KINDS: tuple[type[Resource], ...] = (SlateDatabase, Checkpoint, Clone, CheckpointSchedule, BulkRead)

HEAD = "# Made from the models of operator/slate_operator/api by `make crds`; a test fails when it is stale.\n"


def crd(kind: type[Resource]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    about = kind.definition
    subresources: dict[str, Any] = {"status": {}}
    if about.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": about.scale.wanted,
            "statusReplicasPath": about.scale.present,
            "labelSelectorPath": about.scale.selector,
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{about.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": about.kind,
                "listKind": f"{about.kind}List",
                "plural": about.plural,
                "singular": about.singular,
                "shortNames": [about.short],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": root(kind)},
                    "subresources": subresources,
                    **(
                        {"selectableFields": [{"jsonPath": each} for each in about.selectable]}
                        if about.selectable
                        else {}
                    ),
                    "additionalPrinterColumns": [_column(each) for each in _columns(about)],
                }
            ],
        },
    }


def root(kind: type[Resource]) -> Schema:
    """The schema of the whole object. Its metadata belong to the API server, and a status that nobody has written yet says
    that no generation was looked at: who waits for one must not take an object without a word for a finished one."""
    made = structural(kind)
    status = structural(_status(kind), defaults=False)
    schema: Schema = {
        "type": "object",
        "description": made["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": made["properties"]["spec"],
            "status": {**status, "default": {"observedGeneration": -1}},
        },
    }
    return {**schema, RULES: made[RULES]} if RULES in made else schema


def text(kind: type[Resource]) -> str:
    """The file of a kind, byte for byte."""
    dumped = yaml.dump(crd(kind), Dumper=_Plain, sort_keys=False, width=118, allow_unicode=True)
    return HEAD + str(dumped)


def main(folder: Path) -> None:
    for kind in KINDS:
        (folder / f"{kind.definition.plural}.yaml").write_text(text(kind))


def _status(kind: type[Resource]) -> type[BaseModel]:
    model: type[BaseModel] = get_type_hints(kind)["status"]
    return model


class _Plain(yaml.SafeDumper):  # type: ignore[misc]  # the package has no types
    """Without anchors: what is said twice is written twice, as a reader of a CRD expects."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _columns(about: Definition) -> list[Column]:
    return [*(each for each in about.columns if not each.wide), AGE, *(each for each in about.columns if each.wide)]


def _column(column: Column) -> dict[str, Any]:
    written = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        written["description"] = column.description
    return {**written, "priority": 1} if column.wide else written


if __name__ == "__main__":
    main(Path(sys.argv[1]))
