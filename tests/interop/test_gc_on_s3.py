"""Our collector beside all that the original runs, on a store that both can update conditionally."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u

from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from tests.servers.versitygw import VersityGW
from tests.unit.admin.workshop import scan

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

NOW = Task(min_age=0)
EAGER = GcOptions(manifests=NOW, wal=NOW, compacted=NOW, compactions=NOW)
"""Ours. Theirs is as eager, but for SSTs: these it leaves to us."""
THEIRS = {"interval": "100ms", "min_age": "0s", "dry_run": False}
SETTINGS = {
    "flush_interval": "10ms",
    "manifest_poll_interval": "50ms",
    "compactor_options.poll_interval": "100ms",
    "compactor_options.commit_compacted_interval": "50ms",
    "compactor_options.worker.compactions_poll_interval": "50ms",
    # The inputs of a compaction are kept until the writer has heard of it: nothing else protects them here.
    "compactor_options.checkpoint_lifetime": "2s",
    "garbage_collector_options.manifest_options": THEIRS,
    "garbage_collector_options.wal_options": THEIRS,
    "garbage_collector_options.compactions_options": THEIRS,
    "garbage_collector_options.compacted_options": {**THEIRS, "dry_run": True},
}


def their_store(server: VersityGW) -> Any:
    builder = u.ObjectStoreBuilder(u.ObjectStoreType.S3)
    for key, value in {**server.options(), "bucket": "bucket"}.items():
        builder.with_config(key, value)
    return builder.build()


async def test_beside_their_writer_their_compactor_and_their_collector(tmp_path: Path) -> None:
    runtime = SystemRuntime()
    expected: dict[bytes, bytes] = {}
    deleted: list[str] = []
    with VersityGW(tmp_path) as server:
        server.make_bucket("bucket")
        options = {**server.options(), "probe": "false"}
        ours = open_store("s3://bucket", options, runtime=runtime, environment={})
        settings = u.Settings.default()
        for name, value in SETTINGS.items():
            settings.set(name, json.dumps(value))
        builder = u.DbBuilder("db", their_store(server))
        builder.with_settings(settings)
        db = await builder.build()
        collector = Collector(DatabaseFiles(ours, "db", runtime), EAGER)

        async def collect() -> None:
            while True:
                report = await collector.collect()
                assert report.errors == []
                deleted.extend(each.name for each in report if each.kind is not Kind.FENCES)
                await asyncio.sleep(0.05)

        collecting = asyncio.ensure_future(collect())
        for turn in range(40):
            for number in range(5):
                key, value = b"%03d" % ((number * 7 + turn) % 50), b"%d" % turn
                await db.put(key, value)
                expected[key] = value
            await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))
            await asyncio.sleep(0.15)
            assert not collecting.done(), collecting.result()
            for key in list(expected)[:3]:
                assert await db.get(key) == expected[key]
        await db.shutdown()
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)
        assert await scan(await DatabaseFiles(ours, "db", runtime).latest()) == expected
        reader = await u.DbReaderBuilder("db", their_store(server)).build()
        assert {key: await reader.get(key) for key in expected} == expected
        await reader.shutdown()
        await ours.close()
    assert sum("/compacted/" in name for name in deleted) > 10
