"""Log lines, for people or as JSON, and never with a secret in them."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

from slate_operator.settings import LogFormat

_SECRETS = re.compile(
    r"(?i)((?:secret|password|token|access_?key|credential|authorization|signature)[a-z_\-]*[\"']?\s*[=:]\s*[\"']?)"
    r"(?:bearer\s+)?[^\s\"'&,;]+"
)


def scrubbed(text: str) -> str:
    """``text`` without what looks like the value of a secret."""
    return _SECRETS.sub(r"\1***", text)


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
