"""Settings against the wheel's: the same JSON after the same changes, and the same refusals."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from typing import Any

import pytest
import slatedb.uniffi as wheel
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.api.configuration import CompactorSettings, DbSettings
from slate_engine.api.enums import CompressionCodec, MetricLevel, PreloadLevel
from slate_engine.api.schema import keys_of
from slate_engine.api.settings import Settings
from slate_engine.errors import InvalidError

DEFAULT = json.loads(wheel.Settings.default().to_json_string())
KEYS = sorted(set(keys_of(DbSettings)) - {"max_parallel_writes"})

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 7, 4096, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 1.0, 1.5, -0.0, 1e300]),
    st.sampled_from(
        ["", "1s", "250ms", "1m+5", "5", "1x", "Zstd", "Snappy", "zstd", "Debug", "info", "L0Sst", "AllSst", "/a"]
    ),
    st.sampled_from([{}, [], {"a": "b"}, {"a": 1}]),
)
CHANGES = st.tuples(st.sampled_from([*KEYS, "nope", "compactor_options.nope", "a.b.c", "", ".", "a..b", "a."]), SCALARS)


def wedges_the_wheel(key: str, value: Any) -> bool:
    """After this the wheel refuses every further change; ours goes on (test_a_cleared_scan_interval_... below)."""
    return key == "object_store_cache_options.scan_interval" and value is None


def outcome(settings: Any, errors: Any, key: str, value: str) -> str:
    """What a change leads to: the JSON afterwards, or the class of the error."""
    try:
        settings.set(key, value)
    except errors as error:
        return str(type(error).__name__)
    return json.dumps(json.loads(settings.to_json_string()), sort_keys=True)


def compare(changes: list[tuple[str, Any]]) -> None:
    mine, theirs = Settings.default(), wheel.Settings.default()
    for key, value in changes:
        if wedges_the_wheel(key, value):
            continue
        text = json.dumps(value)
        expected = outcome(theirs, wheel.Error.Invalid, key, text).replace("Invalid", "InvalidError")
        assert outcome(mine, InvalidError, key, text) == expected, (key, text)


def test_the_defaults_are_equal_to_the_letter() -> None:
    assert Settings.default().to_json_string() == wheel.Settings.default().to_json_string()


@given(st.lists(CHANGES, min_size=1, max_size=12))
def test_changes_lead_to_the_same_settings(changes: list[tuple[str, Any]]) -> None:
    compare(changes)


@pytest.mark.long
@given(st.lists(CHANGES, min_size=1, max_size=30))
def test_changes_lead_to_the_same_settings_at_length(changes: list[tuple[str, Any]]) -> None:
    compare(changes)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_takes_and_refuses_what_the_wheel_does(key: str) -> None:
    values = [None, True, 0, 5, -1, 2**32, 2**64, 1.0, "", "9s", "Zstd", "debug", "AllSst", "/a", {}, [], {"a": "b"}]
    for value in values:
        compare([(key, value)])


def paths(tree: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in tree.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += paths(value, (*above, key))
    return found


@pytest.mark.parametrize("path", paths(DEFAULT), ids=".".join)
def test_a_missing_key_means_what_it_means_to_the_wheel(path: tuple[str, ...]) -> None:
    tree = copy.deepcopy(DEFAULT)
    table = tree
    for key in path[:-1]:
        table = table[key]
    del table[path[-1]]
    text = json.dumps(tree)
    try:
        expected = json.loads(wheel.Settings.from_json_string(text).to_json_string())
    except wheel.Error.Invalid:
        if path[-1] == "scan_interval":
            Settings.from_json_string(text)
            return
        with pytest.raises(InvalidError, match=rf"missing field {'.'.join(path)}"):
            Settings.from_json_string(text)
    else:
        assert json.loads(Settings.from_json_string(text).to_json_string()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "1",
        '{"a":1',
        "NaN",
        json.dumps(DEFAULT)[:-1] + ',"wal_enabled":false}',
        json.dumps(DEFAULT).replace("1000", "-0", 1),
        json.dumps(DEFAULT).replace("1000", "1e400", 1),
        "[" * 100_000,
    ],
    ids=lambda text: text[-20:],
)
def test_json_that_says_no_settings_is_refused(text: str) -> None:
    with pytest.raises(wheel.Error.Invalid):
        wheel.Settings.from_json_string(text)
    with pytest.raises(InvalidError):
        Settings.from_json_string(text)


@pytest.mark.parametrize(
    "text", ["not json", "", '"1s" x', "NaN", "Infinity", "1e400", "{'a': 1}", '"\n"', r'"\ud800"']
)
def test_a_value_that_is_not_json_is_refused(text: str) -> None:
    mine, theirs = Settings.default(), wheel.Settings.default()
    for key in ("flush_interval", "nope"):
        with pytest.raises(wheel.Error.Invalid):
            theirs.set(key, text)
        with pytest.raises(InvalidError, match="value_json is not valid JSON"):
            mine.set(key, text)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("flush_interval", "250", r"flush_interval: expected a duration as text, like '250ms', not 250"),
        ("wal_enabled", '"off"', r"wal_enabled: expected true or false, not 'off'"),
        ("min_filter_keys", "4294967296", r"min_filter_keys: expected a whole number from 0 to 4294967295"),
        ("compression_codec", '"zstd"', r"expected one of Snappy, Zlib, Lz4, Zstd, not 'zstd'"),
        ("compactor_options.worker.max_sst_size", "null", r"compactor_options\.worker\.max_sst_size: .*not null"),
        ("compactor_options", "{}", r"missing field compactor_options\.poll_interval; start from Settings\.default"),
        ("flush_interval.x", "1", r"'flush_interval' in 'flush_interval\.x' is a value"),
        ("a..b", "1", r"'a\.\.b' is empty or has an empty part"),
    ],
)
def test_a_refusal_names_the_key_and_what_was_expected(key: str, value: str, complaint: str) -> None:
    settings = Settings.default()
    with pytest.raises(InvalidError, match=complaint):
        settings.set(key, value)
    assert settings.values == DbSettings()


def test_an_unknown_key_is_ignored_with_a_warning_that_helps(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings.default()
    with caplog.at_level(logging.WARNING, logger="slate_engine"):
        settings.set("compactor_options.pol_interval", '"1s"')
    assert settings.values == DbSettings()
    assert "did you mean 'compactor_options.poll_interval'?" in caplog.text


def test_wrong_types_are_type_errors_as_in_the_wheel() -> None:
    for settings in (Settings.default(), wheel.Settings.default()):
        for arguments in ((1, "1"), ("a", 1), ("a", None)):
            with pytest.raises(TypeError):
                settings.set(*arguments)
    for cls in (Settings, wheel.Settings):
        with pytest.raises(ValueError, match="no default constructor"):
            cls()
        with pytest.raises(TypeError):
            cls.from_json_string(b"{}")


def test_a_cleared_scan_interval_does_not_wedge_the_settings() -> None:
    settings = Settings.default()
    settings.set("object_store_cache_options.scan_interval", "null")
    settings.set("l0_max_ssts", "9")
    assert "scan_interval" not in settings.to_json_string()
    assert Settings.from_json_string(settings.to_json_string()).values == settings.values


def test_the_typed_view() -> None:
    settings = Settings.default()
    for key, value in {
        "flush_interval": '"1s+5ms"',
        "compression_codec": '"Zstd"',
        "metric_level": '"debug"',
        "object_store_cache_options.preload_disk_cache_on_startup": '"AllSst"',
        "compactor_options.scheduler_options.min_compaction_sources": '"3"',
        "compactor_options.worker": "null",
        "garbage_collector_options": "null",
        "default_ttl_millis": "42",
    }.items():
        settings.set(key, value)
    values = settings.values
    assert values.flush_interval_ms == 1_005
    assert values.compression_codec is CompressionCodec.ZSTD
    assert values.metric_level is MetricLevel.DEBUG
    assert values.object_store_cache_options.preload_disk_cache_on_startup is PreloadLevel.ALL_SST
    assert values.compactor_options == CompactorSettings(scheduler_options={"min_compaction_sources": "3"}, worker=None)
    assert values.garbage_collector_options is None
    assert values.default_ttl_millis == 42
    with pytest.raises(AttributeError):
        values.l0_max_ssts = 3  # type: ignore[misc]


def test_a_view_once_taken_does_not_change() -> None:
    settings = Settings.default()
    before = settings.values
    settings.set("compactor_options.scheduler_options.a", '"b"')
    assert before == DbSettings()
    assert settings.values != before


def test_our_own_keys_show_only_when_set() -> None:
    settings = Settings.default()
    settings.set("max_parallel_writes", "4")
    assert settings.values.max_parallel_writes == 4
    assert wheel.Settings.from_json_string(settings.to_json_string()).to_json_string() == json.dumps(
        DEFAULT, separators=(",", ":")
    )
    settings.set("max_parallel_writes", "null")
    assert settings.to_json_string() == wheel.Settings.default().to_json_string()


def test_settings_travel() -> None:
    settings = Settings.default()
    settings.set("l0_max_ssts", "9")
    for again in (pickle.loads(pickle.dumps(settings)), copy.deepcopy(settings)):
        assert again.values == settings.values
        again.set("l0_max_ssts", "10")
    assert settings.values.l0_max_ssts == 9


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("l0_flush_parallelism", "0"),
        ("max_wal_flushes_before_l0_flush", "4095"),
        ("max_unflushed_bytes", "67108864"),
        ("max_parallel_writes", "0"),
    ],
)
def test_settings_that_would_stand_still_are_refused_at_the_end(key: str, value: str) -> None:
    DbSettings().check()
    settings = Settings.default()
    settings.set(key, value)
    with pytest.raises(InvalidError, match=key):
        settings.values.check()
