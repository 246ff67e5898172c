"""A long Go build with its progress, so that whoever waits sees that it moves and how far it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.tool.report import ClusterError, say
from tests.servers.toolbox import ToolMissing

_EVERY = 30.0  # seconds between two reports


def go_build(out: Path, package: str, *, flags: str, cwd: Path, env: Mapping[str, str]) -> None:
    """``go build``, reporting how many of the packages are compiled. Those that Go has in its own cache are not counted
    again, so a second build may be over long before the count is."""
    if shutil.which("go") is None:
        raise ToolMissing(
            f"Go 1.24 or newer is needed to build {out.name}: install golang-go (Debian 12: from backports)"
        )
    environment = {**os.environ, **env}
    listed = subprocess.run(
        ["go", "list", "-deps", package], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    total = len(listed.stdout.splitlines())
    command = ["go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(out), package]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    last, begun = deque[str](maxlen=30), time.monotonic()
    reported = begun
    for compiled, line in enumerate(process.stdout, start=1):
        last.append(line.rstrip())
        if (now := time.monotonic()) - reported >= _EVERY:
            reported = now
            say(f"  {out.name}: {compiled} of about {total} packages after {now - begun:.0f} s")
    if process.wait() != 0:
        raise ClusterError(f"could not build {out.name} with `{' '.join(command[:3])} …`:\n" + "\n".join(last))
