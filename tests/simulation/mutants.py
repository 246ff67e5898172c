"""The yardstick: every safety mechanism is switched off in turn, and the simulation has to notice.

The table names what is switched off, the scene in which that shows, and within how many seeds. A mechanism whose absence
nobody notices is not tested, whatever else is. ``make sim-mutants`` plays all of them and prints where each was caught;
``--write`` puts that into ``docs/simulation.md``.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from slate_engine.errors import Error
from tests.simulation import (
    planted,
    planted_admin,
    planted_compaction,
    planted_gc,
    planted_readers,
    planted_two_phase,
)
from tests.simulation.loop import Deadlock
from tests.simulation.scenes.repertoire import find
from tests.simulation.world import Broken, explore

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
BEGIN, END = "<!-- made by `make sim-mutants` -->", "<!-- end -->"


class Mutant(NamedTuple):
    """A mechanism that is taken out, and where that shows."""

    switch: Callable[[], AbstractContextManager[object]]
    scene: str
    seeds: int

    @property
    def name(self) -> str:
        return self.switch.__name__.replace("_", " ")


class Kill(NamedTuple):
    """Where it was caught, and by what."""

    seed: int
    how: str


# fmt: off
MUTANTS = [
    # A stale writer is fenced: by the epoch in the manifest, by a file in its place in the log.
    Mutant(planted.no_new_epoch, "duels", 5),
    Mutant(planted.no_epoch_check_at_opening, "duels", 20),
    Mutant(planted.flush_without_epoch_check, "revenants", 20),
    Mutant(planted.no_fence, "duels", 40),
    Mutant(planted.fence_of_one_file, "stragglers", 20),
    Mutant(planted.window_not_recorded, "stragglers", 20),
    # What is acknowledged is in the log, under an id that is ours, and the log has no gaps.
    Mutant(planted.acknowledged_before_stored, "storms", 10),
    Mutant(planted.taken_id_counts_as_stored, "parallel_duels", 20),
    Mutant(planted.taken_id_counts_as_own_if_unknown, "duels", 80),
    Mutant(planted.stored_ids_used_again, "holes", 40),
    Mutant(planted.acknowledged_before_its_predecessor_is_stored, "holes", 40),
    Mutant(planted.gaps_overlooked, "holes", 40),
    Mutant(planted.ids_run_ahead, "stragglers", 20),
    # What is in the log comes back, once, whole, and in order.
    Mutant(planted.replay_after_too_far_while_replaying, "long_logs", 10),
    Mutant(planted.commits_torn_at_replay, "long_logs", 10),
    Mutant(planted.replayed_although_in_level_0, "storms", 30),
    Mutant(planted.sequence_numbers_begin_again, "storms", 10),
    Mutant(planted.flushed_rows_stay_in_memory, "snapshots", 40),
    Mutant(planted.snapshots_not_retained, "snapshots", 20),
    # The manifest says how far the log goes: to who makes a checkpoint, and to who does not find all of it.
    Mutant(planted.closes_leave_the_end_of_the_log_behind, "closes", 10),
    Mutant(planted_readers.gaps_taken_for_the_end, "closes", 10),
    Mutant(planted_readers.old_state_shown_although_the_log_is_lost, "closes", 20),
    Mutant(planted.writers_fence_before_they_look_for_the_log, "closes", 10),
    Mutant(planted.gaps_filled_with_fences, "closes", 10),
    # A lost answer is neither success nor failure; a late write is no write; clocks are not to be trusted.
    Mutant(planted.lost_answer_counts_as_success, "storms", 20),
    Mutant(planted.lost_answer_counts_as_conflict, "parallel_duels", 120),
    Mutant(planted.lost_answer_settled_by_bytes, "duels", 20),
    Mutant(planted.boundary_not_looked_at, "revenants", 60),
    Mutant(planted.sst_ids_follow_the_clock, "storms", 60),
    # What somebody needs, or is about to publish, is not collected.
    Mutant(planted_gc.unpublished_flushes_overlooked, "collectors", 100),
    Mutant(planted_gc.running_jobs_overlooked, "collectors", 40),
    Mutant(planted_gc.checkpoints_overlooked_by_ssts, "collectors", 20),
    Mutant(planted_gc.checkpoints_overlooked_by_the_log, "collectors", 20),
    Mutant(planted_gc.checkpoints_overlooked_by_manifests, "collectors", 10),
    Mutant(planted_gc.expired_checkpoints_can_be_prolonged, "leases", 10),
    Mutant(planted_gc.replay_begins_later_than_it_does, "collectors", 40),
    Mutant(planted_gc.log_deleted_at_the_replay_point, "collectors", 20),
    Mutant(planted_gc.boundary_advanced_after_the_deletion, "collectors", 10),
    Mutant(planted_gc.fences_collected, "revenants", 40),
    # Readers keep what they read, and not longer.
    Mutant(planted_readers.leases_not_renewed, "leases", 20),
    Mutant(planted_readers.leases_renewed_only_where_nothing_happens, "leases", 20),
    Mutant(planted_readers.leases_dropped_while_somebody_reads, "leases", 20),
    Mutant(planted_readers.lost_leases_go_unnoticed, "leases", 20),
    Mutant(planted_readers.leases_that_trust_every_clock, "leases", 20),
    # The right rows stay in a compaction, its inputs as long as somebody reads them, its outputs until they are published.
    Mutant(planted_compaction.tombstones_always_dropped, "compactions", 12),
    Mutant(planted_compaction.snapshots_not_retained_by_compactions, "compactions", 40),
    Mutant(planted_compaction.overlapping_ssts_moved, "compactions", 12),
    Mutant(planted_compaction.sources_stay, "compactions", 12),
    Mutant(planted_compaction.clones_keep_view_ids, "unions", 5),
    Mutant(planted_compaction.repeated_view_ids_split, "unions", 20),
    Mutant(planted_compaction.l0_views_removed_by_id, "unions", 20),
    Mutant(planted_compaction.jobs_begun_anew_beside_what_they_have, "compactions", 30),
    Mutant(planted_compaction.inputs_not_protected, "compactions", 12),
    Mutant(planted_compaction.jobs_older_than_the_book, "compactions", 20),
    Mutant(planted_compaction.jobs_recorded_after_their_outputs, "backlogs", 20),
    Mutant(planted_compaction.outputs_older_than_their_job, "backlogs", 20),
    # Of two coordinators the newer one counts, of two workers that which has the job, and no result is taken on trust.
    Mutant(planted_compaction.compactor_epochs_not_checked, "compactions", 40),
    Mutant(planted_compaction.compactor_epoch_not_checked_at_commit, "compactions", 40),
    Mutant(planted_compaction.results_not_checked_at_commit, "restores", 20),
    Mutant(planted_compaction.anybodys_results_count, "compactions", 12),
    Mutant(planted_compaction.silent_workers_keep_their_jobs, "compactions", 12),
    # A clone has what it shows, once, and lets go of it in the right order.
    Mutant(planted_admin.parents_do_not_keep, "clones", 5),
    Mutant(planted_admin.clones_forget_what_is_only_in_the_log, "clones", 20),
    Mutant(planted_admin.clones_open_before_their_log_is_there, "clone/31/before/0", 1),
    Mutant(planted_admin.every_attempt_names_its_own_checkpoints, "clones", 60),
    Mutant(planted_admin.finished_clones_count_for_every_request, "clones", 5),
    Mutant(planted_admin.clones_do_not_tell_their_request, "clones", 5),
    Mutant(planted_admin.a_clone_that_is_begun_counts_for_every_request, "rivals", 20),
    Mutant(planted_admin.the_clone_of_a_faster_client_counts, "rivals", 20),
    Mutant(planted_gc.clones_let_go_before_their_parents, "families", 40),
    # What is destroyed stays so, and can be brought back for as long as was promised.
    Mutant(planted_admin.destroying_leaves_the_log_open, "destroys", 80),
    Mutant(planted_admin.destroying_fences_no_writer, "destroys", 80),
    Mutant(planted_admin.deleting_can_be_taken_back, "deletions", 60),
    Mutant(planted_admin.checkpoints_do_not_keep_from_deletion, "families", 10),
    # Where a database was deleted, nothing is acknowledged, and nothing comes back.
    Mutant(planted_admin.deleting_leaves_the_log_open, "evictions", 40),
    Mutant(planted_admin.deleting_does_not_linger, "evictions", 100),
    Mutant(planted.acknowledged_without_a_look, "evictions", 40),
    Mutant(planted_admin.deleting_keeps_the_boundary, "evictions", 40),
    Mutant(planted_admin.missing_counts_as_unchanged, "evictions", 40),
    Mutant(planted_admin.commits_into_nothing_count, "evictions", 100),
    Mutant(planted_admin.wal_files_in_nothing_stay, "evictions", 100),
    Mutant(planted_gc.grace_ignored, "graces", 10),
    Mutant(planted_admin.deleting_expects_to_be_alone, "graces", 40),
    Mutant(planted_admin.times_written_too_late_stay, "graces", 60),
    # What is restored is what it was, and what was before is over.
    Mutant(planted_admin.restoring_leaves_the_log_open, "restores", 20),
    Mutant(planted_admin.restoring_gives_numbers_out_again, "restores", 20),
    Mutant(planted_admin.restoring_keeps_no_log, "restores", 20),
    Mutant(planted_admin.restored_runs_keep_their_ids, "restores", 60),
    # Where a table decides conditional writes, it decides them before anything is seen, and for good.
    Mutant(planted_two_phase.recorded_before_it_is_put, "tables", 40),
    Mutant(planted_two_phase.committed_before_it_is_copied, "tables", 40),
    Mutant(planted_two_phase.everybody_wins, "tables", 20),
    Mutant(planted_two_phase.lost_insert_counts_as_conflict, "tables", 40),
    # Nobody waits for ever; transactions are isolated.
    Mutant(planted.waiters_forget_to_freeze, "pressure", 10),
    Mutant(planted.reads_not_checked, "transactions", 5),
    Mutant(planted.writes_not_checked, "bank", 10),
]
# fmt: on


def hunt(mutant: Mutant, seeds: int | None = None) -> Kill | None:
    """Play its scene until it is noticed."""
    with mutant.switch():
        for seed in range(seeds or mutant.seeds):
            try:
                explore(find(mutant.scene), seed)
            except Broken as broken:
                # It must be a promise that was broken, and not the switch.
                if not isinstance(broken.error, AssertionError | Deadlock | Error):
                    raise
                return Kill(seed, str(broken.error).partition("\n")[0])
    return None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation mutants")
    parser.add_argument("names", nargs="*", help="some of them; all by default")
    parser.add_argument("--seeds", type=int, help="play so many seeds, and not those of the table")
    parser.add_argument("--write", action="store_true", help="put the table into docs/simulation.md")
    given = parser.parse_args(arguments)
    wanted = [each for each in MUTANTS if not given.names or each.switch.__name__ in given.names]
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        kills = []
        for mutant, kill in zip(wanted, pool.imap(_hunt, [(each, given.seeds) for each in wanted]), strict=True):
            kills.append(kill)
            caught = f"seed {kill.seed:<3} {kill.how[:90]}" if kill is not None else "SURVIVED"
            print(f"{mutant.name:44} {mutant.scene:18} {caught}", flush=True)
    print(f"{sum(kill is not None for kill in kills)} of {len(kills)} are caught")
    if given.write and not given.names:
        write(kills)
    return int(None in kills)


def _hunt(given: tuple[Mutant, int | None]) -> Kill | None:
    logging.disable(logging.CRITICAL)
    return hunt(*given)


def write(kills: list[Kill | None]) -> None:
    """The table of the page anew."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = ["| what is switched off | scene | caught in run | of at most |", "|---|---|---|---|"]
    for mutant, kill in zip(MUTANTS, kills, strict=True):
        caught = "never" if kill is None else str(kill.seed + 1)
        lines.append(f"| {mutant.name} | {mutant.scene} | {caught} | {mutant.seeds} |")
    PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}")
