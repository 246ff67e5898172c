"""Where a database is: the root of its store, which its neighbours share, and its path below."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """All databases of a bucket have the same root, so that a clone finds its parents by their paths."""

    root: str
    path: str

    @property
    def url(self) -> str:
        return f"{self.root.rstrip('/')}/{self.path}" if not self.root.endswith("///") else self.root + self.path

    @classmethod
    def of(cls, url: str) -> Place:
        """``s3://bucket/a/b`` is ``a/b`` in ``s3://bucket``; ``file:///a/b`` is ``a/b`` in ``file:///``."""
        scheme, separator, rest = url.partition("://")
        if not separator or not rest.strip("/"):
            raise ValueError(f"{url!r} names no place; write for instance s3://bucket/path")
        if scheme == "file":
            return cls("file:///", rest.strip("/"))
        bucket, _, path = rest.strip("/").partition("/")
        return cls(f"{scheme}://{bucket}", path.strip("/"))
