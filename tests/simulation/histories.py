"""Seeded histories that the original can live through as well: what is done, and what each step shows.

Both packages have the same classes (``import slate_engine as slatedb``), so one script drives both; only the module differs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEYS = [b"k%02d" % number for number in range(14)]
STEPS = 40

Seen = list[Any]


def joined(api: Any) -> Any:
    """The merge operator of all simulated databases: values one after the other."""

    class Join(api.MergeOperator):  # type: ignore[misc]
        def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
            return (existing_value or b"") + operand

    return Join()


class Life:
    """One database through one history."""

    def __init__(self, api: Any, folder: Path, seed: int) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self._seed = seed
        self._folder = folder
        self._db: Any = None
        self.seen: Seen = []

    async def live(self) -> Seen:
        await self._open()
        steps: list[tuple[int, Callable[[], Any]]] = [
            (8, self._write),
            (6, self._get),
            (3, self._scan),
            (3, self._transact),
            (3, self._compare_snapshot),
            (2, self._flush),
            (1, self._reopen),
        ]
        for number in range(STEPS):
            step = self._chance.choices([step for _, step in steps], [weight for weight, _ in steps])[0]
            self.seen.append((number, step.__name__, await step()))
        self.seen.append(await self._all(self._db))
        await self._db.shutdown()
        return self.seen

    def _store(self) -> Any:
        builder = self._api.ObjectStoreBuilder(self._api.ObjectStoreType.LOCAL)
        builder.with_config("local_path", str(self._folder))
        return builder.build()

    async def _open(self) -> None:
        settings = self._api.Settings.default()
        for key, value in (
            ("flush_interval", '"10ms"'),
            ("l0_sst_size_bytes", str(random.Random(self._seed).choice([200, 1 << 20]))),
            ("l0_max_ssts", "1000"),
            ("l0_max_ssts_per_key", "1000"),
            ("compactor_options", "null"),
            ("garbage_collector_options", "null"),
        ):
            settings.set(key, value)
        builder = self._api.DbBuilder("db", self._store())
        builder.with_settings(settings)
        builder.with_merge_operator(joined(self._api))
        self._db = await builder.build()

    async def _reopen(self) -> Seen:
        await self._db.shutdown()
        await self._open()
        return await self._all(self._db)

    def _drawn(self) -> tuple[str, bytes, bytes]:
        chance = self._chance
        return chance.choice(["put", "put", "merge", "delete"]), chance.choice(KEYS), b"%d;" % chance.randrange(1000)

    async def _write(self) -> None:
        batch = self._api.WriteBatch()
        for _ in range(self._chance.randint(1, 4)):
            self._change(batch, *self._drawn())
        await self._db.write(batch)

    @staticmethod
    def _change(target: Any, how: str, key: bytes, value: bytes) -> Any:
        return target.delete(key) if how == "delete" else getattr(target, how)(key, value)

    async def _get(self) -> Any:
        return await self._db.get(self._chance.choice(KEYS))

    async def _scan(self) -> Seen:
        first, last = sorted(self._chance.sample(KEYS, 2))
        return await self._rows(self._db, first, last)

    async def _transact(self) -> Any:
        """Somebody else writes meanwhile, perhaps just what was read."""
        level = self._chance.choice(["SNAPSHOT", "SERIALIZABLE_SNAPSHOT"])
        transaction = await self._db.begin(getattr(self._api.IsolationLevel, level))
        read = await transaction.get(self._chance.choice(KEYS))
        await self._change(transaction, *self._drawn())
        if self._chance.random() < 0.6:
            await self._write()
        try:
            await transaction.commit()
        except self._api.Error.Transaction:
            return read, "conflict"
        return read, "committed"

    async def _compare_snapshot(self) -> Seen:
        """A snapshot shows what was there when it was made."""
        snapshot = await self._db.snapshot()
        await self._write()
        return await self._all(snapshot)

    async def _flush(self) -> None:
        await self._db.flush()

    async def _all(self, reader: Any) -> Seen:
        return await self._rows(reader, None, None)

    async def _rows(self, reader: Any, first: bytes | None, last: bytes | None) -> Seen:
        keys = self._api.KeyRange(start=first, start_inclusive=True, end=last, end_inclusive=False)
        found = await reader.scan(keys)
        rows: Seen = []
        while batch := await found.next_batch(100):
            rows += batch
        # The original gives a number to a commit that is refused, too; what counts is which row is newer than which.
        order = {seq: place for place, seq in enumerate(sorted({row.seq for row in rows}))}
        return [(bytes(row.key), bytes(row.value), order[row.seq]) for row in rows]
