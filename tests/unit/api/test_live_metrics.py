"""What databases and readers count, under the original's names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


def value(kit: Any, recorder: Any, name: str, **labels: str) -> Any:
    wanted = [kit.lib.MetricLabel(key=key, value=text) for key, text in labels.items()]
    metric = recorder.metric_by_name_and_labels(name, wanted)
    return None if metric is None else metric.value[0]


async def test_calls_are_counted(kit: Any) -> None:
    recorder, store = kit.lib.DefaultMetricsRecorder(), kit.memory()
    async with kit.db(store, metrics_recorder=recorder) as db:
        await db.put(b"a", b"1")
        batch = kit.lib.WriteBatch()
        batch.put(b"b", b"2")
        batch.delete(b"a")
        await db.write(batch)
        await db.get(b"a")
        await db.get_key_value(b"b")
        await kit.rows(db)
        await db.flush()
        assert value(kit, recorder, "slatedb.db.write_ops") == 3
        assert value(kit, recorder, "slatedb.db.write_batch_count") == 2
        assert value(kit, recorder, "slatedb.db.request_count", op="get") == 2
        assert value(kit, recorder, "slatedb.db.request_count", op="scan") == 1
        assert value(kit, recorder, "slatedb.db.request_count", op="flush") == 1
        await kit.flush_memtable(db)
    recorder = kit.lib.DefaultMetricsRecorder()
    async with kit.reader(store, metrics_recorder=recorder) as reader:
        await reader.get(b"b")
        await kit.rows(reader)
        assert value(kit, recorder, "slatedb.db.request_count", op="get") == 1
        assert value(kit, recorder, "slatedb.db.request_count", op="scan") == 1


async def test_the_state_shows_in_gauges(kit: Any) -> None:
    recorder = kit.lib.DefaultMetricsRecorder()
    async with kit.db(metrics_recorder=recorder) as db:
        for i in range(2):
            await db.put(b"%d" % i, b"v" * 10)
            await kit.flush_memtable(db)
        for _ in range(100):
            if value(kit, recorder, "slatedb.db.l0_sst_count") == 2:
                break
            await asyncio.sleep(0.05)
        assert value(kit, recorder, "slatedb.db.l0_sst_count") == 2
        assert value(kit, recorder, "slatedb.db.segment_max_l0_sst_count") == 2
        assert value(kit, recorder, "slatedb.db.sst_count") == 2
        assert value(kit, recorder, "slatedb.db.sst_view_count") == 2
        assert value(kit, recorder, "slatedb.db.sorted_run_count") == 0
        assert value(kit, recorder, "slatedb.db.external_db_count") == 0
        assert value(kit, recorder, "slatedb.db.immutable_memtable_flushes") == 2
        assert value(kit, recorder, "slatedb.db.memtable_write_bytes") == 22
        assert value(kit, recorder, "slatedb.db.l0_flush_bytes") > 100
        assert value(kit, recorder, "slatedb.wal.wal_buffer_flushes") == 2
        assert value(kit, recorder, "slatedb.wal.wal_flush_bytes") > 100
        assert value(kit, recorder, "slatedb.db.backpressure_count") == 0


async def test_our_metrics_are_a_part_of_the_original_ones(original: Any, ours: Any) -> None:
    names = []
    for kit in (original, ours):
        recorder = kit.lib.DefaultMetricsRecorder()
        async with kit.db(metrics_recorder=recorder):
            names.append(
                {
                    (
                        metric.name,
                        tuple((label.key, label.value) for label in metric.labels),
                        type(metric.value).__qualname__,
                    )
                    for metric in recorder.snapshot()
                }
            )
    assert len(names[1]) > 15
    assert not names[1] - names[0]


async def test_a_fenced_database_stops_counting_when_it_is_shut_down(ours: Any) -> None:
    recorder, store = ours.lib.DefaultMetricsRecorder(), ours.memory()
    async with ours.db(store, metrics_recorder=recorder) as older, ours.db(store):
        with pytest.raises(ours.lib.Error.Closed):
            await (await older.put(b"k", b"v")).await_durable()
        await older.shutdown()
        assert older._upkeep._task.cancelled()
