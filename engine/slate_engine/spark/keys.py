"""Which keys a read wants: the options ``start``, ``end``, ``prefix`` and ``keys``, as ranges of stored keys.

They are written as the column shows them, or as the stored bytes (``keyEncoding``). A read with them takes from the store
what lies in the ranges, whatever Spark does with the filters of a query.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping

from slate_engine.errors import InvalidError
from slate_engine.format.key_range import KeyRange
from slate_engine.spark.ranges import EVERYTHING, PACKING, Ranges, above, below, intersect, points, stored

KEYS = ("start", "end", "prefix", "keys")
ENCODINGS = ("text", "hex", "base64")

_DIGITS = re.compile(r"[+-]?[0-9]+")
_PYTHON_BYTES = re.compile(r"""(bytearray\()?b(['"]).*\2\)?""", re.DOTALL)


def ranges_of(asked: Mapping[str, str], format: str, encoding: str) -> Ranges:
    """The stored keys that lie in all that was ``asked``: from ``start`` on, before ``end``, with this ``prefix``, among
    these ``keys`` (a JSON array). ``format`` is that of the key column."""
    if encoding != "text":
        # These are the bytes as they are stored, whatever they decode to.
        format = "binary"
    of_option: dict[str, Callable[[str], Ranges]] = {
        "start": lambda text: above(_key("start", text, format, encoding), format, inclusive=True),
        "end": lambda text: below(_key("end", text, format, encoding), format, inclusive=False),
        "prefix": lambda text: _prefix(text, format, encoding),
        "keys": lambda text: points(_key("keys", each, format, encoding) for each in _listed(text, format)),
    }
    ranges = EVERYTHING
    for name, text in asked.items():
        ranges = intersect(ranges, of_option[name](text))
    return ranges


def _prefix(text: str, format: str, encoding: str) -> Ranges:
    if format in PACKING:
        raise InvalidError(
            f"prefix is for keys that are bytes or text, and these are {format}: give start and end, or the first bytes "
            'with option("keyEncoding", "hex")'
        )
    return (KeyRange.of_prefix(_key("prefix", text, format, encoding)),)


def _listed(text: str, format: str) -> list[str]:
    """The items of a JSON array. Integers may be written as numbers."""
    wrong = InvalidError(
        f"option keys must be a JSON array of keys, and is {_shown(text)}: write json.dumps([…]), with texts"
        f"{' or integers' if format in PACKING else ''} in it"
    )
    try:
        found = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(found, list):
        raise wrong
    for each in found:
        if not isinstance(each, str) and not (format in PACKING and type(each) is int):
            raise wrong
    return [str(each) for each in found]


def _key(name: str, text: str, format: str, encoding: str) -> bytes:
    """The stored key that an option writes."""
    if encoding == "text":
        return _key_of_text(name, text, format)
    try:
        return bytes.fromhex(text.removeprefix("0x")) if encoding == "hex" else b64decode(text, validate=True)
    except ValueError:
        raise InvalidError(
            f'option {name} must be {encoding}, because option("keyEncoding", …) says so, and is {_shown(text)}'
        ) from None


def _key_of_text(name: str, text: str, format: str) -> bytes:
    if format in PACKING:
        key = stored(text, format) if _DIGITS.fullmatch(text) else None
        if key is None:
            raise InvalidError(f"option {name} must be a number that fits {format}, and is {_shown(text)}")
        return key
    if format not in ("binary", "utf8"):
        raise InvalidError(
            f"option {name} is for keys that are bytes, text or integers, and keyFormat is {format!r}: give the stored "
            'bytes with option("keyEncoding", "hex") or "base64", or choose rows with where() on the frame'
        )
    if _PYTHON_BYTES.fullmatch(text):
        # Spark makes a text of all that it is given, also of bytes.
        raise InvalidError(
            f"option {name} is {text!r}, which is how Python shows bytes: give the text itself, or key.hex() with "
            'option("keyEncoding", "hex")'
        )
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidError(
            f'option {name} is no text that can be stored: give key.hex() with option("keyEncoding", "hex")'
        ) from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "…")
