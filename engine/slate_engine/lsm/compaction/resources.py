"""What all jobs of a worker share: processors and memory.

Ranges are merged in *lanes*: more than there are processors, so that a processor need not wait for the store, and enough
for all ranges of a job, so that none is left over to be merged alone when the others are done. A range that gets no lane
waits its turn, whichever job it belongs to; so nothing depends on how many jobs and ranges there are. Each lane has its
part of the memory, most of it for the chunk that it works on and those that it reads ahead, the rest for what the SST
under construction has to remember of every row.
"""

from __future__ import annotations

import asyncio

COPIES = 8
"""How often a chunk is in memory at most: two read ahead, one decoded, put together, cleaned, built, and on its way out."""

ROW_BYTES = 12
"""What an SST under construction remembers of a row: the hash for its filter, and a part of the index."""

SMALLEST_CHUNK = 64 << 10
SMALLEST_SST = 1000


class Resources:
    """Belongs to one event loop."""

    def __init__(self, max_threads: int, memory_bytes: int, ranges_of_job: int = 1) -> None:
        lanes = max(max_threads + 1, ranges_of_job)
        self.lanes = asyncio.Semaphore(lanes)
        self.cores = asyncio.Semaphore(max_threads)
        self._lane_bytes = memory_bytes // lanes

    def chunk_bytes(self, index_bytes: int) -> int:
        """How large a chunk may be in memory, where the block indexes that it needs take ``index_bytes``."""
        return max((self._lane_bytes * 3 // 4 - index_bytes) // COPIES, SMALLEST_CHUNK)

    @property
    def max_rows(self) -> int:
        """How many rows an SST may have."""
        return max(self._lane_bytes // 4 // ROW_BYTES, SMALLEST_SST)
