"""How a service is set up: a file, then the environment, then flags; the later wins.

The file is YAML or JSON in the shape of :class:`Config`. A variable ``SLATE_RESP__PORT`` is ``resp.port`` of the file, and
so is ``--set resp.port=…``. Secrets are not values here but names of files that hold them, so it can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slate_engine.errors import InvalidError

PREFIX = "SLATE_"
MASK = "********"
_SECRET_WORDS = ("secret", "password", "token", "key", "credential", "sas")


class Part(BaseModel):
    """A section of the configuration. What it does not know is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreConfig(Part):
    """Where the database is."""

    url: str = Field(default="", description="file:///folder, s3://bucket/prefix, gs://bucket, az://container")
    wal_url: str = Field(default="", description="where the log is, if not in the same store")
    options: dict[str, str] = Field(
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
    idle_seconds: float = Field(default=0, ge=0, description="cut off who says nothing for so long; 0 for never")


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


class LogConfig(Part):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["human", "json"] = "human"


class ReaderConfig(Part):
    """How a reader follows the writer: it is behind by at most ``poll_seconds`` and one read of the manifest."""

    poll_seconds: float = Field(default=1.0, gt=0)
    checkpoint_seconds: float = Field(
        default=60.0, gt=0, description="how long its checkpoint lives without a sign of life"
    )
    checkpoint: str = Field(default="", description="show this checkpoint for ever instead of following")


class CompactorConfig(Part):
    """How data is merged."""

    force: bool = Field(default=False, description="take over from a compactor that was at work a moment ago")
    worker_only: bool = Field(default=False, description="merge what another process has planned")


class GcConfig(Part):
    """When and what is collected, in seconds."""

    interval: float = Field(default=300.0, gt=0)
    min_age: float = Field(default=300.0, ge=0)
    delete_grace: float = Field(
        default=7 * 86400.0, ge=0, description="a softly destroyed database can be brought back so long"
    )
    prefix: str = Field(default="", description="collect all databases under this path, not only the one")


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
    dumped["store"]["options"] = {
        name: MASK if any(word in name.lower() for word in _SECRET_WORDS) else value
        for name, value in config.store.options.items()
    }
    return str(yaml.safe_dump(dumped, sort_keys=False))


def _of_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise InvalidError(f"the configuration file cannot be read: {error}") from None
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
    for part in parts[:-1]:
        tree = tree.setdefault(part, {})
    tree[parts[-1]] = value


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value
