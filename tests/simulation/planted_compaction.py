"""Safety mechanisms of compaction switched off, one at a time, as in :mod:`tests.simulation.planted`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from slate_engine.lsm.compaction import commit, inputs
from slate_engine.lsm.compaction.commit import Commits
from slate_engine.lsm.compaction.inputs import Inputs
from slate_engine.state.compactions import Compactions, CompactionStatus
from slate_engine.state.manifest import Manifest

Switch = AbstractContextManager[object]


# --- which rows stay -------------------------------------------------------------------------------------------------


def tombstones_always_dropped() -> Switch:
    """Also where something older lies below, which then comes back."""
    return mock.patch.object(inputs, "is_deepest", return_value=True)


def snapshots_forgotten() -> Switch:
    """Only the newest version of a key stays, although somebody reads an older one."""
    of = Inputs.of

    def forgetful(*arguments: Any) -> Inputs:
        made = of(*arguments)
        return replace(made, rules=replace(made.rules, min_seq=2**64 - 1))

    return mock.patch.object(Inputs, "of", staticmethod(forgetful))


# --- what garbage collection may take --------------------------------------------------------------------------------


def inputs_not_protected() -> Switch:
    """No checkpoint keeps the inputs for those who still read them."""

    async def at_once(self: Commits, jobs: Any, found: Compactions) -> Any:
        outcome: dict[Any, CompactionStatus] = {}

        def change(old: Manifest) -> Manifest:
            manifest, ends = commit._applied(self._claim.check(old), jobs, found)
            outcome.update(ends)
            return manifest

        return await self._files.manifests.update(change), outcome

    return mock.patch.object(Commits, "_replace_inputs", at_once)
