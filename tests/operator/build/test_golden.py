"""What is built, as files that a person can read: a change of one of them is a change of what runs in clusters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.operator.build.samples import FULL, SMALL, database_of, workloads_of

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(("name", "spec"), [("small", SMALL), ("full", FULL)])
def test_objects_are_as_before(name: str, spec: dict[str, Any]) -> None:
    """``SLATE_GOLDEN=write`` writes them anew, to be looked at before they are kept."""
    made = yaml.safe_dump_all(workloads_of(database_of(spec)), sort_keys=True, width=120)
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("SLATE_GOLDEN") == "write":
        file.write_text(made)
    assert file.read_text() == made, f"{file.name} differs from what is built; see this test"
