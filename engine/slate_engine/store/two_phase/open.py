"""From a url to a transactional store. The client libraries are optional, and imported only when their url is used."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.two_phase.settled import Settled
from slate_engine.store.two_phase.transactions import TransactionStore


def open_transactions(url: str, runtime: Runtime) -> TransactionStore:
    """The transactional store at ``url``; its table is made at first use.

    * ``sqlite:///relative/path`` or ``sqlite:////absolute/path``: a file that all processes of one machine share
    * ``mysql://user:password@host/database`` (``mariadb://`` too), ``postgresql://user:password@host/database``:
      the primary, never a replica; ``?table=`` names the table, everything else after ``?`` goes to the driver
    * ``dynamodb://table?region=…&endpoint=…&create=true``: credentials come from the usual AWS sources

    Calls whose answer was lost are tried again and settled, see :class:`~slate_engine.store.two_phase.settled.Settled`.
    """
    scheme = urlsplit(url).scheme
    if scheme in ("sqlite", "mysql", "mariadb", "postgresql", "postgres"):
        return Settled(_open_sql(url, runtime), runtime)
    if scheme == "dynamodb":
        return Settled(_open_dynamodb(url, runtime), runtime)
    raise InvalidError(
        f"{scheme or 'an empty scheme'!r} is not a transactional store; use sqlite:///path, mysql://, postgresql:// or "
        "dynamodb://table"
    )


def _open_sql(url: str, runtime: Runtime) -> TransactionStore:
    try:
        from slate_engine.store.two_phase.sql import SqlTransactions

        return SqlTransactions(url, runtime)
    except ImportError as missing:
        raise _not_installed(missing, "sql") from missing


def _open_dynamodb(url: str, runtime: Runtime) -> TransactionStore:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - {"region", "endpoint", "create"})
    if unknown or not parts.netloc or parts.path not in ("", "/") or "@" in parts.netloc:
        what = f"does not know the option {unknown[0]}" if unknown else "names no table, or more than a table"
        raise InvalidError(f"the dynamodb url {what}; write dynamodb://table?region=…&endpoint=…&create=true")
    try:
        from slate_engine.store.two_phase.dynamodb import DynamoTransactions
    except ImportError as missing:
        raise _not_installed(missing, "dynamodb") from missing
    return DynamoTransactions(
        parts.netloc,
        runtime,
        region=options.get("region"),
        endpoint=options.get("endpoint"),
        create=options.get("create", "").lower() in ("true", "1", "yes"),
    )


def _not_installed(missing: ImportError, extra: str) -> InvalidError:
    return InvalidError(f"the Python package {missing.name} is needed here: pip install 'slatekeeper[{extra}]'")
