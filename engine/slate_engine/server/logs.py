"""Log lines, for people or as JSON, and never with a secret in them."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

from slate_engine.server.config import LogConfig
from slate_engine.store.scrubbing import scrubbed

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the HTTP request that is being answered."""


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = f"{at} {record.levelname.lower():7} {record.name}: {record.getMessage()}"
        if id := request_id.get():
            line += f" [request {id}]"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return scrubbed(line)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": scrubbed(record.getMessage()),
        }
        if id := request_id.get():
            fields["request_id"] = id
        if record.exc_info:
            fields["trace"] = scrubbed(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


def set_up(config: LogConfig, stream: TextIO | None = None) -> None:
    """Send all logs of the process to ``stream`` (standard error) in the way that ``config`` says."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if config.format == "json" else _Human())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(config.level.upper())
    # A library that is asked for its thoughts at every request drowns ours.
    for noisy in ("aiohttp.access", "botocore", "urllib3", "numba"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
