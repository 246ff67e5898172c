"""PostgreSQL from Debian's package ``postgresql``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.servers.debian import program, run_as_server_user, scratch_folder, server_user
from tests.servers.process import LOOPBACK, ServerProcess, free_port

USER, PASSWORD, DATABASE = "slate", "slate-test-secret", "postgres"


def _find() -> Path | None:
    """The folder with the newest server's programs; Debian keeps them off the path."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    return max(folders, key=lambda folder: float(folder.parent.name), default=Path(on_path).parent if on_path else None)


class Postgres(ServerProcess):
    """A server on a data folder of its own, removed by :meth:`remove`. Does not sync to disk: a killed server loses nothing,
    and the machine does not lose power in a test."""

    def __init__(self) -> None:
        programs = program(_find, "postgresql")
        self._folder = scratch_folder("postgres")
        data = self._folder / "data"
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self.port = free_port()
        create = [programs / "initdb", "--pgdata", data, "--username", USER, f"--pwfile={secret}", "--no-sync"]
        run_as_server_user([*create, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"], self._folder)
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
            "fsync": "off",
        }
        self._is_ready = [str(programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)]
        super().__init__(
            "postgres",
            [programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())],
            log=self._folder / "log",
            ready=lambda: subprocess.run(self._is_ready, check=False).returncode == 0,
            cwd=self._folder,
            user=server_user(),
        )

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@{LOOPBACK}:{self.port}/{DATABASE}"

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
