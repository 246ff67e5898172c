"""The configuration: what may be written, and what is shown of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from slate_engine.cli.main import app
from slate_engine.errors import InvalidError
from slate_engine.server.config import MASK, assignments, load, shown
from slate_engine.store.options import OPTIONS
from slate_engine.store.scrubbing import scrubbed


def test_no_secret_of_a_store_is_shown() -> None:
    """By any of its names; and of an option that nobody knows it cannot be told."""
    names = {name for option in OPTIONS if option.secret for name in (option.name, *option.variables)}
    names |= {"AZURE_STORAGE_CONNECTION_STRING", "fsspec.host", "something_new", "CAS"}
    told = shown(load(None, {}, {"store": {"options": dict.fromkeys(names, "hush")}}))
    assert "hush" not in told
    assert told.count(MASK) == len(names)


def test_what_is_no_secret_is_shown() -> None:
    options = {"region": "eu-1", "AWS_ENDPOINT_URL": "http://user:hush@store", "retry_attempts": "2"}
    told = shown(load(None, {}, {"store": {"url": "s3://bucket", "options": options}}))
    assert "region: eu-1" in told
    assert "http://***@store" in told
    assert "hush" not in told
    assert "url: s3://bucket" in told


def test_options_of_a_store_are_text_however_they_are_written() -> None:
    flags = assignments(
        ["store.options.retry_attempts=1", "store.options.allow_http=true", "store.options.timeout=2.5"]
    )
    assert load(None, {}, flags).store.options == {"retry_attempts": "1", "allow_http": "true", "timeout": "2.5"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_section_as_a_whole_and_in_part(order: int) -> None:
    wrong = {"SLATE_RESP": "foo", "SLATE_RESP__PORT": "1"}
    with pytest.raises(InvalidError, match="resp"):
        load(None, dict(list(wrong.items())[::order]), {})
    right = {"SLATE_RESP": "{host: localhost}", "SLATE_RESP__PORT": "1"}
    found = load(None, dict(list(right.items())[::order]), {}).resp
    assert (found.host, found.port) == ("localhost", 1)


@pytest.mark.parametrize(
    "text",
    [
        "AccountName=me;AccountKey=hush/hush==;EndpointSuffix=core",
        "postgresql://me:pa/hush@hush@db/table",
        "mysql://me:hush/hush@db",
        "password: 'two hush words'",
        'the password="hush hush',
        '{"connection_string": "AccountKey=hush hush"}',
        '{"private_key": "-----BEGIN\\nhush\\n"}',
    ],
)
def test_secrets_that_are_hard_to_see(text: str) -> None:
    assert "hush" not in scrubbed(text)


def test_what_is_no_secret_stays() -> None:
    for text in ("see https://host/path and write to me@host", "the key 'a' of table:b", "s3://bucket/a b@c"):
        assert scrubbed(text) == text


def test_a_mistake_in_the_file_is_told_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text('store:\n  options:\n    secret_access_key: "hush\n')
    told = CliRunner().invoke(app, ["serve", "writer", "--config", str(file)])
    assert told.exit_code == 1
    assert "cannot be read, line 4: found unexpected end of stream" in told.output
    assert "hush" not in told.output
