"""Text without secrets, for logs, answers and whatever else leaves the process."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAMES = (
    r"secret|passw(?:or)?d|token|credential|authorization|signature|sig|connection[_.\-]?string"
    r"|(?:access|account|api|private|shared)[_.\-]?(?:access[_.\-]?)?key"
)
# Every run of characters has a bound: without one, a long word costs the square of its length, and clients choose words.
_END = r"[\w.\-]{0,128}[\"']?\s{0,8}[=:]\s{0,8}"
_SCHEME = r"(\w[\w+.\-]{0,31}://)"
_QUOTED = re.compile(rf"(?is)((?:{_NAMES}){_END}b?)([\"'])(?:\\.|(?!\2).)*(\2|$)")
_PLAIN = re.compile(rf"(?i)((?:{_NAMES}){_END})(?:bearer\s+|basic\s+)?[^\s\"'&,;]+")
_PASSWORD = re.compile(rf"{_SCHEME}[^\s/@:\"']{{0,256}}:[^\s\"']{{0,4096}}@")
"""Of a url: it goes up to the last @, for it may have any character in it."""
_USER = re.compile(rf"{_SCHEME}[^/\s@*]{{1,4096}}@")


SHORTEST = 4
"""A secret that is shorter would be found in every other word."""


def scrubbed(text: str, known: Iterable[str] = ()) -> str:
    """``text`` without the secrets that are ``known``, and without what looks like one: the value of a field of that name,
    or a password in a url."""
    for secret in sorted({each for each in known if len(each) >= SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = _QUOTED.sub(r"\1\2***\3", text)
    text = _PLAIN.sub(r"\1***", text)
    return _USER.sub(r"\1***@", _PASSWORD.sub(r"\1***@", text))
