"""Scripted answers of an S3 server, through the real clients: what is tried again, and what is believed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from slate_engine.errors import InvalidError
from slate_engine.store.open import open_store
from slate_engine.store.protocol import CREATE, Conflict, Denied, ObjectStore, PutMode, StoreUnavailable, Update

ETAG = '"9e107d9d372bb6826bd81d3542a419d6"'


class Script:
    """Answers PUTs from a list; keeps the mark of the last PUT that it accepted, and shows it to a HEAD."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []
        self.puts: list[str] = []
        self.stored: str | None = None
        self.store_on_failure = False

    async def answer(self, request: web.Request) -> web.Response:
        mark = request.headers.get("x-amz-meta-slatewrite", "")
        if request.method == "PUT":
            await request.read()
            self.puts.append(mark)
            status, code = self.answers.pop(0)
            if status == 200 or self.store_on_failure:
                self.stored = mark
            body = "" if status == 200 else f"<Error><Code>{code}</Code><Message>as the script says</Message></Error>"
            return web.Response(status=status, text=body, headers={"ETag": ETAG})
        if self.stored is None:
            return web.Response(status=404)
        headers = {"ETag": ETAG, "Last-Modified": "Tue, 17 Nov 2026 08:00:00 GMT", "Content-Length": "0"}
        return web.Response(headers={**headers, "x-amz-meta-slatewrite": self.stored})


@pytest.fixture
async def script() -> AsyncIterator[tuple[Script, str]]:
    script = Script()
    app = web.Application()
    app.router.add_route("*", "/{key:.*}", script.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield script, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture(params=["obstore", "fsspec"])
async def store(request: pytest.FixtureRequest, script: tuple[Script, str]) -> AsyncIterator[ObjectStore]:
    options = {"endpoint": script[1], "allow_http": "true", "access_key_id": "id", "secret_access_key": "secret"}
    store = open_store("s3://scripted/db", {**options, "client": request.param, "probe": "false"}, environment={})
    yield store
    await store.close()


@pytest.mark.parametrize("mode", [CREATE, Update(ETAG)])
@pytest.mark.parametrize(
    "answer",
    [
        (409, "ConditionalRequestConflict"),
        (503, "SlowDown"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (502, ""),
        (503, "ServiceUnavailable"),
    ],
)
async def test_tried_again_until_it_is_done(
    store: ObjectStore, script: tuple[Script, str], answer: tuple[int, str], mode: PutMode
) -> None:
    script[0].answers = [answer, answer, (200, "")]
    if isinstance(mode, Update):
        script[0].stored = "c.before"
    assert await store.put("k", b"", mode) == ETAG
    assert len(script[0].puts) == 3
    assert len(set(script[0].puts)) == 1, "every attempt carries the same mark"


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_failure_that_was_a_success(store: ObjectStore, script: tuple[Script, str], status: int) -> None:
    """The server wrote the object and then said that it had failed: recognised, and not sent again."""
    script[0].answers = [(status, "")]
    script[0].store_on_failure = True
    assert await store.put("k", b"", CREATE) == ETAG
    assert len(script[0].puts) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((412, "PreconditionFailed"), Conflict),
        ((403, "AccessDenied"), Denied),
        ((400, "ExpiredToken"), Denied),
        ((400, "InvalidRequest"), InvalidError),
        ((404, "NoSuchBucket"), InvalidError),
        ((501, "NotImplemented"), InvalidError),
    ],
)
async def test_believed_at_once(
    store: ObjectStore, script: tuple[Script, str], answer: tuple[int, str], error: type[Exception]
) -> None:
    script[0].answers = [answer]
    with pytest.raises(error):
        await store.put("k", b"", CREATE)
    assert len(script[0].puts) == 1


async def test_a_conflict_after_a_lost_answer_with_our_mark_is_a_success(
    store: ObjectStore, script: tuple[Script, str]
) -> None:
    """Throttled once by a front end after the back end had written: the second attempt meets our own object."""
    script[0].answers = [(429, ""), (412, "PreconditionFailed")]
    script[0].store_on_failure = True
    assert await store.put("k", b"", CREATE) == ETAG


async def test_gives_up_in_the_end(script: tuple[Script, str]) -> None:
    options = {"endpoint": script[1], "allow_http": "true", "access_key_id": "id", "secret_access_key": "secret"}
    store = open_store("s3://scripted/db", {**options, "probe": "false", "retry_attempts": "3"}, environment={})
    script[0].answers = [(500, "InternalError")] * 9
    with pytest.raises(StoreUnavailable, match="attempt 3") as caught:
        await store.put("k", b"", CREATE)
    assert caught.value.unknown_outcome
    assert len(script[0].puts) == 3
