"""Log lines, for people or as JSON, and never with a secret in them."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

from slate_operator.settings import LogFormat

# Every run of characters has a bound: without one, a long word costs the square of its length.
_FIELD = (
    r"(?:secret|passw(?:or)?d|token|credential|authorization|signature|connection[_.\-]?string|\bsig(?=[\"']?\s{0,8}[=:])"
    r"|(?:access|account|api|private|shared)[_.\-]?(?:access[_.\-]?)?key)[\w.\-]{0,128}[\"']?\s{0,8}[=:]\s{0,8}"
)
_QUOTED = re.compile(rf"(?is)({_FIELD}b?)([\"'])(?:\\.|(?!\2).)*(\2|$)")
_PLAIN = re.compile(rf"(?i)({_FIELD})(?:bearer\s+|basic\s+)?[^\s\"'&,;]+")
_PASSWORD = re.compile(r"(\w[\w+.\-]{0,31}://)[^\s/@:\"']{0,256}:[^\s\"']{0,4096}@")
"""Of a url: it goes up to the last @, for it may have any character in it."""


def scrubbed(text: str) -> str:
    """``text`` without what looks like a secret: the value of a field of that name, or a password in a url."""
    text = _QUOTED.sub(r"\1\2***\3", text)
    return _PASSWORD.sub(r"\1***@", _PLAIN.sub(r"\1***", text))


class _Lines(logging.Formatter):
    def __init__(self, shape: LogFormat) -> None:
        super().__init__()
        self._shape = shape

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        level, message = record.levelname.lower(), scrubbed(record.getMessage())
        trace = scrubbed(self.formatException(record.exc_info)) if record.exc_info else None
        if self._shape == "human":
            return f"{at} {level:7} {record.name}: {message}" + (f"\n{trace}" if trace else "")
        fields = {"time": at, "level": level, "logger": record.name, "message": message}
        if trace:
            fields["trace"] = trace
        return json.dumps(fields, ensure_ascii=False)


def set_up(level: str, shape: LogFormat) -> None:
    """Send all logs of the process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(shape))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("aiohttp.access", "kopf", "kubernetes"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It runs in a thread of its own and warns that it cannot take the signals there, which is why it does.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
