"""Database servers from Debian's packages, and the system user they run as: they refuse to be root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.servers.toolbox import ToolMissing

USER = "slatekeeper-tests"
_USER_EXISTS = 9
_APT = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "--yes", "--no-install-recommends"]


def program(find: Callable[[], Path | None], *packages: str) -> Path:
    """What ``find`` finds, after installing ``packages`` if it finds nothing and we may install."""
    if (found := find()) is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ToolMissing(f"this test needs a server: install it with `apt-get install {' '.join(packages)}`")
    print(
        f"[slatekeeper tests] installing {', '.join(packages)} (once; about a minute)", file=sys.__stderr__, flush=True
    )
    if not _apt("install", *packages):
        _apt("update")
        _apt("install", *packages)
    if (found := find()) is None:
        raise ToolMissing(f"`apt-get install {' '.join(packages)}` did not bring the server; install it by hand")
    return found


def server_user() -> str | None:
    """The user to run a database server as: a system user of our own, or None when we are not root anyway."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(USER)
    except KeyError:
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", USER]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode in (0, _USER_EXISTS), done.stderr
    return USER


def scratch_folder(name: str) -> Path:
    """A folder that the server's user owns. Not one of pytest's: they are closed to others, and too long for a socket."""
    folder = Path(tempfile.mkdtemp(prefix=f"slate-{name}-"))
    if (user := server_user()) is not None:
        shutil.chown(folder, user, user)
    return folder


def run_as_server_user(command: Sequence[str | Path], cwd: Path) -> None:
    """Run one command that sets up a server in its scratch folder ``cwd``, which goes if that fails."""
    user = server_user()
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        user=user,
        group=user,
        extra_groups=[] if user else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(cwd, ignore_errors=True)
        raise RuntimeError(
            f"{command[0]} failed with {done.returncode}\n{done.stdout.decode(errors='replace')[-3000:]}"
        )


def _apt(*command: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        [*_APT, *command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode == 0
