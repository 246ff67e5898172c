"""The two stores of one bucket, and the names under which they know each other's things."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.protocol import ObjectStore
from slate_engine.store.two_phase.transactions import TransactionStore


@dataclass(frozen=True, slots=True)
class Site:
    """Records carry full names, ``root`` and key, so that one table serves many buckets, and so that a process which opened
    ``s3://bucket`` and one which opened ``s3://bucket/db`` mean the same record when they mean the same object."""

    objects: ObjectStore
    transactions: TransactionStore
    runtime: Runtime
    root: str

    @staticmethod
    def of(objects: ObjectStore, transactions: TransactionStore, runtime: Runtime, root: str | None) -> Site:
        root = root or objects.url
        if "://" not in root:
            raise InvalidError(f"the root {root!r} of a two-phase store has to be a url, like s3://bucket/folder")
        return Site(objects, transactions, runtime, root if root.endswith("/") else f"{root}/")

    def name(self, key: str) -> str:
        return self.root + key

    def key(self, name: str) -> str:
        return name.removeprefix(self.root)
