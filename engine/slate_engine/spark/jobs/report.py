"""The last word of a job, for who started its pod: one JSON document in the file that ``SLATE_REPORT`` names.

On Kubernetes that is the container's termination message, so it is short, and the file is written in place: it is mounted
there, and cannot be replaced.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

VARIABLE = "SLATE_REPORT"
MOST_BYTES = 4096
"""What Kubernetes keeps of a termination message."""

CUT = "…"


def leave_report(document: Mapping[str, object]) -> None:
    """Write the document, if anybody wants it. The job's outcome does not depend on that."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        Path(path).write_bytes(fitted(document))
    except OSError as error:
        log.warning("the report could not be written to %s: %s", path, error.strerror)


def fitted(document: Mapping[str, object]) -> bytes:
    """The document as JSON, its longest texts cut until it is short enough."""
    fields = dict(document)
    while len(encoded := json.dumps(fields, ensure_ascii=False).encode(errors="replace")) > MOST_BYTES:
        texts = {name: value for name, value in fields.items() if isinstance(value, str) and len(value) > len(CUT)}
        if not texts:
            # Nothing that a job says of itself is so long; who reads this still learns which job it was.
            return json.dumps({"job": fields.get("job")}).encode()
        longest = max(texts, key=lambda name: len(texts[name].encode(errors="replace")))
        # A character takes up to four bytes, and some of those here are escaped besides.
        spare = max((len(encoded) - MOST_BYTES) // 6, 1) + len(CUT)
        fields[longest] = texts[longest][:-spare].removesuffix(CUT) + CUT
    return encoded
