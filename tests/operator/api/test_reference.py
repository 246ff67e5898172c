"""The reference of the kinds is current and true: its fields are the models', its reasons those that the operator gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slate_operator import names
from slate_operator.api import crd
from slate_operator.api.reference import EXAMPLES, LABELS, reference
from slate_operator.api.resource import Resource
from slate_operator.api.vocabulary import CONDITIONS
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.api.objects import Objects

PROJECT = Path(__file__).parents[3]
RECONCILE = PROJECT / "operator" / "slate_operator" / "reconcile"
FILES = {
    "Checkpoint": ("checkpoint",),
    "Clone": ("clone",),
    "CheckpointSchedule": ("schedule",),
    "SlateDatabase": ("bootstrap", "steps", "rollout", "report", "spark_compaction"),
    "BulkRead": ("bulk_read",),
}
PLACES = {"said": 2, "say": 2, "hold": 0, "Unfit": 0}
"""The calls that give a condition its reason, and which of their arguments it is."""


def test_the_page_is_made_from_the_code() -> None:
    assert (PROJECT / "docs/reference/kinds.md").read_text() == reference(), "docs are stale: run `make docs`"


@pytest.mark.parametrize("kind", crd.KINDS, ids=lambda kind: kind.__name__)
def test_the_examples_are_taken(kinds: ApiServer, kind: type[Resource]) -> None:
    Objects(kinds).create(kind, yaml.safe_load(EXAMPLES[kind.definition.kind]), dry=True)


def test_what_the_pages_and_examples_show_is_taken(kinds: ApiServer) -> None:
    """Every object of ours in a how-to page or under examples/, strictly: a field of another version would be refused."""
    texts = [
        block
        for page in (PROJECT / "docs" / "how-to").glob("*.md")
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    ]
    texts += [file.read_text() for file in (PROJECT / "examples").rglob("*.yaml")]
    known = {kind.definition.kind: kind for kind in crd.KINDS}
    shown = [body for text in texts for body in yaml.safe_load_all(text) if _is_ours(body)]
    assert len(shown) >= 4
    for body in shown:
        Objects(kinds).create(known[body["kind"]], body, dry=True)


@pytest.mark.parametrize("kind", CONDITIONS)
def test_every_reason_that_is_given_is_explained(kind: str) -> None:
    given = {reason for file in FILES[kind] for reason in reasons(RECONCILE / f"{file}.py")}
    explained = {reason for meaning in CONDITIONS[kind] for reason in meaning.reasons}
    assert given <= explained, "explain these in slate_operator/api/vocabulary.py"


@pytest.mark.parametrize("kind", CONDITIONS)
def test_every_reason_that_is_explained_is_in_the_code(kind: str) -> None:
    words = {
        node.value
        for file in (*RECONCILE.glob("*.py"), RECONCILE.parent / "controller.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    explained = {reason for meaning in CONDITIONS[kind] for reason in meaning.reasons}
    assert explained <= words, "nobody gives these any more"


def test_every_name_that_others_can_see_is_explained() -> None:
    visible = {
        value
        for name, value in vars(names).items()
        if isinstance(value, str) and name.startswith(("LABEL_", "ANNOTATION_", "FINALIZER_")) and names.GROUP in value
    }
    explained = {name for name, _ in LABELS}
    assert explained <= visible
    unused = visible - explained
    assert not any(_is_used(value) for value in unused), f"explain {unused} in slate_operator/api/reference.py"


def reasons(file: Path) -> Iterator[str]:
    """The texts that stand where a reason stands, also in a choice between two."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = PLACES.get(called)
            if place is not None and len(node.args) > place:
                for part in ast.walk(node.args[place]):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value


def _is_used(value: str) -> bool:
    (constant,) = (name for name, known in vars(names).items() if known == value)
    others = (file for file in RECONCILE.parent.rglob("*.py") if file.name != "names.py" and "api" not in file.parts)
    return any(constant in file.read_text() for file in others)


def _is_ours(body: object) -> bool:
    return isinstance(body, dict) and body.get("apiVersion") == names.API_VERSION
