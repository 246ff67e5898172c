"""Services as processes of their own, on loopback, ended by the test that started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.servers.process import free_port

SLATE = str(Path(sys.executable).parent / "slate")


@dataclass
class Answer:
    status: int
    body: Any
    headers: dict[str, str]


@dataclass
class Service:
    """One ``slate serve`` process."""

    role: str
    store: str
    path: str
    log: Path
    settings: dict[str, str] = field(default_factory=dict)
    token: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    open_files: int = 0
    """The limit that the process finds, if it is to find another one than ours."""
    resp_port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> Service:
        assigned = {"resp.port": str(self.resp_port), "http.port": str(self.http_port), **self.settings}
        flags = [word for name, value in assigned.items() for word in ("--set", f"{name}={value}")]
        command = [SLATE, "--store", self.store, "--path", self.path, "serve", self.role]
        if self.open_files:
            command = ["sh", "-c", f'ulimit -Sn {self.open_files}; exec "$@"', "sh", *command]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, *flags], stdout=output, stderr=output, env={**os.environ, **self.environment}
            )
        return self

    def ask(self, method: str, path: str, document: Any = None, *, token: str | None = None) -> Answer:
        data = None if document is None else json.dumps(document).encode()
        request = Request(f"http://127.0.0.1:{self.http_port}{path}", data=data, method=method)
        if shown := self.token if token is None else token:
            request.add_header("Authorization", f"Bearer {shown}")
        try:
            with urlopen(request, timeout=20) as response:
                return _answer(response)
        except HTTPError as error:
            return _answer(error)

    def wait_ready(self, seconds: float = 60) -> Service:
        deadline = time.monotonic() + seconds
        last: object = "no answer"
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, f"{self.role} ended: {self.log.read_text()}"
            try:
                last = self.ask("GET", "/readyz")
                if last.status == 200:
                    return self
            except (URLError, OSError):
                pass
            time.sleep(0.05)
        raise AssertionError(f"{self.role} did not become ready ({last}): {self.log.read_text()}")

    def stop(self, number: int = signal.SIGTERM, seconds: float = 30) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    async def ready(self) -> Service:
        return await asyncio.to_thread(self.wait_ready)


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def _answer(response: Any) -> Answer:
    body = response.read()
    headers = {name.lower(): value for name, value in response.headers.items()}
    parsed = json.loads(body) if "json" in headers.get("content-type", "") else body.decode()
    return Answer(response.status, parsed, headers)
