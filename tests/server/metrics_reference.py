"""Writes ``docs/reference/metrics.md`` from what the services register: ``python -m tests.server.metrics_reference``."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import Config
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application
from slate_engine.server.http.server import HttpServer
from slate_engine.server.roles.compactor import CompactorRole
from slate_engine.server.roles.gc import GcRole
from slate_engine.server.roles.reader import ReaderRole
from slate_engine.server.roles.role import Role, Surroundings
from slate_engine.server.roles.writer import WriterRole

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"

HEAD = """# Metrics

What the services tell Prometheus at `/metrics`. Counters end in `_total` there, and histograms have `_bucket`, `_sum` and
`_count`. Names that begin with `slatedb_` are SlateDB's own, with underscores for its dots, so its dashboards show ours.

| name | type | labels | services | |
|---|---|---|---|---|
"""

ROLES: dict[str, Callable[[Surroundings], Role]] = {
    "writer": WriterRole,
    "reader": ReaderRole,
    "compactor": CompactorRole,
    "gc": GcRole,
}

SLATEDBS = {
    "slatedb_db_backpressure_count": "Writes that waited for room in memory",
    "slatedb_db_external_db_count": "Parents that the database borrows objects of",
    "slatedb_db_immutable_memtable_flushes": "Memtables that were written to L0",
    "slatedb_db_l0_flush_bytes": "Bytes of SSTs that came of them",
    "slatedb_db_l0_sst_count": "SSTs in L0, of all trees",
    "slatedb_db_memtable_write_bytes": "Bytes of rows that were written",
    "slatedb_db_request_count": "Reads, scans and flushes that were asked for",
    "slatedb_db_segment_max_l0_sst_count": "SSTs in the fullest L0",
    "slatedb_db_sorted_run_count": "Sorted runs of all trees",
    "slatedb_db_sst_count": "SSTs of the newest state",
    "slatedb_db_sst_view_count": "Views of SSTs: several may show parts of one",
    "slatedb_db_total_mem_size_bytes": "Bytes of rows that are in memory and not in L0",
    "slatedb_db_write_batch_count": "Writes, each at once",
    "slatedb_db_write_ops": "Rows that they wrote",
    "slatedb_wal_wal_buffer_flushes": "Objects of the log that were written",
    "slatedb_wal_wal_flush_bytes": "Bytes of them",
}
"""They are registered without words, as SlateDB registers them."""


class Family(NamedTuple):
    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def families(registry: CollectorRegistry) -> Iterator[Family]:
    for collector in list(registry._collector_to_names):
        declared = getattr(collector, "_labelnames", None)
        for metric in collector.collect():
            found = {name for sample in metric.samples for name in sample.labels} - {"le"}
            labels = tuple(sorted(found)) if declared is None else tuple(declared)
            yield Family(metric.name, metric.type, labels, metric.documentation or SLATEDBS[metric.name])


async def of_role(name: str, folder: str) -> list[Family]:
    config = Config.model_validate(
        {"store": {"url": f"file://{folder}"}, "path": "db", "resp": {"port": 0}, "http": {"port": 0}}
    )
    runtime, registry = SystemRuntime(), CollectorRegistry()
    surroundings = Surroundings(config, runtime, registry, Health())
    role = ROLES[name](surroundings)
    made = application(config.http, Gate(None, runtime), surroundings.health, registry, role.status, runtime)
    HttpServer(made, config.http, None, registry, runtime)
    await role.start()
    try:
        return list(families(registry))
    finally:
        await role.drain(10)


async def gathered() -> dict[Family, list[str]]:
    found: dict[Family, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for name in ROLES:
            for family in await of_role(name, folder):
                found[family].append(name)
    return found


def page() -> str:
    found = asyncio.run(gathered())
    rows = sorted(found.items(), key=lambda item: item[0])
    return HEAD + "".join(
        f"| `{family.name}` | {family.type} | {', '.join(f'`{label}`' for label in family.labels)} "
        f"| {'all' if len(names) == len(ROLES) else ', '.join(names)} | {family.help} |\n"
        for family, names in rows
    )


if __name__ == "__main__":
    PAGE.write_text(page())
