"""The command and the original on one database: each goes on with what the other did."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import slatedb.uniffi as u
from typer.testing import Result

from slate_engine.format.key_range import ALL
from tests.interop.original import Original
from tests.interop.style import Style
from tests.unit.cli.conftest import Slate, done, facts


@pytest.fixture
def them(tmp_path: Path) -> Original:
    (tmp_path / "store").mkdir()
    return Original(tmp_path / "store", Style())


async def put(them: Original, path: str, key: bytes, value: bytes) -> None:
    async with them.writer(path) as db:
        await (await db.put(key, value)).await_durable()


async def get(them: Original, path: str, key: bytes) -> bytes | None:
    reader = await u.DbReaderBuilder(path, them.store).build()
    try:
        return await reader.get(key)  # type: ignore[no-any-return]
    finally:
        await reader.shutdown()


def test_they_go_on_with_what_the_command_did(slate: Slate, them: Original) -> None:
    do = asyncio.run
    do(put(them, "db", b"k", b"theirs"))
    assert slate("get", "k").stdout == "theirs\n"
    assert slate("put", "k", "ours").exit_code == 1, "somebody may be writing it"
    done(slate("create-checkpoint", "-n", "then", "--with-log"))
    done(slate("put", "--takeover", "k", "ours"))
    assert do(get(them, "db", b"k")) == b"ours"

    done(slate("create-clone", "--from", "db@then", path="clone"))
    assert do(get(them, "clone", b"k")) == b"theirs"
    done(slate("copy", "copied"))
    do(put(them, "copied", b"k", b"again"))
    assert slate("get", "k", path="copied").stdout == "again\n"

    done(slate("restore", "then", "--yes"))
    assert do(get(them, "db", b"k")) == b"theirs"
    done(slate("destroy", "--yes"))
    with pytest.raises(u.Error):
        do(get(them, "db", b"k"))
    done(slate("undelete"))
    do(put(them, "db", b"k", b"after all"))
    done(slate("gc", "--min-age", "0s"))
    assert do(get(them, "db", b"k")) == b"after all"
    assert "sound" in done(slate("verify")).stdout


def test_the_command_sees_their_checkpoints_and_clones(slate: Slate, them: Original) -> None:
    asyncio.run(put(them, "db", b"k", b"theirs"))
    asyncio.run(them.settle("db"))
    kept = asyncio.run(them.create_checkpoint("db"))
    asyncio.run(them.clone([("db", kept, ALL)], "theirs"))

    def holders(result: Result) -> list[str | None]:
        return [each["clone"] for each in facts(result)["holders"]]

    assert "theirs" not in holders(slate("--output", "json", "explain"))
    assert "theirs" in holders(slate("--output", "json", "explain", "--find-clones"))
    assert slate("get", "k", path="theirs").stdout == "theirs\n"
    assert "sound" in done(slate("verify", path="theirs")).stdout
    refused = slate("destroy", "--hard", "--yes")
    assert refused.exit_code == 1, "their clone needs it"
    done(slate("destroy", "--hard", "--yes", path="theirs"))
    done(slate("delete-checkpoint", "--id", kept))
    done(slate("destroy", "--hard", "--yes"))
