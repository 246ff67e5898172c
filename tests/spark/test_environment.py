"""What the environment of a process says of the database, and what stays in that process."""

from __future__ import annotations

import pickle
from pathlib import Path
from uuid import UUID

import pytest

from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.holding import Wanted
from slate_engine.spark.jobs.settings import DATABASE, parse
from slate_engine.spark.load.options import LoadOptions
from slate_engine.spark.options import Location, ReadOptions
from slate_engine.store.two_phase import TwoPhaseStore

TOLD = {
    "SLATE_STORE": "s3://told",
    "SLATE_PATH": "/orders/",
    "SLATE_STORE__OPTIONS": '{"region": "eu", "endpoint": "https://s3"}',
    "SLATE_CHECKPOINT": "monday",
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_read_without_options_is_of_what_the_environment_names(told: pytest.MonkeyPatch) -> None:
    wanted = ReadOptions.of({})
    assert (wanted.location.url, wanted.location.path, wanted.checkpoint) == ("s3://told", "orders", "monday")
    assert wanted.location.options == {"region": "eu", "endpoint": "https://s3"}
    assert LoadOptions.of({})[0] == wanted.location
    told.setenv("SLATE_STORE__OPTIONS", '{"allow_http": true, "retry_attempts": 3}')
    assert ReadOptions.of({}).location.options == {"allow_http": "true", "retry_attempts": "3"}
    told.setenv("SLATE_STORE__WAL_URL", "s3://log")
    assert ReadOptions.of({}).location.wal_url == "s3://log"


def test_an_option_given_always_wins(told: pytest.MonkeyPatch) -> None:
    assert ReadOptions.of({"checkpoint": "tuesday", "store.region": "us"}).checkpoint == "tuesday"
    assert ReadOptions.of({"store.region": "us"}).location.options == {"region": "us", "endpoint": "https://s3"}
    other = ReadOptions.of({"url": "s3://other", "path": "db"})
    assert (other.location.path, other.checkpoint, other.location.options) == ("db", "", {})
    neighbour = ReadOptions.of({"path": "db"})
    assert (neighbour.location.url, neighbour.location.path, neighbour.checkpoint) == ("s3://told", "db", "")
    assert ReadOptions.of({"from": "a"}).checkpoint == ""


def test_a_job_needs_no_url_where_the_environment_has_one(told: pytest.MonkeyPatch) -> None:
    found = parse("job", "", DATABASE, ["--option", "region=us"])
    assert found.location == ReadOptions.of({"store.region": "us"}).location
    assert found.source_options == {"store.region": "us"}
    with pytest.raises(InvalidError, match="--path is missing"):
        parse("job", "", DATABASE, ["--url", "s3://other"])
    told.delenv("SLATE_STORE")
    with pytest.raises(InvalidError, match="--url is missing"):
        parse("job", "", DATABASE, [])


@pytest.mark.parametrize("text", ["[1]", '{"a": [1]}', '{"secret": "hush-hush"'])
def test_options_that_are_none(told: pytest.MonkeyPatch, text: str) -> None:
    told.setenv("SLATE_STORE__OPTIONS", text)
    with pytest.raises(InvalidError, match="must be a JSON object of values") as raised:
        ReadOptions.of({})
    assert "hush" not in str(raised.value)


def test_a_secret_option_is_read_by_each_process_and_never_leaves_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = (tmp_path / "store").as_uri()
    monkeypatch.setenv("SLATE_STORE", url)
    monkeypatch.setenv("SLATE_STORE__OPTIONS__CAS", f"sqlite:///{tmp_path}/hush-hush.db")
    location = ReadOptions.of({"path": "db"}).location
    assert isinstance(location.open(SystemRuntime()), TwoPhaseStore)
    wanted = Wanted(UUID(int=1), location, 1)
    for made in (pickle.dumps(location), wanted.line(), repr(location).encode()):
        assert b"hush-hush" not in made
    assert Wanted.of_line(wanted.line()).location == location
    # The same store, named by an option; another one has nothing to do with it.
    assert isinstance(Location(url + "/", "db").open(SystemRuntime()), TwoPhaseStore)
    assert not isinstance(Location((tmp_path / "other").as_uri(), "db").open(SystemRuntime()), TwoPhaseStore)
    monkeypatch.delenv("SLATE_STORE")
    assert isinstance(Location(url, "db").open(SystemRuntime()), TwoPhaseStore)


def test_of_an_option_the_nearest_word_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given in the program, then of this process, then of the driver's environment."""
    monkeypatch.setenv("SLATE_STORE__OPTIONS__RETRY_ATTEMPTS", "none")
    location = Location("s3://bucket", "db", defaults={"retry_attempts": "7"})
    with pytest.raises(InvalidError, match="retry_attempts must be a number"):
        location.open(SystemRuntime())
    Location("s3://bucket", "db", store_options={"retry_attempts": "3"}).open(SystemRuntime())
