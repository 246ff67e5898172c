"""The configuration files are those that the engine reads: its own reader is asked, and its command once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from slate_engine.server.config import load
from slate_operator.build.config import as_file, config_of
from slate_operator.names import Role
from tests.operator.build.samples import FULL, UID, database_of
from tests.server.processes import SLATE


def written(role: str, spec: dict[str, Any], folder: Path) -> Path:
    file = folder / f"{role}.yaml"
    file.write_text(as_file(config_of(database_of(spec), role)))
    return file


def test_the_command_takes_the_file(tmp_path: Path) -> None:
    file = written(Role.WRITER, FULL, tmp_path)
    shown = subprocess.run(
        [SLATE, "serve", "writer", "--config", str(file), "--show-config"], capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0, shown.stderr
    assert yaml.safe_load(shown.stdout)["settings"]["flush_interval"] == "50ms"


@pytest.mark.parametrize("role", Role.ALL)
def test_the_engine_understands_what_it_is_told(role: str, tmp_path: Path) -> None:
    found = load(written(role, FULL, tmp_path), {}, {}).model_dump(mode="json")
    assert found["store"]["url"] == "s3://shop"
    assert found["path"] == "team/orders"
    assert found["http"]["tls"]["certificate"] == "/etc/slate-tls/tls.crt"
    if role == Role.GC:
        assert found["gc"] == {
            "interval": 60.0,
            "min_age": 600.0,
            "delete_grace": None,
            "prefix": "",
            "owner": UID,
        }
    if role == Role.WRITER:
        assert found["settings"]["compactor_options"] is None
        assert found["fenced_hold_seconds"] > 60
        assert found["resp"]["password_file"] == "/etc/slate-auth/passwords"
    if role == Role.READER:
        assert found["reader"]["poll_seconds"] == 0.5
    if role == Role.COMPACTOR:
        assert found["settings"]["compactor_options"] == {"max_concurrent_compactions": 2}
