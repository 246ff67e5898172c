"""From a url to a store that is ready to use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime, SystemRuntime
from slate_engine.store import native_threads as _native_threads  # noqa: F401  its exit handler comes first
from slate_engine.store.backend import Backend
from slate_engine.store.cost import RequestMeter, Tally
from slate_engine.store.files import FileStore
from slate_engine.store.memory import MemoryStore
from slate_engine.store.metrics import BackendMetrics, MeteredStore, StoreMetrics
from slate_engine.store.options import OTHER, Options, resolve
from slate_engine.store.place import Place, parse_url
from slate_engine.store.probe import ProbedStore, Proofs
from slate_engine.store.protocol import ObjectStore
from slate_engine.store.retry import RetryingStore, RetryPolicy

_MEMORY: dict[str, MemoryStore] = {}
_PROVEN: dict[str, int] = {}


def open_store(
    url: str,
    options: Mapping[str, str] | None = None,
    *,
    runtime: Runtime | None = None,
    registry: CollectorRegistry | None = None,
    environment: Mapping[str, str] | None = None,
) -> ObjectStore:
    """The store at ``url``: ``memory:///name`` (shared by name in this process), ``file:///path``, ``s3://bucket/prefix``,
    ``gs://bucket/prefix``, ``az://container/prefix``, ``abfss://container@account.dfs.core.windows.net/prefix``, or any
    other protocol that fsspec knows.

    ``options`` are those of :mod:`slate_engine.store.options`; what they leave open is looked for in ``environment`` (the
    process's own, unless given). Nothing is sent until the first call.
    """
    place, settings, environment = _parse(url, options, environment)
    runtime = runtime or SystemRuntime()
    metrics = BackendMetrics(StoreMetrics.of(registry), _client(place, settings))

    store: ObjectStore
    if place.service == "memory":
        store = MeteredStore(_memory(place, runtime, metrics), metrics, runtime)
    elif place.service == "file":
        store = MeteredStore(FileStore(place.prefix, runtime, meter=metrics), metrics, runtime)
    else:
        backend = _backend(place, settings, runtime, metrics)
        patient = RetryingStore(backend, runtime, _policy(settings), metrics)
        store = MeteredStore(patient, metrics, runtime)
        if place.service != OTHER and settings.flag("probe", default=True) and not settings.text("cas"):
            store = ProbedStore(store, runtime, _proofs(runtime, settings, environment), _identity(place, settings))
    if cas := settings.text("cas"):
        store = _two_phase(store, cas, runtime)
    return store


def open_backend(
    url: str,
    options: Mapping[str, str] | None = None,
    *,
    runtime: Runtime,
    meter: RequestMeter | None = None,
    environment: Mapping[str, str] | None = None,
) -> Backend:
    """The bare client of a remote store, without retries and the rest: to put something else in front of it."""
    place, settings, _ = _parse(url, options, environment)
    return _backend(place, settings, runtime, meter or Tally())


def _parse(
    url: str, options: Mapping[str, str] | None, environment: Mapping[str, str] | None
) -> tuple[Place, Options, Mapping[str, str]]:
    place = parse_url(url)
    environment = os.environ if environment is None else environment
    settings = resolve(place.service, options, environment)
    if settings.text("endpoint").startswith("http://") and not settings.flag("allow_http"):
        raise InvalidError(
            "the endpoint is plain http, which shows data and names to the network; allow_http=true permits it"
        )
    return place, settings, environment


def _client(place: Place, settings: Options) -> str:
    """Which implementation serves this place; also the label of its metrics."""
    if place.service in ("memory", "file"):
        return place.service
    choice = settings.text("client", "fsspec" if place.service == OTHER else "obstore")
    if choice not in ("obstore", "fsspec") or (choice == "obstore" and place.service == OTHER):
        raise InvalidError(f"option client must be {'fsspec' if place.service == OTHER else 'obstore or fsspec'} here")
    return f"{place.service}-{choice}" if place.service != OTHER else "fsspec"


def _backend(place: Place, settings: Options, runtime: Runtime, meter: RequestMeter) -> Backend:
    """SDKs are imported here and not before: each takes a while, and a program uses one of them."""
    extra = place.service if place.service != OTHER else "s3"
    try:
        match _client(place, settings):
            case "s3-obstore" | "gcs-obstore" | "azure-obstore":
                from slate_engine.store.obstore_clients import open_obstore

                return open_obstore(place, settings, runtime, meter=meter)
            case "s3-fsspec":
                from slate_engine.store.s3fs_backend import S3fsBackend

                return S3fsBackend(place, settings, runtime, meter=meter)
            case "gcs-fsspec":
                from slate_engine.store.gcsfs_backend import GcsfsBackend

                return GcsfsBackend(place, settings, runtime, meter=meter)
            case "azure-fsspec":
                from slate_engine.store.adlfs_backend import AdlfsBackend

                return AdlfsBackend(place, settings, runtime, meter=meter)
            case _:
                from slate_engine.store.fsspec_backend import FsspecBackend

                return FsspecBackend(place, settings, runtime, meter=meter)
    except ImportError as error:
        raise InvalidError(
            f"{place.url} needs the Python package {error.name}: pip install 'slatekeeper[{extra}]'"
        ) from error


def _memory(place: Place, runtime: Runtime, metrics: BackendMetrics) -> MemoryStore:
    store = MemoryStore(runtime, name=place.prefix, meter=metrics)
    return _MEMORY.setdefault(place.prefix, store) if place.prefix else store


def _policy(settings: Options) -> RetryPolicy:
    default = RetryPolicy()
    return RetryPolicy(
        attempts=int(settings.number("retry_attempts", default.attempts)),
        seconds=settings.number("retry_seconds", default.seconds),
    )


def _proofs(runtime: Runtime, settings: Options, environment: Mapping[str, str]) -> Proofs:
    """Proofs are kept on disk, except for servers on this machine: what listens on a local port changes by the hour."""
    if urlsplit(settings.text("endpoint")).hostname in ("localhost", "127.0.0.1", "::1"):
        return Proofs(runtime, _PROVEN)
    own = environment.get("SLATEKEEPER_CACHE")
    cache = Path(own) if own else Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "slatekeeper"
    return Proofs(runtime, _PROVEN, cache / "probes")


def _identity(place: Place, settings: Options) -> str:
    """What a proof is about: this bucket at this endpoint, through this client."""
    account = place.account or settings.text("account_name")
    return " ".join((_client(place, settings), account, settings.text("endpoint"), place.bucket))


def _two_phase(store: ObjectStore, cas: str, runtime: Runtime) -> ObjectStore:
    from slate_engine.store.two_phase import TwoPhaseStore, open_transactions

    return TwoPhaseStore(store, open_transactions(cas, runtime), runtime)
