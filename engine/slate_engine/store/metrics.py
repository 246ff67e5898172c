"""Every call to a store, counted and timed for Prometheus.

Two things are measured, at two places. :class:`MeteredStore` stands in front of the retries and sees calls as the engine
makes them: how many, how long, how many bytes, how they failed. The backend's :class:`~slate_engine.store.cost.RequestMeter`
sees the requests that really went out, which is what a bill counts.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from slate_engine.runtime import Runtime
from slate_engine.store.cost import Request, Tally
from slate_engine.store.protocol import OVERWRITE, Buffer, NotModified, Object, ObjectMeta, ObjectStore, PutMode

OPERATIONS = ("get", "get_ranges", "head", "put", "put_stream", "copy", "list", "delete")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class StoreMetrics:
    """The instruments of one registry. Ask :meth:`of`: a registry takes each name only once."""

    _by_registry: ClassVar[weakref.WeakKeyDictionary[CollectorRegistry, StoreMetrics]] = weakref.WeakKeyDictionary()

    def __init__(self, registry: CollectorRegistry) -> None:
        call = ("backend", "operation")
        self.calls = Counter("slate_store_calls", "Calls to the object store", call, registry=registry)
        self.errors = Counter("slate_store_errors", "Calls that failed, by error", (*call, "error"), registry=registry)
        self.seconds = Histogram(
            "slate_store_call_seconds", "Time a call took, retries included", call, registry=registry, buckets=_SECONDS
        )
        self.read = Counter(
            "slate_store_read_bytes", "Bytes read from the object store", ("backend",), registry=registry
        )
        self.written = Counter("slate_store_written_bytes", "Bytes written to it", ("backend",), registry=registry)
        self.requests = Counter(
            "slate_store_requests",
            "Requests sent, as a bill counts them",
            ("backend", "request", "class"),
            registry=registry,
        )
        self.retries = Counter("slate_store_retries", "Attempts after the first", call, registry=registry)
        self.settled = Counter(
            "slate_store_settled_writes", "Writes settled by reading back", ("backend", "verdict"), registry=registry
        )

    @classmethod
    def of(cls, registry: CollectorRegistry | None = None) -> StoreMetrics:
        registry = registry or REGISTRY
        if registry not in cls._by_registry:
            cls._by_registry[registry] = cls(registry)
        return cls._by_registry[registry]


class BackendMetrics(Tally):
    """The instruments of one kind of backend, looked up once: label lookups have no place on the path of a GET."""

    def __init__(self, metrics: StoreMetrics, backend: str) -> None:
        super().__init__()
        self.calls = {op: metrics.calls.labels(backend, op) for op in OPERATIONS}
        self.seconds = {op: metrics.seconds.labels(backend, op) for op in OPERATIONS}
        self.read = metrics.read.labels(backend)
        self.written = metrics.written.labels(backend)
        self._counted = {r: metrics.requests.labels(backend, r.value, r.price_class.value) for r in Request}
        self._metrics = metrics
        self._backend = backend

    def count(self, request: Request, times: int = 1) -> None:
        super().count(request, times)
        self._counted[request].inc(times)

    def failed(self, operation: str, error: BaseException) -> None:
        self._metrics.errors.labels(self._backend, operation, type(error).__name__).inc()

    def retried(self, operation: str) -> None:
        self._metrics.retries.labels(self._backend, operation).inc()

    def settled(self, verdict: str) -> None:
        self._metrics.settled.labels(self._backend, verdict).inc()


class MeteredStore:
    """Counts and times the calls to the store behind it."""

    def __init__(self, inner: ObjectStore, metrics: BackendMetrics, runtime: Runtime) -> None:
        self._inner = inner
        self._metrics = metrics
        self._runtime = runtime

    @property
    def url(self) -> str:
        return self._inner.url

    @contextmanager
    def _call(self, operation: str) -> Iterator[None]:
        started = self._runtime.monotonic()
        self._metrics.calls[operation].inc()
        try:
            yield
        except NotModified:
            raise  # an answer, not a failure
        except Exception as error:
            self._metrics.failed(operation, error)
            raise
        finally:
            self._metrics.seconds[operation].observe(self._runtime.monotonic() - started)

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        with self._call("get"):
            found = await self._inner.get(key, if_none_match=if_none_match)
        self._metrics.read.inc(len(found.data))
        return found

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        with self._call("get_ranges"):
            found = await self._inner.get_ranges(key, ranges)
        self._metrics.read.inc(sum(map(len, found)))
        return found

    async def head(self, key: str) -> ObjectMeta:
        with self._call("head"):
            return await self._inner.head(key)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        with self._call("put"):
            etag = await self._inner.put(key, data, mode)
        self._metrics.written.inc(len(data))
        return etag

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        async def counted() -> AsyncIterator[Buffer]:
            async for chunk in chunks:
                self._metrics.written.inc(len(chunk))
                yield chunk

        with self._call("put_stream"):
            return await self._inner.put_stream(key, counted())

    async def copy(self, source: str, destination: str) -> None:
        with self._call("copy"):
            await self._inner.copy(source, destination)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        # Each page is a call of its own: what the caller does between two pages is not the store's time.
        pages = aiter(self._inner.list(prefix, start_after=start_after))
        while True:
            with self._call("list"):
                page = await anext(pages, None)
            if page is None:
                return
            yield page

    async def delete(self, keys: Iterable[str]) -> None:
        with self._call("delete"):
            await self._inner.delete(keys)

    async def close(self) -> None:
        await self._inner.close()
