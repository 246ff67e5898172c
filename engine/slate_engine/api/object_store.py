"""Object stores as an application names them: by url, by environment, or option by option."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from slate_engine.api import arguments
from slate_engine.api.building import Builder, Unmade
from slate_engine.api.enums import ObjectStoreType
from slate_engine.api.store_options import BUCKETS, LABELS, SCHEMES, short_option
from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime, SystemRuntime
from slate_engine.store.open import open_store
from slate_engine.store.place import parse_url
from slate_engine.store.protocol import ObjectStore as Store

_PROVIDERS = {
    "aws": ObjectStoreType.S3,
    "azure": ObjectStoreType.AZURE,
    "gcp": ObjectStoreType.GCS,
    "local": ObjectStoreType.LOCAL,
    "memory": ObjectStoreType.IN_MEMORY,
}


@cache
def system_runtime() -> Runtime:
    """The one of this process: all databases share its threads."""
    return SystemRuntime()


class ObjectStore(Unmade):
    """A place for databases: a bucket, a folder, a piece of memory. Databases in it are told apart by their paths."""

    store: Store
    runtime: Runtime

    @classmethod
    def resolve(cls, url: str) -> ObjectStore:
        """The store that a url names: ``memory:///`` (a new one every time), ``file:///``, ``s3://bucket``, ``gs://bucket``,
        ``az://container``, and others that fsspec knows. Nothing is sent yet; the path belongs to the builder."""
        text = arguments.text(url, "a url")
        try:
            place = parse_url(text)
        except InvalidError as reason:
            raise InvalidError(f"Invalid error: invalid object store URL. url=`{_shown(text)}` ({reason})") from None
        if path := place.prefix.strip("/"):
            raise InvalidError(
                f"Invalid error: invalid object store path. provide path to builder instead. path=`{path}`"
            )
        return cls.of(open_store("file:///" if place.service == "file" else text, runtime=system_runtime()))

    @classmethod
    def from_env(cls, env_file: str | None) -> ObjectStore:
        """The store that ``CLOUD_PROVIDER`` names (aws, azure, gcp, local, memory), with the variables that its own tools
        use. ``env_file`` (``.env`` if there is none given) may hold them, too; the process's own count first."""
        path = ".env" if env_file is None else arguments.text(env_file, "env_file")
        environment = {**_read_env_file(Path(path)), **os.environ}
        provider = environment.get("CLOUD_PROVIDER")
        kind = _PROVIDERS.get((provider or "").lower())
        if kind is None:
            shown = "null" if provider is None else provider
            raise InvalidError(
                f"Invalid error: invalid environment variable CLOUD_PROVIDER value `{shown}`: set it to one of "
                f"{', '.join(_PROVIDERS)}"
            )
        if kind is ObjectStoreType.LOCAL and "LOCAL_PATH" not in environment:
            raise InvalidError(
                "Invalid error: invalid environment variable LOCAL_PATH value `null`: set it to the folder of the store"
            )
        return _build(kind, {}, None, environment)

    @classmethod
    def of(cls, store: Store, runtime: Runtime | None = None) -> ObjectStore:
        """A store that was opened otherwise, with the clock and the threads that databases in it are to use."""
        made = cls.__new__(cls)
        made.store, made.runtime = store, runtime or system_runtime()
        return made

    def __repr__(self) -> str:
        return f"ObjectStore({self.store.url!r})"


class ObjectStoreBuilder(Builder):
    """A store, option by option. The names of options are those of the services' own tools, with or without their prefix:
    ``access_key_id`` or ``aws_access_key_id``."""

    def __init__(self, store_type: ObjectStoreType) -> None:
        if not isinstance(store_type, ObjectStoreType):
            raise ValueError(f"store_type must be an ObjectStoreType such as ObjectStoreType.S3, not {store_type!r}")
        self._type: ObjectStoreType = store_type
        self._url: str | None = None
        self._config: dict[str, str] = {}
        self._environment: Mapping[str, str] = {}

    @classmethod
    def from_url(cls, url: str) -> ObjectStoreBuilder:
        """A builder for the place that ``url`` names; here the url may have a path, in which all databases then lie."""
        text = arguments.text(url, "a url")
        try:
            scheme = parse_url(text).scheme
        except InvalidError as reason:
            raise InvalidError(f'invalid object store url "{_shown(text)}": {reason}') from None
        builder = cls(SCHEMES.get(scheme, ObjectStoreType.S3))
        builder._url = text
        return builder

    @classmethod
    def from_env(cls, store_type: ObjectStoreType) -> ObjectStoreBuilder:
        """A builder that looks in the environment for what it is not told."""
        builder = cls(store_type)
        builder._environment = dict(os.environ)
        return builder

    def with_config(self, key: str, value: str) -> None:
        self._check_unused()
        name = arguments.text(key, "a key")
        if (short := short_option(self._type, name)) is not None:
            self._config[short] = arguments.text(value, "a value")

    def with_url(self, url: str) -> None:
        """The place; needless where the options say it."""
        self._check_unused()
        self._url = arguments.text(url, "a url")

    def build(self) -> ObjectStore:
        self._consume()
        return _build(self._type, self._config, self._url, self._environment)


def _build(
    kind: ObjectStoreType, config: Mapping[str, str], url: str | None, environment: Mapping[str, str]
) -> ObjectStore:
    runtime = system_runtime()
    if kind is ObjectStoreType.IN_MEMORY:
        return ObjectStore.of(open_store("memory:///", runtime=runtime, environment={}))
    try:
        if kind is ObjectStoreType.LOCAL:
            place = _folder(config, url, environment)
            return ObjectStore.of(open_store(place, runtime=runtime, environment=environment))
        place = _bucket(kind, config, url, environment)
        options = {name: value for name, value in config.items() if name != "bucket"}
        return ObjectStore.of(open_store(place, options, runtime=runtime, environment=environment))
    except InvalidError as reason:
        if reason.message.startswith("missing required"):
            raise
        raise InvalidError(f"object store creation failed: {reason}") from None


def _folder(config: Mapping[str, str], url: str | None, environment: Mapping[str, str]) -> str:
    if url is not None:
        return url
    path = config.get("local_path") or environment.get("LOCAL_PATH")
    if not path:
        raise InvalidError("missing required Local object store config key: local_path")
    if not Path(path).is_dir():
        raise InvalidError(f"there is no folder {path}; create it first")
    return Path(path).absolute().as_uri()


def _bucket(kind: ObjectStoreType, config: Mapping[str, str], url: str | None, environment: Mapping[str, str]) -> str:
    if url is not None:
        if SCHEMES.get(parse_url(url).scheme) not in (kind, None):
            raise InvalidError(f"{_shown(url)} is not the url of a {LABELS[kind]} store")
        return url
    scheme, variables = BUCKETS[kind]
    bucket = config.get("bucket") or next((environment[name] for name in variables if environment.get(name)), None)
    if not bucket:
        raise InvalidError(f"Missing bucket name: give it as config key 'bucket' or in {variables[0]}")
    return f"{scheme}://{bucket}"


def _read_env_file(path: Path) -> dict[str, str]:
    """Lines ``NAME=value``, with or without ``export`` and quotes. A file that is not there says nothing."""
    found: dict[str, str] = {}
    if not path.is_file():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    return found


def _shown(url: str) -> str:
    """The url without a password that somebody may have put into it."""
    parts = urlsplit(url)
    return url if parts.password is None else parts._replace(netloc=parts.hostname or "").geturl()
