"""Records in one table of a SQL database, through SQLAlchemy.

Every call is one statement in a transaction of its own, so the isolation level does not matter: the primary key makes the
insert atomic on every database, and ``UPDATE … WHERE version = …`` the compare-and-set. Reads must go to the primary.

All columns are plain ASCII: names percent-encoded, and compared by their bytes. Under MySQL's usual collation ``a.sst`` and
``A.SST`` would be one destination, and under PostgreSQL's a prefix would not be a range of keys. (Besides, aiomysql 0.3.2
cannot send binary parameters with PyMySQL 1.2.3 and later.)
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Executable,
    MetaData,
    PoolProxiedConnection,
    String,
    Table,
    Text,
    and_,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects.mysql import VARCHAR
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.two_phase.record import Record, State
from slate_engine.store.two_phase.sql_failure import explain

TABLE = "slatekeeper_writes"
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "mysql": "mysql+aiomysql",
    "mariadb": "mysql+aiomysql",
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
}
_CALL_SECONDS = 30.0
_PAGE = 500
_ASCII = VARCHAR(2048, charset="ascii", collation="ascii_bin")
_NAME = String(2048).with_variant(_ASCII, "mysql").with_variant(String(2048, collation="C"), "postgresql")
_PLAIN = "/:!$&'()*+,;=@#?[]"


class SqlTransactions:
    """One table of one database. Does each call once; see ``open_transactions`` for urls."""

    def __init__(self, url: str, runtime: Runtime) -> None:
        address, table = _parse(url)
        self._address = address
        self._runtime = runtime
        self._table = Table(
            table,
            MetaData(),
            Column("destination", _NAME, primary_key=True),
            Column("version", String(36), nullable=False),
            Column("state", String(16), nullable=False),
            Column("source", _NAME, nullable=False),
            Column("checksum", String(64), nullable=False),
            Column("size", BigInteger, nullable=False),
            Column("created_ms", BigInteger, nullable=False),
            Column("content", Text),
        )
        self._engine = _engine(address)
        self._ready = False
        self._preparing = asyncio.Lock()

    @property
    def url(self) -> str:
        here = self._address
        return URL.create(
            here.get_backend_name(), host=here.host, port=here.port, database=here.database
        ).render_as_string()

    def __repr__(self) -> str:
        return f"SqlTransactions({self.url!r})"

    async def put_if_absent(self, record: Record) -> Record | None:
        while True:
            try:
                await self._execute(insert(self._table).values(**_row(record)), write=True)
            except IntegrityError:
                standing = await self.get(record.destination)
                if standing is not None:
                    return standing
                # It was deleted between the two statements: the way is free.
            else:
                return None

    async def get(self, destination: str) -> Record | None:
        rows, _ = await self._execute(select(self._table).where(self._is(destination)))
        return _record(rows[0]) if rows else None

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        here = and_(self._is(record.destination), self._table.c.version == expected)
        _, changed = await self._execute(update(self._table).where(here).values(**_row(record)), write=True)
        return changed == 1

    async def list(self, prefix: str, *, committed: bool) -> AsyncIterator[list[Record]]:
        key, state = self._table.c.destination, self._table.c.state
        wanted = state == State.COMMITTED.value if committed else state != State.COMMITTED.value
        first = _encode(prefix)
        behind = f"{first}\x7f"  # greater than every name with this prefix
        within = key >= first
        while True:
            query = select(self._table).where(wanted, within, key < behind).order_by(key).limit(_PAGE)
            rows, _ = await self._execute(query)
            if not rows:
                return
            page = [_record(row) for row in rows]
            yield page
            within = key > _encode(page[-1].destination)

    async def delete(self, destinations: Iterable[str]) -> None:
        keys = [_encode(destination) for destination in destinations]
        for start in range(0, len(keys), _PAGE):
            some = self._table.c.destination.in_(keys[start : start + _PAGE])
            await self._execute(delete(self._table).where(some), write=True)

    async def delete_version(self, record: Record) -> bool:
        here = and_(self._is(record.destination), self._table.c.version == record.version)
        _, changed = await self._execute(delete(self._table).where(here), write=True)
        return changed == 1

    async def close(self) -> None:
        await self._engine.dispose()

    def _is(self, destination: str) -> ColumnElement[bool]:
        return self._table.c.destination == _encode(destination)

    async def _execute(self, statement: Executable, *, write: bool = False) -> tuple[Sequence[Any], int]:
        """Rows and the number of rows changed. Raises ``IntegrityError`` as it is, everything else as our own errors."""
        sent = False
        try:
            async with asyncio.timeout(_CALL_SECONDS), self._engine.connect() as connection:
                await self._prepare(connection)
                sent = True
                result = await connection.execute(statement)
                return (result.all(), 0) if result.returns_rows else ([], result.rowcount)
        except IntegrityError:
            raise
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            raise explain(error, self.url, secret=self._address.password, write=write and sent) from None
        except Exception as error:
            # Drivers raise classes of their own while they connect; a defect of ours has no business in here.
            if type(error).__module__.partition(".")[0] not in ("asyncpg", "aiomysql", "pymysql", "sqlite3"):
                raise
            raise explain(error, self.url, secret=self._address.password, write=write and sent) from None

    async def _prepare(self, connection: AsyncConnection) -> None:
        if self._ready:
            return
        async with self._preparing:
            if self._ready:
                return
            try:
                await connection.run_sync(self._table.metadata.create_all)
            except SQLAlchemyError:
                # Another process may have made the table at this very moment, or we may lack the right to make one
                # and somebody did it for us.
                if not await connection.run_sync(lambda sync: inspect(sync).has_table(self._table.name)):
                    raise
            self._ready = True


def _parse(url: str) -> tuple[URL, str]:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        raise InvalidError(
            "the url of the SQL database does not parse; write scheme://user:password@host/database"
        ) from None
    query = dict(address.query)
    table = query.pop("table", TABLE)
    if not isinstance(table, str) or not table.isidentifier():
        raise InvalidError("the option table of the SQL url has to be one plain name")
    name = address.get_backend_name()
    if name == "sqlite":
        if not address.database or address.database == ":memory:" or query.get("mode") == "memory":
            raise InvalidError("a transactional store has to be shared: give SQLite a file, sqlite:///path/to/file")
        if not Path(address.database).parent.is_dir():
            raise InvalidError(f"the folder of {address.database} does not exist; create it first")
    elif not address.database:
        raise InvalidError("the url of the SQL database names no database; write scheme://user:password@host/database")
    return address.set(drivername=_DRIVERS[name], query=query), table


def _engine(address: URL) -> AsyncEngine:
    common: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "hide_parameters": True}
    match address.get_backend_name():
        case "sqlite":
            # One connection: SQLite has one writer at a time, and waiting in our own queue is fairer than in its busy loop.
            common |= {"pool_size": 1, "max_overflow": 0, "connect_args": {"timeout": _CALL_SECONDS}}
            engine = create_async_engine(address, **common)
            event.listen(engine.sync_engine, "connect", _configure_sqlite)
            return engine
        case "mysql":
            common["connect_args"] = {"connect_timeout": 10}
        case "postgresql":
            common["connect_args"] = {"timeout": 10}
    return create_async_engine(address, pool_size=8, max_overflow=0, pool_pre_ping=True, **common)


def _configure_sqlite(connection: PoolProxiedConnection, _: object) -> None:
    cursor = connection.cursor()
    # Readers and the writer do not wait for each other, and what was answered survives a power failure.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _encode(name: str) -> str:
    return quote(name, safe=_PLAIN)


def _row(record: Record) -> dict[str, object]:
    return {
        "destination": _encode(record.destination),
        "version": record.version,
        "state": record.state.value,
        "source": _encode(record.source),
        "checksum": record.checksum,
        "size": record.size,
        "created_ms": record.created_ms,
        "content": None if record.content is None else b64encode(record.content).decode(),
    }


def _record(row: Any) -> Record:
    return Record(
        destination=unquote(row.destination),
        version=row.version,
        state=State(row.state),
        source=unquote(row.source),
        checksum=row.checksum,
        size=row.size,
        created_ms=row.created_ms,
        content=None if row.content is None else b64decode(row.content),
    )
