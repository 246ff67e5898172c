"""Whose a database is: of all who claim it, one gets it."""

from __future__ import annotations

import asyncio

import pytest

from slate_engine.admin.destroying import destroy_hard, destroy_softly, undelete
from slate_engine.admin.ownership import DatabaseExists, OwnedByAnother, Owner, claim, owner_of, release
from slate_engine.errors import CorruptData
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import NotDestroyed
from slate_engine.state.tombstone import Destroyed
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.test_cloning import beside, parent
from tests.unit.admin.workshop import names

ONE = Owner("1", "shop", "orders")
TWO = Owner("2", "shop", "others")
AGAIN = Owner("3", "shop", "orders")


def test_one_owner_at_a_time() -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        files = (await parent(runtime)).files
        assert await owner_of(files) is None
        assert await claim(files, ONE, "database") == ONE
        assert await claim(files, ONE, "empty") == ONE, "what is there is his own by now"
        with pytest.raises(OwnedByAnother, match="shop/orders") as refused:
            await claim(files, TWO, "database")
        assert refused.value.owner == ONE
        await release(files, TWO.uid)
        with pytest.raises(OwnedByAnother):
            await claim(files, TWO, "database")
        await release(files, ONE.uid)
        assert await claim(files, TWO, "database") == TWO
        with pytest.raises(OwnedByAnother):
            await claim(files, ONE, "database")

    simulate(scene, 1)


def test_an_owner_who_is_gone_is_replaced_by_name_only() -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        files = (await parent(runtime)).files
        await claim(files, ONE, "database")
        with pytest.raises(OwnedByAnother):
            await claim(files, TWO, "database", instead_of="somebody else")
        assert await claim(files, TWO, "database", instead_of=ONE.uid) == TWO

    simulate(scene, 1)


def test_what_is_expected_has_to_be_there() -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        with pytest.raises(DatabaseExists, match="adopt"):
            await claim(db.files, ONE, "empty")
        with pytest.raises(NotDestroyed):
            await claim(db.files, ONE, "destroyed")
        nowhere = beside(db, "elsewhere").files
        for expected in ("database", "destroyed"):
            with pytest.raises(NothingStored, match="is the path right"):
                await claim(nowhere, ONE, expected)
        assert await owner_of(nowhere) is None
        await destroy_softly(db.files)
        for expected in ("empty", "database"):
            with pytest.raises(Destroyed, match="undeleted"):
                await claim(db.files, ONE, expected)
        assert await claim(db.files, ONE, "destroyed") == ONE
        await undelete(db.files)
        assert await claim(db.files, ONE, "destroyed") == ONE

    simulate(scene, 1)


def test_who_gave_it_back_may_have_it_again() -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await claim(db.files, ONE, "database")
        await release(db.files, ONE.uid)
        with pytest.raises(DatabaseExists):
            await claim(db.files, TWO, "empty")
        assert await claim(db.files, AGAIN, "empty") == AGAIN
        await release(db.files, AGAIN.uid)
        await destroy_softly(db.files)
        with pytest.raises(Destroyed):
            await claim(db.files, Owner("4", "shop", "orders"), "empty")

    simulate(scene, 1)


def test_of_many_at_once_one_gets_it() -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        claims = [claim(db.files, Owner(str(number), "shop", f"db{number}"), "database") for number in range(20)]
        found = await asyncio.gather(*claims, return_exceptions=True)
        owners = [each for each in found if isinstance(each, Owner)]
        assert len(owners) == 1
        assert all(isinstance(each, OwnedByAnother) for each in found if each is not owners[0])
        assert await owner_of(db.files) == owners[0]

    simulate(scene, 1)


def test_the_mark_goes_with_the_database() -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await claim(db.files, ONE, "database")
        await destroy_hard(db.files)
        assert await names(db.store, "parent/") == []

    simulate(scene, 1)


@pytest.mark.parametrize("bytes_of_it", [b"", b"[]", b"nonsense", b'{"uid": "1"}'])
def test_a_mark_that_cannot_be_read_is_told(bytes_of_it: bytes) -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await db.store.put(db.files.paths.under("gc/owner.json"), bytes_of_it)
        with pytest.raises(CorruptData, match=r"owner\.json"):
            await claim(db.files, ONE, "database")

    simulate(scene, 1)
