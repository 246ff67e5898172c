"""How a database is opened for reading only."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import UUID

from slate_engine.api import arguments
from slate_engine.api.building import instance
from slate_engine.api.checkpoint_ids import checkpoint_id
from slate_engine.api.choices import ReaderMode
from slate_engine.api.db_builder import FilesBuilder
from slate_engine.api.meters import Meters
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import ReaderOptions
from slate_engine.api.reader import DbReader
from slate_engine.api.wheel_errors import as_the_wheel_has_them
from slate_engine.lsm import reader

log = logging.getLogger(__name__)


class DbReaderBuilder(FilesBuilder):
    """A reader of the database at ``path`` of a store. Unless told otherwise it follows the newest state, and keeps it from
    garbage collection by checkpoints."""

    def __init__(self, path: str, object_store: ObjectStore) -> None:
        super().__init__(path, object_store)
        self._options: reader.ReaderOptions = reader.ReaderOptions()
        self._mode: ReaderMode = ReaderMode.MANAGED_CHECKPOINT()
        self._checkpoint: UUID | None = None

    def with_options(self, options: ReaderOptions) -> None:
        self._check_unused()
        wanted = instance(options, ReaderOptions, "options")
        self._options = reader.ReaderOptions(
            poll_interval=arguments.unsigned(wanted.manifest_poll_interval_ms, "manifest_poll_interval_ms") / 1000,
            checkpoint_lifetime=arguments.unsigned(wanted.checkpoint_lifetime_ms, "checkpoint_lifetime_ms") / 1000,
            max_memtable_bytes=arguments.unsigned(wanted.max_memtable_bytes, "max_memtable_bytes"),
            skip_wal_replay=bool(wanted.skip_wal_replay),
        )

    def with_reader_mode(self, mode: ReaderMode) -> None:
        """Which state to show."""
        self._check_unused()
        self._mode = instance(mode, ReaderMode, "mode")
        self._checkpoint = checkpoint_id(mode[0]) if isinstance(mode, ReaderMode.CHECKPOINT) else None

    async def build(self) -> DbReader:
        """Open the reader."""
        self._consume()
        files, options = self._files(), replace(self._options, extractor=self._extractor)
        log.info("opening SlateDB reader [path=%s, store=%s, mode=%s]", self._path, files.store.url, self._mode)
        with as_the_wheel_has_them(files.path, files.store.url):
            if self._checkpoint is not None:
                opened = await reader.Reader.at_checkpoint(files, self._checkpoint, options)
            elif isinstance(self._mode, ReaderMode.FOLLOW_LATEST):
                opened = await reader.Reader.latest(files, options)
            else:
                opened = await reader.Reader.managed(files, options)
        return DbReader.of(opened, files, None if self._recorder is None else Meters(self._recorder))
