"""What is so already is not sent again; what was changed or is no longer wanted is."""

from __future__ import annotations

from typing import Any

import pytest

from slate_operator.kube.sameness import appearance, has_all, mark_of, marked


@pytest.mark.parametrize(
    ("found", "wanted", "so"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": {}}, True),
        ({}, {"a": []}, True),
        ({}, {"a": 0}, False),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [2, 1]}, {"a": [1, 2]}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        # The server fills in defaults, and somebody may add a container of his own.
        ({"c": [{"name": "x", "image": "i", "d": 1}, {"name": "y"}]}, {"c": [{"name": "x", "image": "i"}]}, True),
        ({"c": [{"name": "y"}, {"name": "x", "image": "i"}]}, {"c": [{"name": "x", "image": "i"}]}, True),
        ({"c": [{"name": "x", "image": "other"}, {"name": "y"}]}, {"c": [{"name": "x", "image": "i"}]}, False),
        ({"c": [{"name": "y"}]}, {"c": [{"name": "x"}]}, False),
    ],
)
def test_everything_wanted_is_there(found: Any, wanted: Any, so: bool) -> None:
    assert has_all(found, wanted) is so


def test_a_mark_tells_what_was_wanted_including_what_no_longer_is() -> None:
    full = marked({"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {"a": 1, "b": 2}})
    less = marked({"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {"a": 1}})
    assert full["metadata"]["annotations"]["x"] == "y"
    assert mark_of(full) != mark_of(less)
    assert has_all(full["spec"], less["spec"]), "which is why the mark is needed"
    assert mark_of({"metadata": {}}) is None


def test_the_status_and_the_servers_bookkeeping_are_no_part_of_how_an_object_looks() -> None:
    one = {"metadata": {"uid": "u", "resourceVersion": "1", "generation": 1}, "spec": {"a": 1}, "status": {"x": 1}}
    two = {"metadata": {"uid": "u", "resourceVersion": "2", "generation": 1}, "spec": {"a": 1}, "status": {"x": 2}}
    assert appearance(one) == appearance(two)
    assert appearance(one) != appearance({**one, "spec": {"a": 2}})
    assert appearance(one) != appearance({**one, "metadata": {"uid": "u", "labels": {"a": "b"}}})
