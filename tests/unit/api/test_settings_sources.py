"""Settings from files and from the environment, against the wheel's reading of them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as wheel
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.api.environment import parse_value
from slate_engine.api.settings import Settings
from slate_engine.errors import InvalidError


def outcome(load: Any, errors: Any) -> str:
    try:
        return json.dumps(json.loads(load().to_json_string()), sort_keys=True)
    except errors as error:
        return str(type(error).__name__).removesuffix("Error")


def compare(mine: Any, theirs: Any) -> None:
    assert outcome(mine, InvalidError) == outcome(theirs, wheel.Error.Invalid)


FILES = {
    "a.json": [
        '{"flush_interval":"1s"}',
        '{"flush_interval":"1s","x":1}',
        "",
        "[1]",
        '{"l0_max_ssts":1,"l0_max_ssts":2}',
        '{"compactor_options":null}',
        '{"compactor_options":{}}',
        '{"compactor_options":{"worker":null}}',
        '{"compactor_options":1}',
        '{"object_store_cache_options":null}',
        '{"metric_level":0}',
        '{"min_filter_keys":"5"}',
        '{"compactor_options":{"scheduler_options":{"a":"b"}}}',
        '{"compactor_options":{"scheduler_options":{"a":"b","c":5}}}',
        '{"garbage_collector_options":{"wal_options":{"min_age":"9s"}}}',
    ],
    "a.toml": [
        'flush_interval = "1s"\nmetric_level = "debug"\n[compactor_options]\npoll_interval = "9s"\n',
        "flush_interval = 1\n",
        "x =",
        "min_filter_keys = 1_000_0\n",
        "min_filter_keys = 10.0\n",
        'wal_enabled = "false"\n',
        "l0_max_ssts = 1\nl0_max_ssts = 2\n",
        "flush_interval = 2001-01-01\n",
    ],
    "a.yaml": [
        "flush_interval: 1s\nwal_enabled: false\n",
        "flush_interval: 5\n",
        "flush_interval: '5'\n",
        "flush_interval: !!str 5\n",
        "compactor_options: null\n",
        "compactor_options: ~\n",
        "compactor_options:\n",
        "wal_enabled: off\n",
        "wal_enabled: yes\n",
        "wal_enabled: True\n",
        "wal_enabled: FALSE\n",
        "wal_enabled: 1\n",
        "min_filter_keys: 0x10\n",
        "min_filter_keys: 0o10\n",
        "min_filter_keys: 010\n",
        "min_filter_keys: 1_000\n",
        "min_filter_keys: 1:30\n",
        "min_filter_keys: +5\n",
        "min_filter_keys: 5.0\n",
        "min_filter_keys: 1e3\n",
        "",
        "- 1\n",
        "a: b: c\n",
        "x: &a {min_age: 3s}\ngarbage_collector_options:\n  wal_options: *a\n",
        "garbage_collector_options:\n  wal_options:\n    <<: {min_age: 3s}\n",
        "l0_max_ssts: 3\nl0_max_ssts: 4\n",
        "---\nl0_max_ssts: 3\n---\nl0_max_ssts: 4\n",
    ],
    "a.yml": ["l0_max_ssts: 3\n"],
    "a": ["{}"],
    "a.txt": ["{}"],
    "a.JSON": ["{}"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FILES.items() for text in texts])
def test_files_say_what_they_say_to_the_wheel(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    compare(lambda: Settings.from_file(str(path)), lambda: wheel.Settings.from_file(str(path)))


def test_a_file_may_clear_an_optional_duration(tmp_path: Path) -> None:
    """The wheel takes this in JSON strings but not in files; there is no reason to follow it."""
    path = tmp_path / "a.yaml"
    path.write_text("flush_interval: null\n")
    assert Settings.from_file(str(path)).values.flush_interval_ms is None


def test_a_file_that_is_not_there_changes_nothing_and_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "none.toml")
    with caplog.at_level(logging.WARNING, logger="slate_engine"):
        compare(lambda: Settings.from_file(path), lambda: wheel.Settings.from_file(path))
    assert "no settings file at" in caplog.text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidError, match=r"cannot read settings from .*a\.toml"):
        Settings.from_file(str(path))
    with pytest.raises(wheel.Error.Invalid):
        wheel.Settings.from_file(str(path))


def test_a_relative_path_is_also_looked_for_in_the_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "up.toml").write_text("l0_max_ssts = 3\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    compare(lambda: Settings.from_file("up.toml"), lambda: wheel.Settings.from_file("up.toml"))
    assert Settings.from_file("up.toml").values.l0_max_ssts == 3


VARIABLES: list[dict[str, str]] = [
    {"SDB_FLUSH_INTERVAL": "1s"},
    {"sdb_flush_interval": "2s"},
    {"SDB_FLUSH_INTERVAL": "5"},
    {"SDB_FLUSH_INTERVAL": '"5"'},
    {"SDB_FLUSH_INTERVAL": "'5'"},
    {"SDB_FLUSH_INTERVAL": ""},
    {"SDB_FLUSH_INTERVAL": "null"},
    {"SDB_FLUSH_INTERVAL.X": "1"},
    {"SDB_WAL_ENABLED": "false"},
    {"SDB_WAL_ENABLED": "False"},
    {"SDB_WAL_ENABLED": "0"},
    {"SDB_MIN_FILTER_KEYS": " 7 "},
    {"SDB_MIN_FILTER_KEYS": "+7"},
    {"SDB_MIN_FILTER_KEYS": "-7"},
    {"SDB_MIN_FILTER_KEYS": "7.0"},
    {"SDB_MIN_FILTER_KEYS": "1e3"},
    {"SDB_COMPACTOR_OPTIONS.POLL_INTERVAL": "7s"},
    {"SDB_COMPACTOR_OPTIONS": "{poll_interval=7s}"},
    {"SDB_COMPACTOR_OPTIONS": '{ poll_interval = "7s", worker = {max_sst_size=9} }'},
    {"SDB_COMPACTOR_OPTIONS": '{"poll_interval"=7s,}'},
    {"SDB_COMPACTOR_OPTIONS": "{poll_interval=7s"},
    {"SDB_COMPACTOR_OPTIONS": ""},
    {"SDB_COMPACTOR_OPTIONS.WORKER": ""},
    {"SDB_COMPRESSION_CODEC": "Zstd"},
    {"SDB_OBJECT_STORE_CACHE_OPTIONS.ROOT_FOLDER": "/tmp/x,y"},
    {"SDB_OBJECT_STORE_CACHE_OPTIONS.ROOT_FOLDER": r'"a\tb\u00e9"'},
    {"SDB_OBJECT_STORE_CACHE_OPTIONS.ROOT_FOLDER": '"a'},
    {"SDB_OBJECT_STORE_CACHE_OPTIONS.ROOT_FOLDER": "1.2.3"},
    {"SDB_OBJECT_STORE_CACHE_OPTIONS.ROOT_FOLDER": "123"},
    {"SDB_NOPE": "1"},
    {"SDB_.X": "1"},
    {"SDB_DEFAULT_TTL_MILLIS": "18446744073709551615"},
    {"SDB_DEFAULT_TTL_MILLIS": "18446744073709551616"},
    {"SDB_COMPACTOR_OPTIONS.SCHEDULER_OPTIONS.Min_X": "abc"},
    {"SDB_COMPACTOR_OPTIONS.SCHEDULER_OPTIONS.min_compaction_sources": "4"},
    {"SDB_COMPACTOR_OPTIONS.SCHEDULER_OPTIONS.min_compaction_sources": '"4"'},
]


@pytest.mark.parametrize("variables", VARIABLES, ids=str)
@pytest.mark.parametrize("prefix", ["SDB_", "sdb_"])
def test_variables_say_what_they_say_to_the_wheel(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], prefix: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    compare(lambda: Settings.from_env(prefix), lambda: wheel.Settings.from_env(prefix))


def test_variables_change_what_one_starts_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDB_DEFAULT_TTL_MILLIS", "42")
    mine, theirs = Settings.default(), wheel.Settings.default()
    for settings in (mine, theirs):
        settings.set("flush_interval", '"250ms"')
    compare(
        lambda: Settings.from_env_with_default("SDB_", mine),
        lambda: wheel.Settings.from_env_with_default("SDB_", theirs),
    )
    assert mine.values.default_ttl_millis is None
    with pytest.raises(TypeError):
        Settings.from_env_with_default("SDB_", None)  # type: ignore[arg-type]


def test_load_reads_all_sources_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "SlateDb.json").write_text('{"l0_max_ssts": 1, "l0_max_ssts_per_key": 1, "min_filter_keys": 1}')
    (tmp_path / "SlateDb.toml").write_text("l0_max_ssts_per_key = 2\nmin_filter_keys = 2\nmax_unflushed_bytes = 2\n")
    (tmp_path / "SlateDb.yaml").write_text("min_filter_keys: 3\nmax_unflushed_bytes: 3\nl0_sst_size_bytes: 3\n")
    (tmp_path / "SlateDb.yml").write_text("max_unflushed_bytes: 4\nl0_sst_size_bytes: 4\nl0_flush_parallelism: 4\n")
    monkeypatch.setenv("SLATEDB_L0_SST_SIZE_BYTES", "5")
    compare(Settings.load, wheel.Settings.load)
    values = Settings.load().values
    assert (values.l0_max_ssts, values.l0_max_ssts_per_key, values.min_filter_keys) == (1, 2, 3)
    assert (values.max_unflushed_bytes, values.l0_sst_size_bytes, values.l0_flush_parallelism) == (4, 5, 4)


WORDS = st.text('ab1.,="\\ {}[]-+', max_size=10)


@given(WORDS)
def test_any_text_in_a_variable_is_read_as_the_wheel_reads_it(text: str) -> None:
    """Read through a table of texts, which shows text and refuses all else."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("SDB_COMPACTOR_OPTIONS.SCHEDULER_OPTIONS.X", text)
        compare(lambda: Settings.from_env("SDB_"), lambda: wheel.Settings.from_env("SDB_"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("-7", -7),
        ("1.5", 1.5),
        ("[1, two, [3.5]]", [1, "two", [3.5]]),
        ("{a=1, b={c=[]}}", {"a": 1, "b": {"c": []}}),
        ("[1", "[1"),
        ("a]", "a]"),
    ],
)
def test_values_of_variables(text: str, value: Any) -> None:
    assert parse_value(text) == value
