"""What the admin API takes, answers and says of itself."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.server.admin import routes
from slate_engine.server.admin.openapi import openapi
from slate_engine.server.admin.requests import CheckpointRequest, OperationRequest, OwnerRequest, RefreshRequest
from slate_engine.server.admin.routes import taken
from slate_engine.server.http.problems import Problem
from tests.server.admin.conftest import Api


async def test_a_change_that_says_nothing_is_refused(api: Api) -> None:
    _, made = await api.ask("POST", "/v1/checkpoints", {"lifetime_seconds": 3600})
    path = f"/v1/checkpoints/{made['id']}"
    status, told = await api.ask("PATCH", path, {})
    assert (status, "lifetime_seconds" in told["detail"]) == (422, True)
    assert (await api.ask("GET", path))[1]["expire_time_s"] == made["expire_time_s"]
    assert (await api.ask("PATCH", path, {"lifetime_seconds": None}))[1]["expire_time_s"] is None


@pytest.mark.parametrize("lifetime", ["Infinity", "-Infinity", "NaN", "1e300", "0", "-5"])
async def test_lifetimes_that_are_none(api: Api, lifetime: str) -> None:
    body = b'{"lifetime_seconds": %b}' % lifetime.encode()
    assert (await api.ask("POST", "/v1/checkpoints", raw=body))[0] == 422


async def test_a_document_that_does_not_come(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BODY_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(b"POST /v1/checkpoints HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nhalf")
    assert b" 408 " in await asyncio.wait_for(reader.readline(), 5)
    writer.close()


async def test_a_name_has_its_length(api: Api) -> None:
    assert (await api.ask("POST", "/v1/checkpoints", {"name": "x" * 1024}))[0] == 201
    assert (await api.ask("POST", "/v1/checkpoints", {"name": "x" * 1025}))[0] == 422


@pytest.mark.parametrize(
    "query", ["limit=%C2%B2", "limit=-1", "limit=1e3", "limit=" + "9" * 5000, "verdict=nonsense", "verdict="]
)
async def test_questions_that_are_wrong(api: Api, query: str) -> None:
    assert (await api.ask("GET", f"/v1/explain?{query}"))[0] == 400


async def test_questions_that_are_right(api: Api) -> None:
    assert (await api.ask("GET", "/v1/explain?limit=0&verdict=held"))[1]["objects"] == []
    assert {each["verdict"] for each in (await api.ask("GET", "/v1/explain?verdict=held"))[1]["objects"]} == {"held"}


@pytest.mark.parametrize("target", ["", "/", "db/inside", "db/compacted", "/db/x/"])
async def test_nothing_is_made_inside_the_database(api: Api, target: str) -> None:
    for kind in ("copy", "clone"):
        status, told = await api.ask("PUT", f"/v1/operations/{uuid4()}", {"work": {"kind": kind, "target": target}})
        assert status == 422, told


async def test_a_database_beside_it_may_begin_with_the_same_name(api: Api) -> None:
    assert (await api.done(str(uuid4()), {"kind": "copy", "target": "dbs"}))["state"] == "succeeded"


async def test_a_checkpoint_that_a_clone_needs_stays(api: Api) -> None:
    assert (await api.done(str(uuid4()), {"kind": "clone", "target": "dbs"}))["state"] == "succeeded"
    _, listed = await api.ask("GET", "/v1/checkpoints")
    (final,) = [each for each in listed["checkpoints"] if each["name"] == "clone dbs"]
    path = f"/v1/checkpoints/{final['id']}"
    for method, body in (("DELETE", None), ("PATCH", {"lifetime_seconds": 60})):
        status, told = await api.ask(method, path, body)
        assert (status, told["type"]) == (409, "urn:slatekeeper:problem:needed-by-clone")
        assert "clone 'dbs'" in told["detail"]
    assert (await api.ask("GET", path))[1]["expire_time_s"] is None


async def test_restore_and_collect(api: Api) -> None:
    _, kept = await api.ask("POST", "/v1/checkpoints", {"lifetime_seconds": 3600})
    id = str(uuid4())
    restored = await api.done(id, {"kind": "restore", "checkpoint": kept["id"], "keep_seconds": 60})
    assert (restored["state"], restored["result"]["kept"]) == ("succeeded", id)
    missing = await api.done(str(uuid4()), {"kind": "restore", "checkpoint": str(uuid4())})
    assert (missing["state"], missing["problem"]["type"]) == ("failed", "urn:slatekeeper:problem:checkpoint-missing")
    for dry_run in (True, False):
        collected = await api.done(str(uuid4()), {"kind": "collect", "dry_run": dry_run})
        assert collected["state"] == "succeeded"
        assert collected["result"]["objects"] == sum(collected["result"]["kinds"].values())


async def test_a_body_of_brackets(api: Api) -> None:
    assert (await api.ask("POST", "/v1/checkpoints", raw=b"[" * 500_000))[0] == 400


# --- what it says of itself --------------------------------------------------------------------------------------


async def test_the_document_is_whole(api: Api) -> None:
    document = openapi(api.admin.routes, "1")
    assert document["openapi"].startswith("3.1")
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} == {
        (route.path, route.method.lower()) for route in api.admin.routes
    }
    known = document["components"]["schemas"]
    references = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(document))
    assert set(references) <= known.keys()
    assert set(known) <= {*references}, "nothing is described that nobody refers to"
    names = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            asked = [each["name"] for each in operation.get("parameters", []) if each["in"] == "path"]
            assert asked == re.findall(r"{(\w+)}", path)
            assert "default" in operation["responses"]
    assert set(document["paths"]["/v1/operations/{id}"]["put"]["responses"]) == {"200", "202", "default"}
    assert [each["name"] for each in document["paths"]["/v1/explain"]["get"]["parameters"]] == ["limit", "verdict"]


async def test_answers_are_as_documented(api: Api) -> None:
    """Every route, asked for something that it has."""
    _, kept = await api.ask("POST", "/v1/checkpoints", {"name": "kept"})
    owner = {"uid": str(uuid4()), "namespace": "shop", "name": "orders"}
    ids = {
        "/v1/checkpoints/{id}": kept["id"],
        "/v1/owner/{id}": owner["uid"],
        "/v1/operations/{id}": str(uuid4()),
    }
    bodies: dict[tuple[str, str], Any] = {
        ("PUT", "/v1/owner"): owner,
        ("POST", "/v1/checkpoints"): {"lifetime_seconds": 60},
        ("PUT", "/v1/checkpoints/{id}"): {"name": "kept"},
        ("PATCH", "/v1/checkpoints/{id}"): {"lifetime_seconds": 60},
        ("PUT", "/v1/operations/{id}"): {"work": {"kind": "collect", "dry_run": True}},
    }
    order = ["POST", "PUT", "PATCH", "GET", "DELETE"]
    for route in sorted(api.admin.routes, key=lambda route: order.index(route.method)):
        path = route.path.replace("{id}", ids.get(route.path, ""))
        status, answer = await api.ask(route.method, path, bodies.get((route.method, route.path)))
        assert status in route.statuses, (route.method, path, answer)
        if route.gives is None:
            assert answer is None
        else:
            route.gives.model_validate(answer)


async def test_every_service_says_what_its_requests_come_to(api: Api) -> None:
    told = (await api.ask("GET", "/status"))[1]["requests"]
    assert told["dollars_a_month"] >= 0
    assert told["prices"]


# --- nonsense ----------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["work", "kind", "target", "checkpoint", "lifetime_seconds", "name", "source", "uid", "mode"]
) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([CheckpointRequest, RefreshRequest, OwnerRequest, OperationRequest]),
)
def test_any_body_is_understood_or_refused(body: bytes, model: Any) -> None:
    class Sent:
        async def read(self) -> bytes:
            return body

    refused: Problem | None = None
    try:
        asyncio.run(taken(Sent(), model))  # type: ignore[arg-type]
    except Problem as problem:
        refused = problem
    assert refused is None or refused.status in (400, 422)
    assert refused is None or refused.response().body


async def test_a_database_without_its_log_is_not_adopted(api: Api) -> None:
    owner = {"uid": "11111111-1111-1111-1111-111111111111", "namespace": "shop", "name": "orders", "expect": "database"}
    await api.files.manifests.update(lambda old: replace(old, wal_id_last_seen=old.wal_id_last_seen + 1))
    for id in (await api.files.manifest()).needed_wal_ids:
        await api.files.store.delete([api.files.paths.wal(id)])
    status, told = await api.ask("PUT", "/v1/owner", owner)
    assert (status, told["type"]) == (409, "urn:slatekeeper:problem:wal-missing")
    assert "probably in another store" in told["detail"]
    assert (await api.ask("GET", "/v1/owner"))[1] == {"owner": None}
    assert "probably in another store" in (await api.ask("GET", "/v1/status"))[1]["log_trouble"]
    status, told = await api.ask("POST", "/v1/checkpoints", {})
    assert (status, "probably in another store" in told["detail"]) == (409, True)
