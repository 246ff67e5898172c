"""How a process logs, says that it is not well, and ends."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path

import redis

from tests.server.conftest import Start
from tests.server.processes import Service, until
from tests.server.test_services import connect


def spoil_the_newest_manifest(store: Path) -> Path:
    """As if somebody had written nonsense in its place."""
    folder = store / "db" / "manifest"
    last = max(int(file.stem) for file in folder.glob("*.manifest"))
    spoiled = folder / f"{last + 1:020}.manifest"
    spoiled.write_bytes(b"nonsense")
    return spoiled


def metric(service: Service, name: str) -> float:
    lines = str(service.ask("GET", "/metrics").body).splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))


def test_who_cannot_follow_says_so(start: Start, tmp_path: Path) -> None:
    """A reader that cannot see what is new, and a collector whose passes fail, although the store answers."""
    writer = start("writer").wait_ready()
    connect(writer).set("a", "1")
    reader = start("reader", reader__poll_seconds=0.1, reader__stale_polls=5).wait_ready()
    collector = start("gc", gc__interval=0.2).wait_ready()
    assert writer.stop() == 0
    until(lambda: connect(reader).get("a") == b"1")
    spoiled = spoil_the_newest_manifest(tmp_path / "store")
    until(lambda: "was the newest" in str(reader.ask("GET", "/readyz").body))
    told = reader.ask("GET", "/status").body
    assert told["staleness_seconds"] > 0.5
    assert "manifest" in told["trouble"]
    assert told["ready"] is False
    assert metric(reader, "slate_reader_staleness_seconds") > 0.5
    assert connect(reader).get("a") == b"1", "what it has it shows"
    until(lambda: "passes over 'db' have failed" in str(collector.ask("GET", "/readyz").body))
    assert reader.ask("GET", "/livez").status == collector.ask("GET", "/livez").status == 200
    before, after = (spoiled.parent / f"{int(spoiled.stem) + step:020}.manifest" for step in (-1, 1))
    after.write_bytes(before.read_bytes())
    until(lambda: reader.ask("GET", "/readyz").status == 200)
    until(lambda: collector.ask("GET", "/readyz").status == 200)
    assert metric(reader, "slate_reader_staleness_seconds") < 0.5
    assert reader.ask("GET", "/status").body["trouble"] is None


def test_logs_as_json(start: Start) -> None:
    admin = start("gc", log__format="json").wait_ready()
    assert admin.ask("GET", "/v1/checkpoints").status == 404
    assert admin.stop() == 0
    lines = [json.loads(line) for line in admin.log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    [refused] = [line for line in lines if "was refused" in line["message"]]
    assert refused["request_id"]
    assert any("has ended" in line["message"] for line in lines)


def occupied(writer: Service) -> socket.socket:
    """A client that asks for something which takes ten minutes."""
    busy = socket.create_connection(("127.0.0.1", writer.resp_port))
    busy.sendall(b"DEBUG SLEEP 600\r\n")
    time.sleep(0.3)
    return busy


def test_the_time_to_drain_is_a_bound(start: Start) -> None:
    writer = start("writer", drain_seconds=8, settings='{"flush_interval": "60s"}').wait_ready()
    client = redis.Redis(port=writer.resp_port, single_connection_client=True)
    client.execute_command("CLIENT", "SLATE", "DURABILITY", "memory")
    client.set("a", "1")
    with occupied(writer):
        began = time.monotonic()
        assert writer.stop() == 0
        assert 3 < time.monotonic() - began < 16, "half of it is for clients, half for the flush"
    assert connect(start("writer").wait_ready()).get("a") == b"1", "what was seen was flushed"


def test_a_second_signal_ends_at_once(start: Start) -> None:
    writer = start("writer", drain_seconds=60).wait_ready()
    with occupied(writer):
        assert writer.process is not None
        writer.process.send_signal(signal.SIGTERM)
        until(lambda: "it finishes what it has begun" in writer.log.read_text())
        began = time.monotonic()
        assert writer.stop() == 1
        assert time.monotonic() - began < 10
    assert "did not end in time" in writer.log.read_text()
