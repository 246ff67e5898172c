"""One pass on a real S3 server: its conditional writes hold the boundaries, and a thousand objects go with one request."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from slate_engine.format.ids import Ulid
from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from tests.servers.proxy import LossyProxy
from tests.servers.versitygw import VersityGW
from tests.unit.admin.workshop import Database

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

NOW = Task(min_age=0)
OPTIONS = GcOptions(manifests=NOW, wal=NOW, compacted=NOW, compactions=NOW)


async def test_a_pass_and_an_idle_one(tmp_path: Path) -> None:
    runtime = SystemRuntime()
    with VersityGW(tmp_path) as server:
        server.make_bucket("bucket")
        store = open_store("s3://bucket/gc", {**server.options(), "probe": "false"}, runtime=runtime, environment={})
        db = await Database(store, runtime).make()
        for number in range(1200):
            await store.put(db.files.paths.compacted(Ulid.of(runtime.now_ms() - 100_000, number)), b"orphan")
        for turn in range(3):
            await db.flush({b"a": b"%d" % turn})
            await db.log(turn + 1, {b"b": b"%d" % turn})
        await db.compact()
        await db.publish(await db.upload(db.rows({b"c": b"3"})), db.seq, wal_id=3)
        before = await db.values()
        await runtime.sleep(1.1)  # the server's times are in seconds
        async with LossyProxy(server.endpoint) as proxy:
            options = {**server.options(), "endpoint": proxy.endpoint, "probe": "false"}
            seen = Database(open_store("s3://bucket/gc", options, runtime=runtime, environment={}), runtime)
            collector = Collector(seen.files, OPTIONS)
            report = await collector.collect()
            assert report.errors == []
            found = {kind: len(report.kind(kind).garbage) for kind in Kind}
            assert found[Kind.COMPACTED] == 1200 + 3
            assert found[Kind.MANIFESTS] > 3
            assert found[Kind.WAL] == 2
            # One for the manifests, one for the log, one for the books, and two for SSTs.
            assert Counter(line.split()[0] for line in proxy.seen)["POST"] == 5
            again = await collector.collect()
            assert not list(again)
            proxy.seen.clear()
            assert not list(await collector.collect())
            assert len(proxy.seen) <= 4
            await seen.store.close()
        assert await db.values() == before
        assert await db.names("gc") == ["compactions.boundary", "manifest.boundary"]
        await store.close()
