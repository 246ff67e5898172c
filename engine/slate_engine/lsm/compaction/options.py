"""How a compactor behaves. Names and defaults are those of SlateDB's settings; times are in seconds."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from slate_engine.errors import InvalidError
from slate_engine.format.sst_build import SstOptions
from slate_engine.lsm.compaction.plan import Policy, SizeTiered
from slate_engine.lsm.compaction.triggers import Triggers
from slate_engine.state.manifest import Manifest


def sst_options_of(manifest: Manifest) -> SstOptions:
    """How a compactor writes that knows nothing of the writer's settings: compressed as the newest SST is."""
    ssts = manifest.ssts
    newest = max(ssts, key=lambda handle: handle.id, default=None)
    return SstOptions() if newest is None else SstOptions(codec=newest.info.codec)


@dataclass(frozen=True)
class MergeOptions:
    """How one job is carried out."""

    sst: SstOptions = field(default_factory=SstOptions)
    """Block size, codec and filters of what is written; to be the same as the writer's."""
    max_sst_size: int = 256 << 20
    max_subcompactions: int = 4
    """So many ranges of a job are merged at the same time at most."""
    min_range_bytes: int = 16 << 20
    """A range has at least so much to read: each gives an SST of its own, and small ones cost readers."""

    def __post_init__(self) -> None:
        if min(self.max_sst_size, self.max_subcompactions) < 1:
            raise InvalidError("max_sst_size and max_subcompactions of a compaction must be at least 1")


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker finds its jobs and shows that it lives."""

    merge: MergeOptions = field(default_factory=MergeOptions)
    memory_bytes: int = 256 << 20
    """What all jobs of the worker hold at once, whatever their number and the size of their inputs. All versions of one key
    are worked on at once, so a single key with more of them than this takes what it needs."""
    max_threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    """So many chunks are decoded, merged and built at the same time: as many as there are processors, by default."""
    max_concurrent_compactions: int = 4
    compactions_poll_interval: float = 5.0
    heartbeat_interval: float = 10.0
    max_job_bytes: int | None = None
    """A job with more to read is left to other workers at first; None: nothing is. To be more than L0 ever holds: a job that
    waits keeps its sources, and while L0 is one of them the writer may come to wait as well."""
    leave_seconds: float = 900.0
    """Nobody may come for what is left, so it is taken after all when it has waited so long."""

    def __post_init__(self) -> None:
        if self.max_job_bytes is not None and self.max_job_bytes < 0:
            raise InvalidError("max_job_bytes of a worker is a number of bytes, or None for no limit")
        if self.leave_seconds < 0:
            raise InvalidError("leave_seconds of a worker is to be at least 0")

    def leaves(self, size: int) -> bool:
        """Whether a job of so many bytes is one for others."""
        return self.max_job_bytes is not None and size > self.max_job_bytes


@dataclass(frozen=True)
class CompactorOptions:
    """How a coordinator decides and commits; ``worker`` is None when other processes do the merging."""

    policy: Policy = field(default_factory=SizeTiered)
    triggers: Triggers = field(default_factory=Triggers)
    """What is compacted beside what the policy wants, because of its rows."""
    worker: WorkerOptions | None = field(default_factory=WorkerOptions)
    poll_interval: float = 5.0
    commit_compacted_interval: float = 1.0
    """How often finished jobs of other processes are looked for while there are any under way."""
    max_concurrent_compactions: int = 4
    enable_trivial_move: bool = False
    checkpoint_lifetime: float = 900.0
    """For how long the inputs of a job are kept after it, for readers that still use them."""
    worker_heartbeat_timeout: float = 30.0
    retry_failed_after: float = 300.0
    """Sources that a job failed on are left alone for so long: a corrupt SST does not get better by trying at once."""
