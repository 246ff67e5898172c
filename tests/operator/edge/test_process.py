"""The operator's process: what it is told, how it says what is wrong, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from slate_operator.logs import scrubbed
from slate_operator.settings import BadSettings, of_environment
from tests.cluster.tool.apiserver import ApiServer
from tests.cluster.tool.kubectl import until
from tests.servers.process import free_port


def test_settings_are_the_environment_and_flags_win() -> None:
    environment = {
        "SLATE_OPERATOR_NAMESPACES": "a, b,a,",
        "SLATE_OPERATOR_WORKERS": "3",
        "SLATE_OPERATOR_RESYNC_SECONDS": "1.5",
        "SLATE_OPERATOR_IMAGE": "one",
    }
    found = of_environment(environment, image="two", log_format=None)
    assert found.namespaces == ("a", "b")
    assert (found.workers, found.resync_seconds, found.image, found.log_format) == (3, 1.5, "two", "json")
    assert of_environment({}).everywhere


@pytest.mark.parametrize(
    ("name", "value"), [("WORKERS", "0"), ("WORKERS", "x"), ("RESYNC_SECONDS", "-1"), ("LOG_FORMAT", "xml")]
)
def test_a_setting_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=f"SLATE_OPERATOR_{name} is '{value}'"):
        of_environment({f"SLATE_OPERATOR_{name}": value})


def test_no_secret_is_logged() -> None:
    assert scrubbed("Authorization: Bearer abc and token=def") == "Authorization: *** and token=***"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("spark.hadoop.fs.s3a.secret.key=abc", "spark.hadoop.fs.s3a.secret.key=***"),
        ("fs.s3a.access.key: AKIA123", "fs.s3a.access.key: ***"),
        ("fs.azure.account.key.shop.dfs.core.windows.net=abc", "fs.azure.account.key.shop.dfs.core.windows.net=***"),
        ("mysql://user:hunter2@db/x", "mysql://***@db/x"),
        ("AccountKey=abc==", "AccountKey=***"),
        ("https://b/x?sv=1&sig=abc&se=2", "https://b/x?sv=1&sig=***&se=2"),
        ("Authorization: Basic Zm9v", "Authorization: ***"),
        ("{'secret_access_key': 'a b'}", "{'secret_access_key': '***'}"),
        ("no such design: x, killed by signal: 9", "no such design: x, killed by signal: 9"),
        ("s3://shop/orders at http://s3:7070 has no bucket", "s3://shop/orders at http://s3:7070 has no bucket"),
    ],
)
def test_secrets_of_every_shape_are_masked(text: str, left: str) -> None:
    assert scrubbed(text) == left


def test_it_ends_in_order_when_it_is_told_to(kinds: ApiServer, place: str, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    environment = {
        **os.environ,
        "SLATE_OPERATOR_NAMESPACE": place,
        "SLATE_OPERATOR_HEALTH_PORT": str(port),
        "SLATE_OPERATOR_IMAGE": "slate:1",
    }
    command = [sys.executable, "-m", "slate_operator", "--kubeconfig", str(kinds.kubeconfig), "--namespace", place]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stderr=output)
    try:
        assert until(lambda: process.poll() is not None or "working in" in log.read_text(), timeout=60), log.read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            assert answer.read() == b"ready\n"
        assert kinds.kubectl.get("lease/slatekeeper", "-n", place)["spec"]["holderIdentity"] == os.uname().nodename
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    said = [json.loads(line)["message"] for line in log.read_text().splitlines()]
    assert said[-1] == "ended as told"
    assert kinds.kubectl.get("lease/slatekeeper", "-n", place)["spec"]["holderIdentity"] == "", "the Lease was kept"
