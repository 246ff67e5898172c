"""A server process that a test starts and stops.

It listens on a loopback port of its own, is ready when :meth:`ServerProcess.start` returns, keeps its log for the message
of a failure, and is ended by its own process id. If the test run itself dies, the kernel ends the server with it.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class ServerFailed(RuntimeError):
    """The server did not start, or ended on its own. The message holds the end of its log."""


def free_port() -> int:
    """A port of the loopback interface that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def accepts_connections(port: int) -> bool:
    """Whether somebody answers on this loopback port: the readiness check that fits most servers."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


class ServerProcess:
    """``command`` as a child process: ``start`` waits for ``ready``, ``stop`` asks it to end, ``kill`` does not ask.

    After ``stop`` or ``kill`` it may be started again, with the same command and so the same port and data. ``user`` runs
    it as that system user, for servers that refuse to be root.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        ready: Callable[[], bool],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        self.name = name
        self._command = [str(word) for word in command]
        self._log = log
        self._ready = ready
        self._env = {**os.environ, **(env or {})}
        self._cwd = cwd
        self._user = user
        self._start_timeout = start_timeout
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        assert not self.running, f"{self.name} is running already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        deadline = time.monotonic() + self._start_timeout
        while not self._ready():
            if self._process.poll() is not None:
                raise ServerFailed(f"{self.name} ended with code {self._process.returncode} at start\n{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"{self.name} was not ready after {self._start_timeout:g} s\n{self.tail()}")
            time.sleep(0.02)
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout: float = 20.0) -> None:
        """Ask the server to end, and kill it if it does not. Does nothing if it has ended already."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """End the server and the children it made at once, as a crash would: it writes nothing and says no goodbye."""
        if self._process is None:
            return
        if self._process.poll() is None:
            # The server leads a session of its own, so this group holds nothing but what it started itself.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=20)
        self._process = None

    def tail(self, lines: int = 40) -> str:
        """The command and the end of the log, for the message of a failed test."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return f"$ {shlex.join(self._command)}\n" + "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
