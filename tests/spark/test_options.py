from __future__ import annotations

import pickle

import pytest

from slate_engine.errors import InvalidError
from slate_engine.spark.options import MIB, Given, Location, ReadOptions, imported

HERE = {"url": "s3://bucket", "path": "/db/"}


def test_what_is_not_given_has_a_default() -> None:
    wanted = ReadOptions.of(HERE)
    assert (wanted.location.url, wanted.location.path) == ("s3://bucket", "db")
    assert wanted.partition_bytes == 128 * MIB
    assert wanted.lifetime_ms == 15 * 60 * 1000
    assert wanted.formats == {"key": "binary", "value": "binary"}
    assert wanted.columns == ()


def test_names_in_any_case_and_sizes_as_people_write_them() -> None:
    wanted = ReadOptions.of({**HERE, "PARTITIONBYTES": "64m", "memorybytes": "1G", "Columns": "key, seq"})
    assert (wanted.partition_bytes, wanted.memory_bytes) == (64 * MIB, 1024 * MIB)
    assert wanted.columns == ("key", "seq")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "which store"),
        ({**HERE, "partitonBytes": "1m"}, "there is no option 'partitonbytes'"),
        ({**HERE, "partitionBytes": "many"}, 'a size such as "128m"'),
        ({**HERE, "partitionBytes": "0"}, 'a size such as "128m"'),
        ({**HERE, "memoryBytes": "1m"}, "at least 16m"),
        ({**HERE, "malformed": "ignore"}, "must be one of fail, null"),
        ({**HERE, "checkpointLifetime": "soon"}, "is not a span of time"),
    ],
)
def test_mistakes_say_what_to_write(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        ReadOptions.of(options)


def test_credentials_by_the_names_that_hadoop_gives_them() -> None:
    options = {
        **HERE,
        "fs.s3a.access.key": "AKIA1234",
        "fs.s3a.secret.key": "hush-hush",
        "fs.s3a.endpoint": "127.0.0.1:9000",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "store.retry_attempts": "3",
    }
    location = ReadOptions.of(options).location
    assert location.store_options == {
        "access_key_id": "AKIA1234",
        "secret_access_key": "hush-hush",
        "endpoint": "http://127.0.0.1:9000",
        "virtual_hosted_style": "false",
        "allow_http": "true",
        "retry_attempts": "3",
    }


def test_a_secret_is_never_shown_but_reaches_executors() -> None:
    wanted = ReadOptions.of({**HERE, "fs.s3a.secret.key": "hush-hush", "store.access_key_id": "AKIA1234"})
    for thing in (wanted, wanted.location):
        assert "hush-hush" not in repr(thing)
        assert "AKIA1234" not in str(thing)
    arrived: Location = pickle.loads(pickle.dumps(wanted)).location
    assert arrived.store_options["secret_access_key"] == "hush-hush"


def test_a_misspelt_option_of_hadoop_is_refused_by_the_store_not_ignored() -> None:
    with pytest.raises(InvalidError, match=r"there is no option 'fs.s3a.acess.key'"):
        ReadOptions.of({**HERE, "fs.s3a.acess.key": "x"})


def test_functions_by_name() -> None:
    assert imported("json:dumps", "valueFormat")({}) == "{}"
    for name in ("no_such_module:f", "json:nope", "json"):
        with pytest.raises(InvalidError, match=r"valueFormat names .* cannot be imported"):
            imported(name, "valueFormat")


def test_a_choice_is_read_in_any_case() -> None:
    assert Given({"malformed": "NULL"}).choice("malformed", ("fail", "null"), "fail") == "null"
