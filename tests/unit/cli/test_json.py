"""What ``--output json`` promises: the page of examples in the docs, against what the verbs print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Slate, lines

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
PROMISED: dict[str, Any] = {
    verb: json.loads(example)
    for verb, example in re.findall(r"^## `([^`]+)`\n.*?```json\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
}

STORY = """
import|orders.jsonl
put|--takeover order:3 items --ttl 1h
delete|--takeover order:3
get|order:1
scan|--limit 1
export|all.parquet
create-checkpoint|--name nightly --lifetime 7days
refresh-checkpoint|--id nightly --lifetime 14days
list-checkpoints|
create-clone|--from db@nightly
copy|archive
list-databases|
status|
read-manifest|
list-manifests|--limit 1
read-sst|2 --rows 1
explain|compacted/
gc|--dry-run --min-age 0s --only manifests
verify|
compact --dry-run|
compact|
read-compactions|
restore|nightly --yes
destroy|--yes
undelete|
delete-checkpoint|--id nightly
destroy --hard|--yes
"""
"""A life of a database in which every verb has something to print."""

ELSEWHERE = {"create-clone": "clone", "read-manifest": "clone", "destroy --hard": "archive"}


def shape(value: Any) -> Any:
    """The names in it, and nothing of what they name. Of a list, those of its first item."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None


def differences(promised: Any, printed: Any, where: str = "") -> list[str]:
    if isinstance(promised, dict) and isinstance(printed, dict):
        names = [f"{where}.{name}" for name in promised.keys() ^ printed.keys()]
        common = promised.keys() & printed.keys()
        return names + [
            text for name in common for text in differences(promised[name], printed[name], f"{where}.{name}")
        ]
    if isinstance(promised, list) and isinstance(printed, list):
        # An empty list promises, and breaks, nothing.
        return differences(promised[0], printed[0], f"{where}[]") if promised and printed else []
    return [] if promised is printed or None in (promised, printed) else [where]


def test_every_verb_prints_what_the_page_promises(
    slate: Slate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [json.dumps({"key": f"order:{i}", "value": "items"}) for i in range(3)]
    (tmp_path / "orders.jsonl").write_text("\n".join(rows))
    told: set[str] = set()
    for line in STORY.split("\n"):
        verb, _, words = line.partition("|")
        if verb:
            printed = lines(slate("--output", "json", *verb.split(), *words.split(), path=ELSEWHERE.get(verb, "db")))
            assert differences(shape(PROMISED[verb]), shape(printed[0])) == [], verb
            told.add(verb)
    assert told == set(PROMISED)


def test_a_name_that_is_missing_or_new_is_noticed() -> None:
    assert differences({"a": None, "b": [{"c": None}]}, {"a": None, "b": [{"d": None}]}) != []
    assert differences({"a": None}, {}) == [".a"]
    assert differences({"a": None}, {"a": {"b": None}}) == []
