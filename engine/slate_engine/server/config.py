"""How a service is set up: a file, then the environment, then flags; the later wins.

The file is YAML or JSON in the shape of :class:`Config`. A variable ``SLATE_RESP__PORT`` is ``resp.port`` of the file, and
so is ``--set resp.port=…``. Secrets are not values here but names of files that hold them, so it can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from slate_engine.errors import InvalidError
from slate_engine.store.options import may_be_shown
from slate_engine.store.scrubbing import scrubbed

PREFIX = "SLATE_"
MASK = "********"


class Part(BaseModel):
    """A section of the configuration. What it does not know is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _as_text(value: object) -> object:
    """Options are text, and a file or a flag says numbers and truth values without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


class StoreConfig(Part):
    """Where the database is."""

    url: str = Field(default="", description="file:///folder, s3://bucket/prefix, gs://bucket, az://container")
    wal_url: str = Field(default="", description="where the log is, if not in the same store")
    options: dict[str, Annotated[str, BeforeValidator(_as_text)]] = Field(
        default_factory=dict, description="options of the store, as `slate --option` takes them"
    )


class TlsConfig(Part):
    """Certificates, which are read again when their files change."""

    certificate: Path | None = Field(default=None, description="PEM file with the certificate and its chain")
    key: Path | None = Field(default=None, description="PEM file with the private key")
    client_ca: Path | None = Field(
        default=None, description="PEM file: clients must show a certificate of this authority"
    )


class RespConfig(Part):
    """The Redis protocol."""

    host: str = "127.0.0.1"
    port: int = Field(default=6379, ge=0, le=65535)
    password_file: Path | None = Field(
        default=None, description="one password a line; without it only loopback is served"
    )
    tls: TlsConfig = Field(default_factory=TlsConfig)
    max_clients: int = Field(default=10_000, ge=1)
    max_request_bytes: int = Field(default=64 << 20, ge=1024)
    max_pipeline: int = Field(default=1024, ge=1)
    max_output_bytes: int = Field(default=64 << 20, ge=1 << 16)
    allow_flush: bool = Field(default=False, description="whether FLUSHDB may delete all keys")
    idle_seconds: float = Field(default=0, ge=0, description="cut off who sends nothing for so long; 0 for never")


class HttpConfig(Part):
    """Health, metrics and the admin API."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    token_file: Path | None = Field(
        default=None, description="one bearer token a line; without it only loopback is served"
    )
    tls: TlsConfig = Field(default_factory=TlsConfig)
    open: tuple[Literal["livez", "readyz", "metrics"], ...] = Field(
        default=("livez", "readyz", "metrics"), description="what may be asked for without a token"
    )
    max_request_bytes: int = Field(default=1 << 20, ge=1024)
    max_connections: int = Field(
        default=128, ge=8, description="when there are more, he goes whom nothing is being done for"
    )


class LogConfig(Part):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["human", "json"] = "human"


class ReaderConfig(Part):
    """How a reader follows the writer: it is behind by at most ``poll_seconds`` and one read of the manifest."""

    poll_seconds: float = Field(default=1.0, gt=0)
    stale_polls: int = Field(
        default=10, ge=2, description="not ready when it has found out nothing new for so many poll intervals"
    )
    checkpoint_seconds: float = Field(
        default=60.0, gt=0, description="how long its checkpoint lives without a sign of life"
    )
    checkpoint: str = Field(default="", description="show this checkpoint for ever instead of following")


class CompactorConfig(Part):
    """How data is merged."""

    force: bool = Field(default=False, description="take over from a compactor that was at work a moment ago")
    worker_only: bool = Field(default=False, description="merge what another process has planned")
    max_job_bytes: int | None = Field(
        default=None,
        ge=1,
        description="leave jobs with more to read to other workers, such as Spark's; choose more than L0 ever holds",
    )
    leave_seconds: float = Field(
        default=900.0, ge=0, description="take such a job after all when nobody has claimed it for so long"
    )


class GcConfig(Part):
    """When and what is collected, in seconds."""

    interval: float = Field(default=300.0, gt=0)
    min_age: float = Field(default=300.0, ge=0)
    delete_grace: float | None = Field(
        default=7 * 86400.0,
        ge=0,
        description="a softly destroyed database can be brought back so long; null: until somebody deletes it for good, for "
        "the collector does not do it by itself",
    )
    prefix: str = Field(default="", description="collect all databases under this path, not only the one")
    owner: str = Field(
        default="",
        description="begin to collect when the database is marked as belonging to this owner's uid: what is somebody else's "
        "is left to him",
    )


class Config(Part):
    """All of it."""

    store: StoreConfig = Field(default_factory=StoreConfig)
    path: str = Field(default="", description="the database's path in the store")
    settings: dict[str, Any] = Field(default_factory=dict, description="SlateDB settings, with the keys of its JSON")
    resp: RespConfig = Field(default_factory=RespConfig)
    http: HttpConfig = Field(default_factory=HttpConfig)
    log: LogConfig = Field(default_factory=LogConfig)
    reader: ReaderConfig = Field(default_factory=ReaderConfig)
    compactor: CompactorConfig = Field(default_factory=CompactorConfig)
    gc: GcConfig = Field(default_factory=GcConfig)
    drain_seconds: float = Field(
        default=20.0, ge=0, description="after SIGTERM: answer what was asked and flush, for so long"
    )
    fenced_hold_seconds: float = Field(
        default=0.0,
        ge=0,
        description="a process that was replaced stays so long, without serving, before it ends: time to remove its pod, "
        "which would otherwise be started anew and replace its replacement",
    )
    stall_seconds: float = Field(
        default=120.0,
        gt=0,
        description="/livez fails if a loop gives no sign of life for so long, the store's delays apart",
    )
    start_seconds: float = Field(
        default=0.0, ge=0, description="give up if the store does not answer for so long; 0 for never"
    )


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """The configuration, or an error that names every mistake in it."""
    gathered: dict[str, Any] = {}
    for source in (_of_file(file), _of_environment(environment), flags):
        _merge(gathered, source)
    try:
        return Config.model_validate(gathered)
    except ValidationError as mistakes:
        told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in mistakes.errors())
        raise InvalidError(f"the configuration is wrong: {told}") from None


def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """What ``--set a.b=value`` says. Values are YAML: numbers, true, lists."""
    gathered: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidError(f"{pair!r} is not name=value; write for instance resp.port=6380")
        _put(gathered, name.split("."), _value(value))
    return gathered


def shown(config: Config) -> str:
    """The configuration as YAML, fit to be read by anybody."""
    dumped = config.model_dump(mode="json")
    store = dumped["store"]
    store["options"] = {
        name: scrubbed(value) if may_be_shown(name) else MASK for name, value in config.store.options.items()
    }
    store["url"], store["wal_url"] = scrubbed(store["url"]), scrubbed(store["wal_url"])
    return str(yaml.safe_dump(dumped, sort_keys=False))


def _of_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        found = yaml.safe_load(file.read_text())
    except OSError as error:
        raise InvalidError(f"the configuration file cannot be read: {error}") from None
    except yaml.MarkedYAMLError as error:
        # What it says as a whole quotes the file, which may hold secrets.
        where = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise InvalidError(f"the configuration file cannot be read{where}: {error.problem}") from None
    except yaml.YAMLError:
        raise InvalidError("the configuration file cannot be read: it is not YAML") from None
    if found is not None and not isinstance(found, dict):
        raise InvalidError(f"{file} holds no configuration: it should be a mapping such as `store: {{url: …}}`")
    return found or {}


_FIELDS = {name: field.annotation for name, field in Config.model_fields.items()}


def _of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """``SLATE_STORE`` and ``SLATE_PATH`` are those of the command. Other variables with the prefix belong to others."""
    gathered: dict[str, Any] = {}
    for name, value in environment.items():
        parts = name.removeprefix(PREFIX).lower().split("__")
        if not name.startswith(PREFIX) or parts[0] not in _FIELDS:
            continue
        if parts == ["store"]:
            parts = ["store", "url"]
        _put(gathered, parts, value if parts == ["path"] else _value(value))
    return gathered


def _value(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _put(tree: dict[str, Any], parts: Sequence[str], value: Any) -> None:
    for depth, part in enumerate(parts[:-1], 1):
        below = tree.setdefault(part, {})
        if not isinstance(below, dict):
            section = ".".join(parts[:depth])
            raise InvalidError(f"{section} is given as a whole and by {'.'.join(parts)}: give one or the other")
        tree = below
    _merge(tree, {parts[-1]: value})


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value
