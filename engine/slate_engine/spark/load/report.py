"""What a load has done, brought from the process that commits it to whoever asked for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from slate_engine.spark.jobs.summary import added
from slate_engine.spark.load.building import Part
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest


@dataclass(frozen=True)
class LoadReport:
    """``manifest_id`` is that of the manifest which shows the rows, all with the sequence number ``last_seq``; both are 0 if
    the frame was empty."""

    rows: int
    bytes: int
    ssts: int
    manifest_id: int
    last_seq: int
    requests: dict[str, int]

    @staticmethod
    def of(parts: Sequence[Part], committed: Versioned[Manifest] | None, requests: dict[str, int]) -> LoadReport:
        return LoadReport(
            rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            ssts=sum(len(part.ssts) for part in parts),
            manifest_id=0 if committed is None else committed.id,
            last_seq=0 if committed is None else committed.value.last_l0_seq,
            requests=added([*(part.requests for part in parts), requests]),
        )

    def write(self, path: str) -> None:
        Path(path).write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(path: str) -> LoadReport:
        return LoadReport(**json.loads(Path(path).read_text()))
