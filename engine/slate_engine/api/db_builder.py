"""How a database is opened for writing."""

from __future__ import annotations

import logging

from slate_engine.api import arguments
from slate_engine.api.adapters import Extractor, Merge, blooms
from slate_engine.api.building import Builder, instance
from slate_engine.api.caches import DbCache
from slate_engine.api.caching import SharedCache
from slate_engine.api.companion_options import collector_options, compactor_options
from slate_engine.api.companions import Companions
from slate_engine.api.configuration import DbSettings
from slate_engine.api.db import Db
from slate_engine.api.enums import CompressionCodec, SstBlockSize
from slate_engine.api.filters import FilterPolicy, PrefixExtractor
from slate_engine.api.merging import MergeOperator
from slate_engine.api.meters import Meters
from slate_engine.api.metrics import MetricsRecorder
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.settings import Settings
from slate_engine.errors import InvalidError
from slate_engine.format.filters import Bloom
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from slate_engine.lsm.cache import Cache
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.tables import DEFAULT_POLICIES
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions

log = logging.getLogger(__name__)

_CODECS = {
    None: Codec.NONE,
    CompressionCodec.SNAPPY: Codec.SNAPPY,
    CompressionCodec.ZLIB: Codec.ZLIB,
    CompressionCodec.LZ4: Codec.LZ4,
    CompressionCodec.ZSTD: Codec.ZSTD,
}


class FilesBuilder(Builder):
    """What the builders of databases and readers have in common: where the files are, and how they are read."""

    def __init__(self, path: str, object_store: ObjectStore) -> None:
        self._path: str = database_path(path)
        self._store: ObjectStore = instance(object_store, ObjectStore, "object_store")
        self._wal_store: ObjectStore | None = None
        self._policies: tuple[Bloom, ...] = DEFAULT_POLICIES
        self._operator: Merge | None = None
        self._extractor: Extractor | None = None
        self._cache: Cache | None = None
        self._recorder: MetricsRecorder | None = None

    def with_wal_object_store(self, wal_object_store: ObjectStore) -> None:
        """Where the write-ahead log is, if not with the rest."""
        self._check_unused()
        self._wal_store = instance(wal_object_store, ObjectStore, "wal_object_store")

    def with_filter_policies(self, policies: list[FilterPolicy]) -> None:
        """How filters of SSTs are built and read; none if the list is empty."""
        self._check_unused()
        self._policies = blooms(instance(policy, FilterPolicy, "a filter policy") for policy in policies)

    def with_merge_operator(self, merge_operator: MergeOperator) -> None:
        """How operands are combined with values. Whoever writes merges must always give the same one."""
        self._check_unused()
        self._operator = Merge(instance(merge_operator, MergeOperator, "merge_operator"))

    def with_segment_extractor(self, extractor: PrefixExtractor) -> None:
        """Divides the keys into segments, each a tree of its own. A database keeps the one that it was created with."""
        self._check_unused()
        self._extractor = Extractor(instance(extractor, PrefixExtractor, "extractor"))

    def with_metrics_recorder(self, metrics_recorder: MetricsRecorder) -> None:
        self._check_unused()
        self._recorder = instance(metrics_recorder, MetricsRecorder, "metrics_recorder")

    def with_db_cache(self, db_cache: DbCache, db_cache_id: int) -> None:
        """The cache to read through. Databases may share one; each has its own id in it."""
        self._check_unused()
        cache = instance(db_cache, DbCache, "db_cache")
        self._cache = SharedCache(cache, arguments.unsigned(db_cache_id, "db_cache_id"), self._store.runtime)

    def with_db_cache_disabled(self) -> None:
        """Keep nothing that was read."""
        self._check_unused()
        self._cache = Cache(0)

    def _files(self) -> DatabaseFiles:
        return DatabaseFiles(
            self._store.store,
            self._path,
            self._store.runtime,
            self._operator,
            self._policies,
            None if self._wal_store is None else self._wal_store.store,
            self._cache,
        )


class DbBuilder(FilesBuilder):
    """A database at ``path`` of a store, which is created there if there is none. Whoever wrote it before is fenced off."""

    def __init__(self, path: str, object_store: ObjectStore) -> None:
        super().__init__(path, object_store)
        self._settings: DbSettings = DbSettings()
        self._block_size: SstBlockSize = SstBlockSize.BLOCK4_KIB

    def with_settings(self, settings: Settings) -> None:
        self._check_unused()
        self._settings = instance(settings, Settings, "settings").values

    def with_sst_block_size(self, sst_block_size: SstBlockSize) -> None:
        """The size up to which blocks of new SSTs are filled."""
        self._check_unused()
        if not isinstance(sst_block_size, SstBlockSize):
            raise ValueError(f"sst_block_size must be an SstBlockSize, not {sst_block_size!r}")
        self._block_size = sst_block_size

    def with_seed(self, seed: int) -> None:
        """Checked, and without effect on purpose. Whoever writes an object tells it from those of others by chance, so two
        processes with the same seed would take each other's writes for their own. A test that wants to own chance gives the
        object store a runtime of its own: ``ObjectStore.of(store, runtime)``."""
        self._check_unused()
        arguments.unsigned(seed, "seed")

    async def build(self) -> Db:
        """Open the database."""
        self._consume()
        settings = self._settings
        try:
            settings.check()
        except InvalidError as reason:
            raise InvalidError(f"Invalid error: {reason}") from None
        files = self._files()
        log.info("opening SlateDB database [path=%s, store=%s]", self._path, files.store.url)
        _say_what_is_missing(settings)
        options = self._writer_options(settings)
        compactor = compactor_options(settings.compactor_options, options.sst)
        collector = collector_options(settings.garbage_collector_options)
        writer = await Writer.open(files, options)
        companions = Companions(writer, files, compactor, collector)
        try:
            await companions.start()
        except BaseException:
            await companions.close()
            await writer.close(flush_wal=False)
            raise
        meters = None if self._recorder is None else Meters(self._recorder)
        return Db.of(writer, files, options, settings.default_ttl_millis, meters, companions)

    def _writer_options(self, settings: DbSettings) -> WriterOptions:
        return WriterOptions(
            flush_interval=None if settings.flush_interval_ms is None else settings.flush_interval_ms / 1000,
            wal_enabled=settings.wal_enabled,
            max_parallel_writes=settings.max_parallel_writes or WriterOptions.max_parallel_writes,
            manifest_poll_interval=max(settings.manifest_poll_interval_ms, 10) / 1000,
            l0_sst_size_bytes=settings.l0_sst_size_bytes,
            l0_max_ssts=settings.l0_max_ssts,
            l0_max_ssts_per_key=settings.l0_max_ssts_per_key,
            max_unflushed_bytes=settings.max_unflushed_bytes,
            max_wal_files=settings.max_wal_flushes_before_l0_flush,
            sst=sst_options(settings, self._block_size, self._policies),
            operator=self._operator,
            extractor=self._extractor,
        )


def sst_options(
    settings: DbSettings,
    block_size: SstBlockSize = SstBlockSize.BLOCK4_KIB,
    policies: tuple[Bloom, ...] = DEFAULT_POLICIES,
) -> SstOptions:
    """How a database with these settings writes its SSTs."""
    return SstOptions(block_size.nbytes, _CODECS[settings.compression_codec], settings.min_filter_keys, policies)


def database_path(path: str) -> str:
    """The path of a database in its store, without empty parts."""
    return "/".join(part for part in arguments.text(path, "a path").split("/") if part)


def _say_what_is_missing(settings: DbSettings) -> None:
    """Settings of parts that this engine does not have: nobody shall believe that they work."""
    if settings.object_store_cache_options.root_folder:
        log.warning(
            "settings without effect: object_store_cache_options; there is no cache on disk, only one in memory"
        )
