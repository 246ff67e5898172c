"""The same seeded histories through us and through the original: every answer is compared, and each reads the other's
end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as original

import slate_engine as ours
from tests.simulation.histories import Life


@pytest.mark.parametrize("seed", range(30))
def test_both_answer_alike(seed: int, tmp_path: Path) -> None:
    ends = {}
    for name, api in (("ours", ours), ("original", original)):
        (tmp_path / name).mkdir()
        ends[name] = asyncio.run(Life(api, tmp_path / name, seed).live())
    for mine, theirs in zip(ends["ours"], ends["original"], strict=True):
        assert mine == theirs
    assert asyncio.run(left(original, tmp_path / "ours", seed)) == ends["ours"][-1]
    assert asyncio.run(left(ours, tmp_path / "original", seed)) == ends["original"][-1]


async def left(api: Any, folder: Path, seed: int) -> Any:
    """What this package sees of the database that a life has left."""
    life = Life(api, folder, seed)
    await life._open()
    try:
        return await life._all(life._db)
    finally:
        await life._db.shutdown()
