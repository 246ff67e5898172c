"""What of the chart can be checked without a cluster: its CRDs are ours, and its documents speak of every value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from slate_operator.settings import PREFIX, Settings

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "slatekeeper"


def test_its_crds_are_the_ones_of_the_project() -> None:
    ours = {file.name: file.read_text() for file in (ROOT / "crds").glob("*.yaml")}
    its = {file.name: file.read_text() for file in (CHART / "files" / "crds").glob("*.yaml")}
    assert its == ours, "run `make crds`"


def test_every_value_has_a_rule_and_a_word() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    readme = (CHART / "README.md").read_text()
    for path in leaves(values):
        rule = schema
        for part in path:
            assert rule.get("additionalProperties") is False, f"anything goes beside {'.'.join(path)}"
            rule = rule["properties"][part]
        assert f"`{'.'.join(path)}`" in readme, f"the README does not speak of {'.'.join(path)}"


def test_every_variable_that_it_sets_is_one_that_the_operator_reads() -> None:
    template = (CHART / "templates" / "deployment.yaml").read_text()
    named = {word.removeprefix(PREFIX).lower() for word in template.split() if word.startswith(PREFIX)}
    assert named <= set(Settings.__dataclass_fields__)
    assert set(Settings.__dataclass_fields__) - named == {"request_seconds", "admin_seconds", "health_port"}


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, dict) and value and name != "resources":
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name)
