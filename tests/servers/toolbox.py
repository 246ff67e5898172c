"""Server programs that the tests build or install themselves, once per machine.

Each stands in its own folder ``<tool>-<version>`` under ``~/.cache/slatekeeper`` (``SLATEKEEPER_CACHE`` names another
place). It is built in a temporary folder and renamed when it is whole, under a lock, so that an interrupted build leaves
nothing that looks finished, and two test runs at once build it once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class ToolMissing(RuntimeError):
    """A program that a build needs is not installed; the message names the Debian package that has it."""


def cache_dir() -> Path:
    return Path(os.environ.get("SLATEKEEPER_CACHE") or Path.home() / ".cache" / "slatekeeper")


def tool(name: str, version: str, build: Callable[[Path], None], *, expect: str) -> Path:
    """The folder of ``name`` at ``version``. If it is not there yet, ``build`` fills it; ``expect`` says how long that
    takes, for whoever watches."""
    home = cache_dir() / f"{name}-{version}"
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f".{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if home.is_dir():
            return home
        _say(f"building {name} {version} into {home} (once; {expect})")
        scratch = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
        try:
            build(scratch)
            scratch.chmod(0o755)
            scratch.rename(home)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        _say(f"{name} {version} is ready")
    return home


def run(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None, package: str) -> None:
    """Run one command of a build. ``package`` is the Debian package that has its program."""
    program = str(command[0])
    if shutil.which(program) is None:
        raise ToolMissing(f"{program} is needed to build a test server: install it with `apt-get install {package}`")
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        end = "\n".join(done.stdout.decode(errors="replace").splitlines()[-30:])
        raise RuntimeError(f"{' '.join(map(str, command))} failed with code {done.returncode}\n{end}")


def _say(text: str) -> None:
    # For whoever waits; a fixture that may build calls this with pytest's capture off.
    print(f"[slatekeeper tests] {text}", file=sys.stderr, flush=True)
