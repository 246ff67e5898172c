"""The options of the data source: parsed once, in the driver, and typed from then on.

Where a database lies is common to all that Spark does with one (:class:`Location`), and may be left to the environment;
what a read wants is :class:`ReadOptions`. Credentials come from the environment of each process, or as options in the names
that Hadoop gives them; they stand in the store's options only, which no ``repr`` shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from slate_engine.admin.lifetimes import parse_lifetime
from slate_engine.errors import InvalidError
from slate_engine.spark.environment import STORE, own_options, told
from slate_engine.spark.keys import ENCODINGS, KEYS, ranges_of
from slate_engine.spark.ranges import Ranges

if TYPE_CHECKING:
    from slate_engine.runtime import Runtime
    from slate_engine.store.protocol import ObjectStore

MIB = 1 << 20

LOCATION = ("url", "path", "walUrl")
READ = (
    "checkpoint",
    "checkpointLifetime",
    "columns",
    "keyFormat",
    "keySchema",
    "valueFormat",
    "valueSchema",
    "malformed",
    "mergeOperator",
    "partitionBytes",
    "memoryBytes",
    "from",
    "to",
    *KEYS,
    "keyEncoding",
)
STORE_PREFIX = "store."
"""``store.endpoint`` is the option ``endpoint`` of the store, as ``slate --option`` takes it."""

HADOOP = {
    "fs.s3a.access.key": "access_key_id",
    "fs.s3a.secret.key": "secret_access_key",
    "fs.s3a.session.token": "session_token",
    "fs.s3a.endpoint": "endpoint",
    "fs.s3a.endpoint.region": "region",
    "fs.azure.account.name": "account_name",
    "fs.azure.account.key": "account_key",
    "fs.azure.sas.token": "sas_token",
    "fs.gs.auth.service.account.json.keyfile": "application_credentials",
}
"""What Hadoop calls a credential, and what the store calls it."""

_HADOOP_FLAGS = {"fs.s3a.path.style.access", "fs.s3a.connection.ssl.enabled"}
_SIZE = re.compile(r"\s*(\d+)\s*([kmgt]?)(i?b)?\s*", re.IGNORECASE)


class Given:
    """Options as Spark hands them over: texts, under names in which case does not count."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name.lower(), default)

    def size(self, name: str, default: int) -> int:
        """A number of bytes: ``134217728``, ``128m``, ``1g``."""
        given = self.text(name)
        if not given:
            return default
        found = _SIZE.fullmatch(given)
        if found is None or not int(found[1]):
            raise InvalidError(f'option {name} must be a size such as "128m" or "1g", and is {given!r}')
        return int(found[1]) << (10 * " kmgt".index(found[2].lower() or " "))

    def lifetime_ms(self, name: str, default: str) -> int:
        return parse_lifetime(self.text(name, default))

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        given = self.text(name, default).lower()
        if given not in choices:
            raise InvalidError(f"option {name} must be one of {', '.join(choices)}, and is {given!r}")
        return given

    def store_options(self) -> dict[str, str]:
        """What is meant for the store, under its own names."""
        found: dict[str, str] = {}
        for name, value in self._values.items():
            if name.startswith(STORE_PREFIX):
                found[name.removeprefix(STORE_PREFIX)] = value
            elif name in HADOOP:
                found[HADOOP[name]] = value
            elif name == "fs.s3a.path.style.access":
                found["virtual_hosted_style"] = "false" if value.strip().lower() == "true" else "true"
            elif name == "fs.s3a.connection.ssl.enabled":
                found["allow_http"] = "true" if value.strip().lower() == "false" else "false"
        endpoint = found.get("endpoint", "")
        if endpoint and "://" not in endpoint:
            # Hadoop's endpoints may be bare host names.
            found["endpoint"] = f"{'http' if found.get('allow_http') == 'true' else 'https'}://{endpoint}"
        return found

    def check_known(self, *known: str) -> None:
        """Refuse what nothing will look at: a misspelt option must not be taken for its default."""
        names = {name.lower() for name in known} | HADOOP.keys() | _HADOOP_FLAGS
        for name in self._values:
            if name in names or name.startswith(STORE_PREFIX):
                continue
            raise InvalidError(
                f"there is no option {name!r} here; there are {', '.join(known)}, {STORE_PREFIX}* and Hadoop's own"
            )


@dataclass(frozen=True)
class Location:
    """Where a database lies, and how to get there. Goes to executors as it is."""

    url: str
    path: str
    wal_url: str = ""
    store_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    defaults: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options that the driver's environment names. What a process's own environment says of one counts more."""

    @staticmethod
    def of(given: Given) -> Location:
        """Where the options say; where the environment says, if they name no store."""
        url, path = given.text("url"), given.text("path").strip("/")
        if url:
            return Location(url, path, given.text("walUrl"), given.store_options())
        known = told()
        if not known.url:
            raise InvalidError(
                'which store? Give option("url", "s3://bucket") (or file:///folder, gs://…, az://…), and option("path", …) '
                f"for the database in it; or set {STORE} in the environment"
            )
        wal_url = given.text("walUrl") or known.wal_url
        return Location(known.url, path or known.path.strip("/"), wal_url, given.store_options(), known.options)

    @property
    def options(self) -> dict[str, str]:
        """The options of the store that may be sent to other processes."""
        return {**self.defaults, **self.store_options}

    def open(self, runtime: Runtime) -> ObjectStore:
        return self._opened(self.url, runtime)

    def open_wal(self, runtime: Runtime) -> ObjectStore | None:
        """The store of the log, where it is another one."""
        return self._opened(self.wal_url, runtime) if self.wal_url else None

    def _opened(self, url: str, runtime: Runtime) -> ObjectStore:
        from slate_engine.store.open import open_store

        return open_store(url, {**self.defaults, **own_options(self.url), **self.store_options}, runtime=runtime)


@dataclass(frozen=True)
class ReadOptions:
    """What a read wants."""

    location: Location
    checkpoint: str
    """An id or a name; empty for the present state."""
    since: str
    until: str
    """The two checkpoints of a diff; ``since`` is empty for a plain read."""
    lifetime_ms: int
    columns: tuple[str, ...]
    """Empty for all."""
    formats: Mapping[str, str]
    """How ``key`` and ``value`` are decoded."""
    schemas: Mapping[str, str]
    ranges: Ranges
    """The stored keys to read."""
    nulls: bool
    """Whether what does not decode becomes null, instead of ending the read."""
    merge_operator: str
    partition_bytes: int
    memory_bytes: int

    @staticmethod
    def of(options: Mapping[str, str]) -> ReadOptions:
        given = Given(options)
        given.check_known(*LOCATION, *READ)
        since, until = given.text("from"), given.text("to")
        if until and not since:
            raise InvalidError('a diff needs a beginning: give option("from", checkpoint) as well')
        if since and given.text("checkpoint"):
            raise InvalidError('give either "checkpoint" for a state, or "from" and "to" for what changed between two')
        memory = given.size("memoryBytes", 512 * MIB)
        if memory < 16 * MIB:
            raise InvalidError(f"memoryBytes must be at least 16m for a task to read anything, and is {memory}")
        formats = {name: given.text(f"{name}Format", "binary") for name in ("key", "value")}
        asked = {name: given.text(name) for name in KEYS if given.text(name)}
        return ReadOptions(
            location=Location.of(given),
            checkpoint=given.text("checkpoint") or _checkpoint_told(given),
            since=since,
            until=until,
            lifetime_ms=given.lifetime_ms("checkpointLifetime", "15min"),
            columns=tuple(name.strip() for name in given.text("columns").split(",") if name.strip()),
            formats=formats,
            schemas={name: given.text(f"{name}Schema") for name in ("key", "value")},
            ranges=ranges_of(asked, formats["key"], given.choice("keyEncoding", ENCODINGS, "text")),
            nulls=given.choice("malformed", ("fail", "null"), "fail") == "null",
            merge_operator=given.text("mergeOperator"),
            partition_bytes=given.size("partitionBytes", 128 * MIB),
            memory_bytes=memory,
        )


def _checkpoint_told(given: Given) -> str:
    """The checkpoint that the environment names, if the read is of the database that it names, and of one state."""
    return "" if any(given.text(name) for name in ("url", "path", "from")) else told().checkpoint


def imported(name: str, option: str) -> Any:
    """The object ``module:name`` that an option names. It has to be importable on every executor."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidError(
            f"option {option} names {name!r}, which cannot be imported here ({error}): write it as package.module:name, and "
            "ship the module to executors with --py-files or in their image"
        ) from None
    return found
