"""Where the objects of a database are, relative to the root of its store."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.format.ids import Ulid


@dataclass(frozen=True, slots=True)
class Paths:
    """The names under one database's path; an empty path is the root of the store itself."""

    root: str

    def under(self, name: str) -> str:
        return f"{self.root}/{name}" if self.root else name

    @property
    def manifest(self) -> str:
        return self.under("manifest")

    @property
    def compactions(self) -> str:
        return self.under("compactions")

    @property
    def wal_directory(self) -> str:
        return self.under("wal")

    @property
    def compacted_directory(self) -> str:
        return self.under("compacted")

    def wal(self, id: int) -> str:
        return self.under(f"wal/{id:020d}.sst")

    def compacted(self, id: Ulid) -> str:
        return self.under(f"compacted/{id}.sst")

    def boundary(self, name: str) -> str:
        return self.under(f"gc/{name}.boundary")
