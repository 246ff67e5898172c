"""Logging: the engine logs to Python's logger ``slate_engine``; this hands the records to an application's callback."""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import dataclass

from slate_engine.api.enums import LogLevel
from slate_engine.api.shapes import Record
from slate_engine.errors import InvalidError

TRACE = 5
"""Below ``logging.DEBUG``: what happens with every request."""

_THRESHOLDS = {
    LogLevel.OFF: logging.CRITICAL + 1,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARN: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.TRACE: TRACE,
}
_lock = threading.Lock()
_installed: logging.Handler | None = None

logging.addLevelName(TRACE, "TRACE")


@dataclass(kw_only=True)
class LogRecord(Record):
    """One log record; ``target`` is the logger that it went to."""

    level: LogLevel
    target: str
    message: str
    module_path: str | None
    file: str | None
    line: int | None


class LogCallback:
    """To be implemented by an application that takes the log records itself. Called from any thread."""

    def log(self, record: LogRecord) -> None:
        raise NotImplementedError


def init_logging(level: LogLevel, callback: LogCallback | None) -> None:
    """Send log records of ``level`` and graver to ``callback``, or to standard error if there is none.

    Once in a process. A program that configures Python's ``logging`` itself needs no call of this: the logger
    ``slate_engine`` passes its records on to the root logger like any other, before and after.
    """
    global _installed
    if not isinstance(level, LogLevel):
        raise ValueError(f"level must be a LogLevel such as LogLevel.INFO, not {level!r}")
    if callback is not None and not isinstance(callback, LogCallback):
        raise TypeError(f"callback must be a LogCallback or None, not {type(callback).__name__!r}")
    with _lock:
        if _installed is not None:
            raise InvalidError("logging already initialized")
        _installed = _Forward(callback) if callback is not None else _standard_error()
        logger = logging.getLogger("slate_engine")
        logger.addHandler(_installed)
        logger.setLevel(_THRESHOLDS[level])


class _Forward(logging.Handler):
    def __init__(self, callback: LogCallback) -> None:
        super().__init__()
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._callback.log(
                LogRecord(
                    level=_level(record.levelno),
                    target=record.name,
                    message=self.format(record),
                    module_path=record.name,
                    file=record.pathname,
                    line=record.lineno,
                )
            )
        except Exception:
            # What fails in the application's callback must not fail the write that wanted to log.
            self.handleError(record)


def _level(number: int) -> LogLevel:
    for level in (LogLevel.ERROR, LogLevel.WARN, LogLevel.INFO, LogLevel.DEBUG):
        if number >= _THRESHOLDS[level]:
            return level
    return LogLevel.TRACE


def _standard_error() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)7s %(name)s: %(message)s"))
    return handler
