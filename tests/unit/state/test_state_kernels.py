"""Every kernel is compiled for one signature only, however its arrays came to be: a warm process has nothing to compile."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from bench.manifest import large_manifest
from slate_engine.format import ids
from slate_engine.format.flatbuf import lay, spans, walk
from slate_engine.format.key_range import KeyRange
from slate_engine.runtime import SystemRuntime
from slate_engine.state import tracker
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.compactions_write import encode_compactions
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.views import Views
from tests.unit.state.test_hostile_bytes import rich_compactions, rich_manifest, sst_meta
from tests.unit.state.test_views_and_trees import view


@pytest.mark.parametrize("module", [walk, lay, spans, ids, tracker], ids=lambda module: module.__name__)
def test_one_signature_each(module: ModuleType) -> None:
    use_everything()
    kernels: dict[str, Any] = {
        name: each
        for name, each in vars(module).items()
        if hasattr(each, "signatures") and each.__module__ == module.__name__
    }
    # What one kernel calls of another is compiled into it, for whatever types it has there: that costs nothing later.
    inner = {name for each in kernels.values() for name in each.py_func.__code__.co_names}
    outer = {name: each for name, each in kernels.items() if name not in inner}
    assert any(each.signatures for each in outer.values())
    assert [name for name, each in outer.items() if len(each.signatures) > 1] == []


def use_everything() -> None:
    manifest, book = rich_manifest(), rich_compactions()
    for kind in (bytes, bytearray, memoryview):
        read = decode_manifest(kind(encode_manifest(manifest)), object="")
        assert read == manifest
        assert decode_compactions(kind(encode_compactions(book)), object="") == book
    for data, decode in sst_meta():
        decode(data)
    joined = Views.concat([manifest.root.l0, read.root.l0[1:]]).projected(
        KeyRange.half_open(b"c", b"x"), SystemRuntime()
    )
    changed = joined.with_distinct_ids(SystemRuntime())[::2]
    tree = read.root.with_l0(Views.of([view(99)])).without_oldest_l0(1)
    encode_manifest(read.with_root(tree).with_tree(b"zz", tree.with_l0(changed).without_runs([4, 2])))
    encode_manifest(decode_manifest(encode_manifest(large_manifest(500, 5, 3)), object=""))
