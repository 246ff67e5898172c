"""Certificates from mounted files, which whoever issues them replaces from time to time.

Whenever a file has changed, a new context is made of all of them, and takes the old one's place if they fit together. A
context that is in use is never changed: it would go on to trust an authority that was taken out of the file, and be left
with half of what it had and half of what it got when a certificate comes before its key. Connections that stand keep
theirs; new ones get the new one, and cannot resume what was begun under the old one.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.server.config import TlsConfig

log = logging.getLogger(__name__)

CHECK_EVERY = 10.0


class Certificates:
    """A server's TLS context, kept up to date by :meth:`keep_fresh`: ask for it anew at every connection."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None, runtime: Runtime) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._runtime = runtime
        self._seen = self._stamps()
        self.context = self._loaded()

    @classmethod
    def of(cls, config: TlsConfig, runtime: Runtime) -> Certificates | None:
        if config.certificate is None and config.key is None:
            if config.client_ca is not None:
                raise InvalidError("tls.client_ca needs tls.certificate and tls.key, too")
            return None
        if config.certificate is None or config.key is None:
            raise InvalidError("tls.certificate and tls.key are given together, or not at all")
        return cls(config.certificate, config.key, config.client_ca, runtime)

    async def keep_fresh(self) -> None:
        while True:
            await self._runtime.sleep(CHECK_EVERY)
            self.refresh()

    def refresh(self) -> None:
        """Take the files in again if they have changed. While they do not fit together, what was good stays in use."""
        try:
            stamps = self._stamps()
            if stamps != self._seen:
                self.context = self._loaded()
                self._seen = stamps
                log.info("the certificate in %s has changed and is in use now", self._certificate)
        except (OSError, InvalidError) as error:
            log.warning("the certificate cannot be read again, the one before stays in use: %s", error)

    def _stamps(self) -> list[tuple[int, int]]:
        files = [self._certificate, self._key, *([self._client_ca] if self._client_ca else [])]
        return [((stat := file.stat()).st_mtime_ns, stat.st_ino) for file in files]

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._certificate, self._key)
        except ssl.SSLError as error:
            raise InvalidError(
                f"{self._certificate} and {self._key} are no certificate with its key: {error}"
            ) from None
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self._client_ca)
            except ssl.SSLError as error:
                raise InvalidError(f"{self._client_ca} holds no certificate of an authority: {error}") from None
        return context
