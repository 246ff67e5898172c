"""MariaDB from Debian's ``-core`` packages, which have the programs and start no service of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.servers.debian import program, run_as_server_user, scratch_folder, server_user
from tests.servers.process import LOOPBACK, ServerProcess, accepts_connections, free_port

USER, PASSWORD, DATABASE = "slate", "slate-test-secret", "slate"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"


def _find() -> Path | None:
    # The last of these is what mariadb-install-db itself needs, and comes with the client.
    found = [shutil.which(name, path=_PATH) for name in ("mariadbd", "mariadb-install-db", "my_print_defaults")]
    return Path(found[0]) if found[0] and all(found) else None


class MariaDB(ServerProcess):
    """A server on a data folder of its own, removed by :meth:`remove`. Synced to disk lazily: a killed server loses nothing,
    and the machine does not lose power in a test."""

    def __init__(self) -> None:
        server = program(_find, "mariadb-server-core", "mariadb-client-core")
        self._folder = scratch_folder("mariadb")
        data = self._folder / "data"
        self.port = free_port()
        installer = shutil.which("mariadb-install-db", path=_PATH) or "mariadb-install-db"
        method = "--auth-root-authentication-method=normal"
        run_as_server_user([installer, "--no-defaults", f"--datadir={data}", "--skip-test-db", method], self._folder)
        start = self._folder / "start.sql"
        start.write_text(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON {DATABASE}.* TO '{USER}'@'%';\n"
        )
        super().__init__(
            "mariadb",
            [
                server,
                "--no-defaults",
                f"--datadir={data}",
                f"--socket={self._folder / 'socket'}",
                f"--pid-file={self._folder / 'pid'}",
                f"--init-file={start}",
                f"--bind-address={LOOPBACK}",
                f"--port={self.port}",
                "--skip-name-resolve",
                "--innodb-flush-log-at-trx-commit=2",
            ],
            log=self._folder / "log",
            ready=lambda: accepts_connections(self.port),
            cwd=self._folder,
            user=server_user(),
        )

    @property
    def url(self) -> str:
        return f"mysql://{USER}:{PASSWORD}@{LOOPBACK}:{self.port}/{DATABASE}"

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
