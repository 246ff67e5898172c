"""Log records on their way to an application's callback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from slate_engine.api import logs
from slate_engine.api.enums import LogLevel
from slate_engine.api.logs import TRACE, LogCallback, LogRecord, init_logging
from slate_engine.errors import InvalidError

LOGGER = logging.getLogger("slate_engine")
INNER = logging.getLogger("slate_engine.lsm.flush")


class Collector(LogCallback):
    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def log(self, record: LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging is set up once in a process; each test here is to be the first."""
    monkeypatch.setattr(logs, "_installed", None)
    level, handlers = LOGGER.level, LOGGER.handlers.copy()
    yield
    LOGGER.setLevel(level)
    LOGGER.handlers[:] = handlers


def test_records_reach_the_callback() -> None:
    collector = Collector()
    init_logging(LogLevel.INFO, collector)
    INNER.info("opened %s", "db")
    INNER.debug("not this")
    logging.getLogger("another").warning("nor this")
    (record,) = collector.records
    assert (record.level, record.target, record.message) == (LogLevel.INFO, "slate_engine.lsm.flush", "opened db")
    assert record.module_path == "slate_engine.lsm.flush"
    assert record.file == __file__
    assert record.line is not None
    assert record.line > 0


def test_an_exception_comes_with_its_traceback() -> None:
    collector = Collector()
    init_logging(LogLevel.ERROR, collector)
    try:
        raise KeyError("lost")
    except KeyError:
        INNER.exception("failed")
    assert collector.records[0].message.startswith("failed\nTraceback")
    assert "KeyError: 'lost'" in collector.records[0].message


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (LogLevel.OFF, ""),
        (LogLevel.ERROR, "EC"),
        (LogLevel.WARN, "WEC"),
        (LogLevel.INFO, "IWEC"),
        (LogLevel.DEBUG, "DIWEC"),
        (LogLevel.TRACE, "TDIWEC"),
    ],
)
def test_each_level_includes_the_graver_ones(level: LogLevel, expected: str) -> None:
    collector = Collector()
    init_logging(level, collector)
    for number, letter in ((TRACE, "T"), (10, "D"), (20, "I"), (30, "W"), (40, "E"), (50, "C")):
        INNER.log(number, letter)
    assert "".join(record.message for record in collector.records) == expected
    names = {"T": "TRACE", "D": "DEBUG", "I": "INFO", "W": "WARN", "E": "ERROR", "C": "ERROR"}
    assert [record.level.name for record in collector.records] == [names[letter] for letter in expected]


def test_a_second_call_is_refused_in_the_wheels_words() -> None:
    collector = Collector()
    init_logging(LogLevel.INFO, collector)
    for callback in (collector, None):
        with pytest.raises(InvalidError) as caught:
            init_logging(LogLevel.TRACE, callback)
        assert caught.value.message == "logging already initialized"
    INNER.debug("still at INFO")
    assert collector.records == []


@pytest.mark.parametrize(
    ("level", "callback", "refusal"),
    [
        (3, None, ValueError),
        ("INFO", None, ValueError),
        (LogLevel.INFO, object(), TypeError),
        (LogLevel.INFO, print, TypeError),
    ],
)
def test_wrong_arguments_are_refused_as_by_the_wheel(level: Any, callback: Any, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        init_logging(level, callback)
    init_logging(LogLevel.INFO, Collector())


def test_without_a_callback_records_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    init_logging(LogLevel.WARN, None)
    INNER.warning("look here")
    INNER.info("not here")
    printed = capsys.readouterr().err
    assert "WARNING slate_engine.lsm.flush: look here" in printed
    assert "not here" not in printed


def test_a_callback_that_fails_does_not_fail_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(LogCallback):
        def log(self, record: LogRecord) -> None:
            raise RuntimeError("callback is broken")

    init_logging(LogLevel.INFO, Broken())
    INNER.info("the write goes on")
    assert "callback is broken" in capsys.readouterr().err
