"""The tables of a database: from a view in the manifest to the SST that it shows, wherever that lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slate_engine.format.filters import Bloom
from slate_engine.format.ids import Ids, Ulid
from slate_engine.lsm.cache import Cache
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.table import Table
from slate_engine.runtime import Runtime
from slate_engine.state.manifest import Manifest
from slate_engine.state.views import SstView
from slate_engine.store.protocol import ObjectStore

CACHE_BYTES = 64 << 20
DEFAULT_POLICIES = (Bloom(),)


class Tables:
    """Opens tables, and shares one cache among them."""

    def __init__(
        self,
        store: ObjectStore,
        paths: Paths,
        runtime: Runtime,
        *,
        cache: Cache | None = None,
        policies: Sequence[Bloom] = DEFAULT_POLICIES,
    ) -> None:
        self.cache = Cache(CACHE_BYTES) if cache is None else cache
        self._store = store
        self._paths = paths
        self.runtime = runtime
        self._policies = policies
        self._open: dict[Ulid, Table] = {}

    def opener(self, manifest: Manifest) -> Callable[[SstView], Table]:
        """How the views of ``manifest`` are opened. A clone reads its parents' SSTs where they lie."""

        def open_view(view: SstView) -> Table:
            table = self._open.get(view.sst.id)
            if table is None:
                table = self._open[view.sst.id] = self._table(view, manifest)
            return table

        self._forget_all_but(manifest)
        return open_view

    def _table(self, view: SstView, manifest: Manifest) -> Table:
        id = view.sst.id
        owner = int(manifest.owners[manifest.ssts.id.find(Ids.of([id]))[0]]) if manifest.external_dbs else -1
        paths = self._paths if owner < 0 else Paths(manifest.external_dbs[owner].path)
        return Table(self._store, paths.compacted(id), view.sst, self.cache, self.runtime, self._policies)

    def _forget_all_but(self, manifest: Manifest) -> None:
        """SSTs that a newer manifest does not show are not opened again; older snapshots open them anew if they must."""
        if len(self._open) > 1024:
            wanted = set(manifest.ssts.id)
            self._open = {id: table for id, table in self._open.items() if id in wanted}
