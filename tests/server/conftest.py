"""Processes that a test may start; what it leaves running is ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.processes import Service
from tests.servers.versitygw import ACCESS_KEY, REGION, SECRET_KEY, VersityGW

Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Service] = []
    (tmp_path / "store").mkdir()

    def begin(role: str, **settings: Any) -> Service:
        options = {
            name: settings.pop(name)
            for name in ("token", "environment", "store", "path", "open_files")
            if name in settings
        }
        service = Service(
            role,
            options.pop("store", f"file://{tmp_path / 'store'}"),
            options.pop("path", "db"),
            tmp_path / f"{role}-{len(started)}.log",
            {name.replace("__", "."): str(value) for name, value in settings.items()},
            **options,
        )
        started.append(service.start())
        return service

    yield begin
    for service in started:
        service.end()


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A real S3 server with a bucket of this name; what a process must find in its environment to use it."""
    with VersityGW(tmp_path / "s3") as server:
        server.make_bucket("bucket")
        yield {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }
