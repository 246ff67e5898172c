"""The services as people run them: processes, sockets, signals."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

from tests.server.conftest import Start
from tests.server.processes import SLATE, Service, until

TOKEN = "a-token-that-nobody-guesses"


def connect(service: Service) -> redis.Redis:
    return redis.Redis(port=service.resp_port)


def test_a_writer_from_start_to_end(start: Start) -> None:
    writer = start("writer").wait_ready()
    client = connect(writer)
    assert client.set("a", "1") is True
    status = writer.ask("GET", "/status").body
    assert status["role"] == "writer"
    assert status["writer_epoch"] == 1
    assert status["durable_seq"] == status["last_seq"] == 1
    assert writer.ask("GET", "/livez").body == "alive\n"
    metrics = writer.ask("GET", "/metrics").body
    assert 'slate_resp_command_seconds_count{command="set"} 1.0' in metrics
    assert "slatedb_db_write_ops_total 1.0" in metrics
    missing = writer.ask("GET", "/nothing")
    assert missing.status == 404
    assert missing.headers["content-type"].startswith("application/problem+json")
    assert client.execute_command("SLATE.FLUSH", "MEMTABLE") is not None
    made = client.execute_command("SLATE.CHECKPOINT", "NAME", "first", "LIFETIME", "1h")
    assert made
    assert writer.stop() == 0
    again = start("writer").wait_ready()
    assert connect(again).get("a") == b"1"
    assert again.stop(signal.SIGINT) == 0


def test_a_writer_that_is_replaced_ends_with_its_own_code(start: Start) -> None:
    first = start("writer").wait_ready()
    connect(first).set("a", "1")
    second = start("writer").wait_ready()
    assert connect(second).get("a") == b"1"
    until(lambda: first.process is not None and first.process.poll() is not None)
    assert first.process is not None
    assert first.process.returncode == 6
    assert "replaced" in first.log.read_text()


def test_a_replaced_writer_may_wait_to_be_removed(start: Start) -> None:
    """A pod that ended would be started again, and replace its replacement."""
    first = start("writer", fenced_hold_seconds=60).wait_ready()
    second = start("writer").wait_ready()
    connect(second).set("a", "1")
    until(lambda: "waits to be removed" in first.log.read_text())
    assert first.ask("GET", "/livez").status == 200
    assert "replaced by a newer process" in first.ask("GET", "/readyz").body
    with pytest.raises(redis.ConnectionError):
        connect(first).get("a")
    assert first.stop() == 6
    assert connect(second).get("a") == b"1"


def test_a_database_that_is_deleted_for_good_under_its_services(start: Start, tmp_path: Path) -> None:
    """All of them end, and say why; no write is acknowledged any more, and nothing comes back."""
    writer = start("writer", fenced_hold_seconds=60).wait_ready()
    compactor = start("compactor").wait_ready()
    worker = start("compactor", compactor__worker_only="true").wait_ready()
    collector = start("gc").wait_ready()
    client = connect(writer)
    assert client.set("a", "1") is True
    command = [SLATE, "--store", writer.store, "--path", writer.path]
    done = subprocess.run([*command, "destroy", "--hard", "--yes"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Processes seem to use it" in done.stderr
    with pytest.raises(redis.RedisError):
        client.set("a", "2")
    for service in (compactor, worker):
        assert service.process is not None
        assert service.process.wait(60) == 6
        assert "was deleted while this process used it" in service.log.read_text()
    until(lambda: "waits to be removed" in writer.log.read_text(), 60)
    assert "its database was deleted" in writer.ask("GET", "/readyz").body
    assert writer.stop() == 6
    assert collector.ask("GET", "/v1/status").body["type"] == "urn:slatekeeper:problem:no-database"
    assert collector.stop() == 0
    said = subprocess.run([*command, "status"], capture_output=True, text=True, timeout=120)
    assert said.returncode == 3, said
    assert [file for file in (tmp_path / "store").rglob("*") if file.is_file()] == []


def test_a_port_that_is_taken(start: Start) -> None:
    first = start("gc").wait_ready()
    second = start("gc", http__port=first.http_port)
    assert second.process is not None
    assert second.process.wait(60) == 1
    assert f"127.0.0.1:{first.http_port} cannot be listened at" in second.log.read_text()
    assert "http.port" in second.log.read_text()
    assert "Traceback" not in second.log.read_text()


def test_readers_follow(start: Start) -> None:
    writer = start("writer").wait_ready()
    connect(writer).set("a", "1")
    reader = start("reader", reader__poll_seconds=0.1, reader__checkpoint_seconds=10).wait_ready()
    client = connect(reader)
    assert client.get("a") == b"1"
    connect(writer).set("a", "2")
    until(lambda: client.get("a") == b"2")
    try:
        client.set("a", "3")
        raise AssertionError("a reader has written")
    except redis.exceptions.ReadOnlyError:
        pass
    assert 0 < reader.ask("GET", "/status").body["staleness_seconds"] < 5
    assert reader.stop() == 0


def test_a_start_that_cannot_reach_the_store_says_why(start: Start, tmp_path: Path) -> None:
    writer = start(
        "writer",
        store="s3://bucket",
        environment={
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "very-secret",
            "AWS_ALLOW_HTTP": "true",
        },
        start_seconds=3,
    )
    answers: list[str] = []

    def told() -> bool:
        try:
            answer = writer.ask("GET", "/readyz")
        except OSError:
            return False
        answers.append(str(answer.body))
        return answer.status == 503 and "does not answer" in str(answer.body)

    until(told, 60)
    assert writer.ask("GET", "/livez").status == 200
    assert writer.process is not None
    assert writer.process.wait(120) == 5
    assert "very-secret" not in writer.log.read_text() + "".join(answers)


def test_the_doors_are_shut(start: Start, tmp_path: Path) -> None:
    exposed = start("writer", http__host="0.0.0.0")
    assert exposed.process is not None
    assert exposed.process.wait(60) == 1
    assert "http.token_file" in exposed.log.read_text()
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    service = start("gc", token=TOKEN, http__token_file=secret).wait_ready()
    for path in ("/status", "/v1/status", "/v1/checkpoints", "/openapi.json", "/nothing"):
        refused = service.ask("GET", path, token="wrong")
        assert refused.status == 401, path
        assert refused.body["type"] == "urn:slatekeeper:problem:unauthorized"
    for path in ("/livez", "/readyz", "/metrics"):
        assert service.ask("GET", path, token="wrong").status == 200, path
    closed = start("gc", token=TOKEN, http__token_file=secret, http__open="[readyz]").wait_ready()
    assert closed.ask("GET", "/metrics", token="wrong").status == 401
    assert closed.ask("GET", "/metrics").status == 200


def test_the_admin_api(start: Start) -> None:
    writer = start("writer").wait_ready()
    client = connect(writer)
    client.mset({f"key:{number}": "v" for number in range(100)})
    admin = start("gc").wait_ready()
    id = str(uuid4())
    made = admin.ask("PUT", f"/v1/checkpoints/{id}", {"name": "nightly", "lifetime_seconds": 3600})
    assert made.status == 200, made
    assert admin.ask("PUT", f"/v1/checkpoints/{id}", {"name": "nightly", "lifetime_seconds": 3600}).body["id"] == id
    assert [each["id"] for each in admin.ask("GET", "/v1/checkpoints?name=nightly").body["checkpoints"]] == [id]
    longer = admin.ask("PATCH", f"/v1/checkpoints/{id}", {"lifetime_seconds": 7200}).body
    assert longer["expire_time_s"] > made.body["expire_time_s"]
    wrong = admin.ask("POST", "/v1/checkpoints", {"lifetime": 1})
    assert wrong.status == 422
    assert "lifetime" in wrong.body["detail"]
    assert admin.ask("GET", f"/v1/checkpoints/{uuid4()}").body["type"] == "urn:slatekeeper:problem:checkpoint-missing"
    assert admin.ask("GET", "/v1/checkpoints/nonsense").status == 400

    mine = {"uid": str(uuid4()), "namespace": "shop", "name": "orders"}
    assert admin.ask("GET", "/v1/owner").body == {"owner": None}
    assert admin.ask("PUT", "/v1/owner", {**mine, "expect": "empty"}).body["type"].endswith(":database-exists")
    assert admin.ask("PUT", "/v1/owner", mine).body["owner"] == {**mine, "released": False}
    other = admin.ask("PUT", "/v1/owner", {**mine, "uid": str(uuid4())})
    assert other.status == 409
    assert other.body["owner"]["uid"] == mine["uid"]
    assert admin.ask("DELETE", f"/v1/owner/{mine['uid']}").status == 204
    assert admin.ask("GET", "/v1/owner").body["owner"]["released"] is True

    operation = str(uuid4())
    work = {"work": {"kind": "clone", "target": "copies/one", "checkpoint": id}}
    assert admin.ask("PUT", f"/v1/operations/{operation}", work).status in (200, 202)
    until(lambda: admin.ask("GET", f"/v1/operations/{operation}").body["state"] == "succeeded")
    again = admin.ask("PUT", f"/v1/operations/{operation}", work)
    assert (again.status, again.body["state"]) == (200, "succeeded")
    other = admin.ask("PUT", f"/v1/operations/{operation}", {"work": {"kind": "undelete"}})
    assert other.status == 409
    clone = start("writer", path="copies/one").wait_ready()
    assert connect(clone).get("key:99") == b"v"

    def ended(work: dict[str, Any]) -> dict[str, Any]:
        asked = str(uuid4())
        admin.ask("PUT", f"/v1/operations/{asked}", {"work": work})
        until(lambda: admin.ask("GET", f"/v1/operations/{asked}").body["state"] != "running")
        return dict(admin.ask("GET", f"/v1/operations/{asked}").body)

    hard = {"kind": "destroy", "mode": "hard"}
    unnamed = ended(hard)["problem"]
    assert unnamed["type"] == "urn:slatekeeper:problem:destruction-not-named"
    soft = ended({"kind": "destroy"})["result"]
    status = admin.ask("GET", "/v1/status").body
    assert (status["state"], status["destroyed_at_s"]) == ("destroyed", soft["destroyed_at_s"])
    until(lambda: writer.process is not None and writer.process.poll() is not None)
    refused = ended({**hard, **soft})["problem"]
    assert refused["type"] == "urn:slatekeeper:problem:invalid-deletion"
    assert id in refused["checkpoints"]
    assert admin.ask("DELETE", f"/v1/checkpoints/{id}").status == 204
    assert admin.ask("DELETE", f"/v1/checkpoints/{id}").status == 204

    back = str(uuid4())
    admin.ask("PUT", f"/v1/operations/{back}", {"work": {"kind": "undelete"}})
    until(lambda: admin.ask("GET", "/v1/status").body["state"] == "alive")
    assert connect(start("writer").wait_ready()).get("key:7") == b"v"

    assert admin.ask("GET", "/v1/compactions").status == 200
    explained = admin.ask("GET", "/v1/explain?limit=5").body
    assert len(explained["objects"]) == 5
    assert explained["more_objects"] > 0
    document = admin.ask("GET", "/openapi.json").body
    assert {"/v1/operations/{id}", "/v1/compactions"} <= document["paths"].keys()
    assert admin.stop() == 0


def test_an_operation_survives_its_process(start: Start) -> None:
    writer = start("writer").wait_ready()
    connect(writer).set("a", "1")
    admin = start("gc").wait_ready()
    operation = str(uuid4())
    admin.ask("PUT", f"/v1/operations/{operation}", {"work": {"kind": "copy", "target": "copies/two"}})
    admin.stop(signal.SIGKILL)
    successor = start("gc").wait_ready()
    until(lambda: successor.ask("GET", f"/v1/operations/{operation}").body["state"] == "succeeded")
    assert connect(start("writer", path="copies/two").wait_ready()).get("a") == b"1"


def test_a_compactor_as_a_process(start: Start) -> None:
    settings = '{"compactor_options": null, "l0_sst_size_bytes": 4096}'
    writer = start("writer", settings=settings).wait_ready()
    client = connect(writer)
    for batch in range(6):
        client.mset({f"key:{number}": "v" * 100 + str(batch) for number in range(100)})
        client.execute_command("SLATE.FLUSH", "MEMTABLE")
    before = writer.ask("GET", "/status").body["l0_ssts"]
    assert before >= 6
    compactor = start("compactor", settings='{"compactor_options": {"poll_interval": "100ms"}}').wait_ready()
    until(lambda: writer.ask("GET", "/status").body["l0_ssts"] < before)
    assert client.get("key:50") == b"v" * 100 + b"5"
    assert compactor.stop() == 0


def test_a_compactor_that_leaves_large_jobs_to_others(start: Start) -> None:
    writer = start("writer", settings='{"compactor_options": null}').wait_ready()
    client = connect(writer)
    admin = start("gc").wait_ready()
    assert admin.ask("GET", "/v1/compactions").body == {"compactions": [], "waiting_bytes": 0}, "there is no book"
    for batch in range(4):
        client.mset({f"key:{number}": "v" * 100 + str(batch) for number in range(100)})
        client.execute_command("SLATE.FLUSH", "MEMTABLE")
    settings = '{"compactor_options": {"poll_interval": "100ms", "worker": {"compactions_poll_interval": "100ms"}}}'
    leaving = start("compactor", settings=settings, compactor__max_job_bytes="1000").wait_ready()
    until(lambda: admin.ask("GET", "/v1/compactions").body["waiting_bytes"] > 0)
    book = admin.ask("GET", "/v1/compactions").body
    (job,) = book["compactions"]
    assert (job["state"], job["worker"], job["heartbeat_at_s"]) == ("scheduled", None, None)
    assert job["input_bytes"] == book["waiting_bytes"] > 4 * 100 * 100
    assert abs(job["submitted_at_s"] - time.time()) < 60
    assert job["description"] == "4 SSTs of L0 to run 0"
    time.sleep(1)
    assert admin.ask("GET", "/v1/compactions").body["compactions"] == [job], "it is nobody's"
    assert leaving.stop() == 0
    at_last = {"compactor__max_job_bytes": "1000", "compactor__leave_seconds": "0"}
    start("compactor", settings=settings, **at_last).wait_ready()
    until(lambda: writer.ask("GET", "/status").body["l0_ssts"] == 0)
    until(lambda: [each["state"] for each in admin.ask("GET", "/v1/compactions").body["compactions"]] == ["completed"])
    ended = admin.ask("GET", "/v1/compactions").body
    assert (ended["waiting_bytes"], ended["compactions"][0]["input_bytes"]) == (0, 0)
    assert ended["compactions"][0]["id"] == job["id"]
    assert ended["compactions"][0]["heartbeat_at_s"] >= job["submitted_at_s"]
    assert client.get("key:50") == b"v" * 100 + b"3"


def test_what_the_configuration_comes_to_is_shown_without_secrets(tmp_path: Path) -> None:
    command = [SLATE, "--store", "memory:///", "serve", "writer"]
    file = tmp_path / "config.yaml"
    file.write_text(
        "resp: {port: 1111, max_clients: 5}\nstore: {options: {aws_secret_access_key: hush}}\n"
        "compactor: {max_job_bytes: 1000000}\n"
    )
    shown = subprocess.run(
        [*command, "--show-config", "--config", str(file), "--set", "resp.max_clients=7"],
        env={"SLATE_RESP__PORT": "2222", "SLATE_COMPACTOR__LEAVE_SECONDS": "60", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "port: 2222" in shown
    assert "max_clients: 7" in shown
    assert "max_job_bytes: 1000000\n  leave_seconds: 60.0\n" in shown
    assert "hush" not in shown
    wrong = subprocess.run(
        [*command, "--set", "resp.prot=1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert wrong.returncode == 1
    assert "resp.prot" in wrong.stderr
