"""A real shell in which ``slate`` is this very process.

Starting the command anew takes a second, most of it imports, and the docs have a hundred of them. So the ``slate`` that the
shell finds is a stub: it sends its words, its input and its folder through a socket to a thread of the test, which runs the
command and sends back what it printed.
"""

from __future__ import annotations

import base64
import json
import os
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from typer.testing import CliRunner

from slate_engine.cli.main import app

STUB = """\
#!{python} -SE
import base64, json, os, socket, sys
given = {{name: value for name, value in os.environ.items() if name.startswith("SLATE_")}}
asked = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": given}}
asked["input"] = base64.b64encode(sys.stdin.buffer.read()).decode()
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    with connection.makefile("rwb") as stream:
        stream.write(json.dumps(asked).encode() + b"\\n")
        stream.flush()
        told = json.loads(stream.readline())
sys.stdout.buffer.write(base64.b64decode(told["output"]))
sys.stderr.write(told["errors"])
sys.exit(told["code"])
"""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        os.chdir(asked["folder"])
        # What an --env-file sets stays in the environment of a process; this one goes on.
        before = dict(os.environ)
        result = CliRunner().invoke(
            app, asked["words"], input=base64.b64decode(asked["input"]), env=asked["environment"]
        )
        os.environ.clear()
        os.environ.update(before)
        output = base64.b64encode(result.stdout_bytes).decode()
        told = {"code": result.exit_code, "output": output, "errors": result.stderr}
        self.wfile.write(json.dumps(told).encode() + b"\n")


@contextmanager
def shell(folder: Path) -> Iterator[Shell]:
    """A shell that works in ``folder``."""
    address = str(folder / "slate.socket")
    programs = folder / "bin"
    programs.mkdir()
    stub = programs / "slate"
    stub.write_text(STUB.format(python=sys.executable, address=address))
    stub.chmod(0o755)
    home = Path.cwd()
    with socketserver.UnixStreamServer(address, _Handler) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield Shell(folder, programs)
        finally:
            server.shutdown()
            serving.join()
            os.chdir(home)


class Shell:
    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder = folder
        self._programs = programs

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script to its end, or to its first command that fails."""
        environment = {
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
        }
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
