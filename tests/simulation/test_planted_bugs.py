"""Every safety mechanism is switched off in turn, and the simulation has to notice.

The table names what is switched off, the scene in which that shows, and within how many seeds. A mechanism whose absence
nobody notices is not tested, whatever else is.
"""

from __future__ import annotations

import pytest

from slate_engine.errors import Error
from tests.simulation import planted, planted_admin, planted_compaction, planted_gc
from tests.simulation.loop import Deadlock
from tests.simulation.planted import Switch
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.world import Broken, explore

PLANTED = [
    # A stale writer is fenced: by the epoch in the manifest, by a file in its place in the log.
    (planted.no_new_epoch, "duels", 5),
    (planted.no_epoch_check_at_opening, "duels", 20),
    (planted.flush_without_epoch_check, "revenants", 20),
    (planted.no_fence, "duels", 40),
    (planted.fence_of_one_file, "stragglers", 20),
    (planted.window_not_recorded, "stragglers", 20),
    # What is acknowledged is in the log, under an id that is ours, and the log has no gaps.
    (planted.acknowledged_before_stored, "storms", 10),
    (planted.taken_id_counts_as_stored, "parallel_duels", 20),
    (planted.id_used_again_after_a_failure, "duels", 80),
    (planted.gaps_overlooked, "holes", 40),
    (planted.ids_run_ahead, "holes", 60),
    # What is in the log comes back, once, whole, and in order.
    (planted.replay_after_too_far_while_replaying, "long_logs", 10),
    (planted.commits_torn_at_replay, "long_logs", 10),
    (planted.replayed_although_in_level_0, "storms", 30),
    (planted.sequence_numbers_begin_again, "storms", 10),
    (planted.flushed_rows_stay_in_memory, "snapshots", 40),
    (planted.snapshots_not_retained, "snapshots", 5),
    # A lost answer is neither success nor failure; a late write is no write.
    (planted.lost_answer_counts_as_success, "storms", 20),
    (planted.lost_answer_settled_by_bytes, "duels", 20),
    (planted.boundary_not_looked_at, "revenants", 60),
    # What somebody needs, or is about to publish, is not collected.
    (planted_gc.unpublished_flushes_overlooked, "collectors", 40),
    (planted_gc.running_jobs_overlooked, "collectors", 40),
    (planted_gc.checkpoints_overlooked_by_ssts, "collectors", 20),
    (planted_gc.checkpoints_overlooked_by_the_log, "collectors", 20),
    (planted_gc.checkpoints_overlooked_by_manifests, "collectors", 10),
    (planted_gc.replay_begins_later_than_it_does, "collectors", 40),
    (planted_gc.fences_collected, "revenants", 40),
    # The right rows stay in a compaction, and its inputs as long as somebody reads them. A forgotten snapshot is also
    # noticed by tests/unit/compaction, and sooner.
    (planted_compaction.tombstones_always_dropped, "compactions", 12),
    pytest.param(planted_compaction.snapshots_forgotten, "compactions", 20, marks=pytest.mark.long),
    (planted_compaction.inputs_not_protected, "compactions", 12),
    # A clone has what it shows, once; what is destroyed stays so.
    (planted_admin.parents_do_not_keep, "clones", 5),
    (planted_admin.clones_forget_what_is_only_in_the_log, "clones", 20),
    (planted_admin.every_attempt_names_its_own_checkpoints, "clones", 10),
    (planted_admin.destroying_leaves_the_log_open, "destroys", 80),
    (planted_admin.destroying_fences_nobody, "destroys", 80),
    (planted_admin.deleting_can_be_taken_back, "deletions", 60),
    # Nobody waits for ever; transactions are isolated.
    (planted.waiters_forget_to_freeze, "pressure", 10),
    (planted.reads_not_checked, "transactions", 5),
    (planted.writes_not_checked, "transactions", 5),
]


def _play(switch: Switch, scene: str, seeds: int) -> None:
    with switch():
        for seed in range(seeds):
            explore(SCENES[scene][0], seed)


@pytest.mark.parametrize(("switch", "scene", "seeds"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_the_simulation_notices(switch: Switch, scene: str, seeds: int) -> None:
    with pytest.raises(Broken) as noticed:
        _play(switch, scene, seeds)
    # It must be a promise that was broken, and not the switch.
    assert isinstance(noticed.value.__cause__, AssertionError | Deadlock | Error)
