"""Objects are decoded once, or never: whoever encoded one knows what is in it.

Bytes to columns and back takes most of the time of a simulated run, and whether it is right is settled elsewhere. Objects
never change, so whoever meets the same bytes again, in whichever process of the run, is given what they are known to hold.
Everything is still encoded for real, so that the bucket holds what any other program can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from slate_engine.format.columns import Rows
from slate_engine.format.sst_meta import Codec
from slate_engine.format.wal import build_wal_sst
from slate_engine.format.wal import read_wal as really_read_wal
from slate_engine.lsm import replay, wal_writer
from slate_engine.lsm.row import Row
from slate_engine.state import stores
from slate_engine.state.compactions import Compactions
from slate_engine.state.compactions_read import decode_compactions as really_decode_compactions
from slate_engine.state.compactions_write import encode_compactions as really_encode_compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_read import decode_manifest as really_decode_manifest
from slate_engine.state.manifest_write import encode_manifest as really_encode_manifest

_rows: dict[bytes, Rows] = {}
_manifests: dict[bytes, Manifest] = {}
_books: dict[bytes, Compactions] = {}


def read_wal(data: Any, *, object: str = "") -> Rows:
    key = bytes(data)
    if key not in _rows:
        _rows[key] = really_read_wal(data, object=object)
    return _rows[key]


def encode_wal(rows: list[Row], codec: Codec) -> bytes:
    columns = Rows.of(rows)
    data = build_wal_sst(columns, codec).tobytes()
    _rows[data] = columns
    return data


def decode_manifest(data: Any, *, object: str = "") -> Manifest:
    key = bytes(data)
    if key not in _manifests:
        _manifests[key] = really_decode_manifest(data, object=object)
    return _manifests[key]


def encode_manifest(manifest: Manifest) -> bytes:
    data = bytes(really_encode_manifest(manifest))
    _manifests[data] = manifest
    return data


def decode_compactions(data: Any, *, object: str = "") -> Compactions:
    key = bytes(data)
    if key not in _books:
        _books[key] = really_decode_compactions(data, object=object)
    return _books[key]


def encode_compactions(book: Compactions) -> bytes:
    data = bytes(really_encode_compactions(book))
    _books[data] = book
    return data


@contextmanager
def remembering() -> Iterator[None]:
    """For one run."""
    _rows.clear()
    _manifests.clear()
    _books.clear()
    with (
        mock.patch.object(replay, "read_wal", read_wal),
        mock.patch.object(wal_writer, "_encode", encode_wal),
        mock.patch.object(stores, "decode_manifest", decode_manifest),
        mock.patch.object(stores, "encode_manifest", encode_manifest),
        mock.patch.object(stores, "decode_compactions", decode_compactions),
        mock.patch.object(stores, "encode_compactions", encode_compactions),
    ):
        yield
