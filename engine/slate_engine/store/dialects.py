"""Services that speak S3, where they differ from S3.

MinIO needs nothing but its endpoint. R2 and Tigris have one region called ``auto``. Tigris answers from the nearest copy
unless it is asked to be consistent, and a conditional write that looks at a stale copy is worth nothing: so every request
asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from slate_engine.errors import InvalidError
from slate_engine.store.options import Options


@dataclass(frozen=True, slots=True)
class Dialect:
    region: str = "us-east-1"
    headers: dict[str, str] = field(default_factory=dict)


DIALECTS = {
    "aws": Dialect(),
    "minio": Dialect(),
    "r2": Dialect(region="auto"),
    "tigris": Dialect(region="auto", headers={"X-Tigris-Consistent": "true"}),
}
_HOSTS = {
    ".r2.cloudflarestorage.com": "r2",
    ".tigris.dev": "tigris",
    ".storage.dev": "tigris",
    ".storageapi.dev": "tigris",
}


def dialect_of(options: Options) -> Dialect:
    """By the option ``dialect``, or else by the endpoint's host."""
    name = options.text("dialect")
    if not name:
        host = urlsplit(options.text("endpoint")).hostname or ""
        name = next((dialect for suffix, dialect in _HOSTS.items() if host.endswith(suffix)), "aws")
    if name not in DIALECTS:
        raise InvalidError(f"S3 dialect {name!r} is unknown; known are: {', '.join(DIALECTS)}")
    return DIALECTS[name]
