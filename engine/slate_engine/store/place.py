"""Where a store is: its url, taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from slate_engine.errors import InvalidError
from slate_engine.store.backend import check_key
from slate_engine.store.options import AZURE, GCS, OTHER, S3

_SCHEMES = {
    "memory": "memory",
    "file": "file",
    "s3": S3,
    "s3a": S3,
    "gs": GCS,
    "gcs": GCS,
    "az": AZURE,
    "azure": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
}
_AZURE_HOSTS = (".blob.core.windows.net", ".dfs.core.windows.net")


@dataclass(frozen=True, slots=True)
class Place:
    """``bucket`` is an Azure container too; ``prefix`` has no outer slashes; ``account`` is Azure's, if the url has it."""

    service: str
    scheme: str
    bucket: str
    prefix: str
    account: str = ""

    @property
    def url(self) -> str:
        return f"{self.scheme}://" + "/".join(part for part in (self.bucket, self.prefix) if part)


def parse_url(url: str) -> Place:
    """The place that ``url`` names. Raises InvalidError, without repeating a url that may hold a password."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme == "https" and (parts.hostname or "").endswith(_AZURE_HOSTS):
        container, _, prefix = parts.path.strip("/").partition("/")
        return _checked(Place(AZURE, "az", container, unquote(prefix), (parts.hostname or "").split(".")[0]))
    service = _SCHEMES.get(scheme, OTHER)
    if not scheme or scheme in ("http", "https"):
        known = ", ".join(f"{name}://" for name in _SCHEMES)
        raise InvalidError(f"a store's url begins with one of {known} or a protocol that fsspec knows")
    if parts.password is not None or (parts.username is not None and scheme not in ("abfs", "abfss")):
        raise InvalidError("a store's url must not hold credentials; give them as options or in the environment")
    if parts.query or parts.fragment:
        raise InvalidError("a store's url ends with its path; give everything else as options")
    if service == "file":
        if parts.netloc:
            raise InvalidError("a file url has three slashes and an absolute path: file:///path/to/folder")
        return Place(service, scheme, "", unquote(parts.path))
    if service == "memory":
        return Place(service, scheme, "", (parts.netloc + parts.path).strip("/"))
    bucket, account = parts.netloc, ""
    if parts.username is not None:
        bucket, account = parts.username, (parts.hostname or "").split(".")[0]
    return _checked(Place(service, scheme, bucket, unquote(parts.path).strip("/"), account))


def _checked(place: Place) -> Place:
    if not place.bucket and place.service != OTHER:
        raise InvalidError(f"a store's url names a bucket or container: {place.scheme}://bucket/prefix")
    if place.prefix:
        check_key(place.prefix)
    return place
