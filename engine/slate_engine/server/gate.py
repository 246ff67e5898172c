"""Who may come in: a password, or a token, from a file that may change while the process runs.

What is compared is a digest, in a time that does not depend on where the two differ. A file with several lines has several
secrets, so that one can be replaced without shutting anybody out.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from pathlib import Path

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime

log = logging.getLogger(__name__)

CHECK_EVERY = 1.0
"""The file is looked at no more often than this, in seconds."""


class Gate:
    """Open to everybody if it was given no file."""

    def __init__(self, path: Path | None, runtime: Runtime) -> None:
        self._path = path
        self._runtime = runtime
        self._digests: tuple[bytes, ...] = ()
        self._seen: tuple[int, int, int] | None = None
        self._looked = 0.0
        if path is not None:
            self._read(path)

    @property
    def shut(self) -> bool:
        return self._path is not None

    def admits(self, secret: bytes) -> bool:
        """Whether ``secret`` opens. All of them are tried, so that the time does not tell which."""
        self._look_again()
        digest = _digest(secret)
        opened = False
        for known in self._digests:
            opened |= hmac.compare_digest(known, digest)
        return opened

    def _look_again(self) -> None:
        now = self._runtime.monotonic()
        if self._path is None or now - self._looked < CHECK_EVERY:
            return
        self._looked = now
        try:
            self._read(self._path)
        except (OSError, InvalidError) as error:
            log.warning("the secrets cannot be read again, those known so far stay good: %s", error)

    def _read(self, path: Path) -> None:
        stat = path.stat()
        seen = stat.st_mtime_ns, stat.st_ino, stat.st_size
        if seen == self._seen:
            return
        secrets = [line.strip() for line in path.read_bytes().splitlines() if line.strip()]
        if not secrets:
            raise InvalidError(f"{path} holds no secret: write at least one line into it")
        if self._seen is not None:
            log.info("the secrets in %s have changed and are in use now", path)
        self._digests, self._seen = tuple(_digest(secret) for secret in secrets), seen


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
