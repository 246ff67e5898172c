"""The SSTs of the sample databases, which SlateDB 0.17 wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slate_engine.format.columns import Rows
from slate_engine.format.filters import Bloom, Point, PrefixTarget
from slate_engine.format.sst import Sst, open_sst
from slate_engine.format.sst_build import BuiltSst, SstOptions, build_sst
from slate_engine.format.sst_meta import SstType
from slate_engine.format.wal import build_wal_sst

STORE = Path(__file__).parents[2] / "data" / "store"


class First3:
    """The extractor that the database ``big`` was made with: it answers one key at a time, as users' extractors do."""

    def name(self) -> str:
        return "first3"

    def prefix_len(self, target: PrefixTarget) -> int | None:
        have = target.key if isinstance(target, Point) else target.prefix
        return 3 if len(have) >= 3 else None


@dataclass(frozen=True)
class Sample:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(STORE))

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    def open(self) -> Sst:
        return open_sst(self.data, object=self.name)

    def options(self) -> SstOptions:
        """The settings of the database that wrote this SST."""
        database = self.path.relative_to(STORE).parts[0]
        policy = Bloom(12, First3()) if database == "big" else Bloom()
        sst = self.open()
        return SstOptions(
            block_size=1024 if database in ("main", "main_gc") else 4096,
            codec=sst.info.codec,
            min_filter_keys=0 if sst.info.filter_len else 1 << 30,
            filters=(policy,),
        )

    def rebuilt(self, rows: Rows) -> BuiltSst:
        """What we make of the same rows with the same settings."""
        sst = self.open()
        if sst.info.sst_type is SstType.WAL:
            return build_wal_sst(rows, sst.info.codec)
        return build_sst(rows, self.options())


ALL = [Sample(path) for path in sorted(STORE.glob("**/*.sst")) if path.stat().st_size]
COMPACTED = [sample for sample in ALL if sample.path.parent.name == "compacted"]
WAL = [sample for sample in ALL if sample.path.parent.name == "wal"]
FENCES = [path for path in sorted(STORE.glob("*/wal/*.sst")) if not path.stat().st_size]


def by_name(sample: Sample) -> str:
    return sample.name
