"""What is in a namespace, and who belongs to whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from slate_operator.api.bulk_read import BulkRead
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.database import SlateDatabase
from slate_operator.api.resource import Resource
from slate_operator.api.schedule import CheckpointSchedule
from slate_operator.names import LABEL_DATABASE, LABEL_SCHEDULE
from slate_operator.plugin.kubectl import Body, Failed, Kubectl, together
from slate_operator.plugin.pod import Pod

KINDS: tuple[type[Resource], ...] = (SlateDatabase, Checkpoint, Clone, CheckpointSchedule, BulkRead)


@dataclass(frozen=True, slots=True)
class Warned:
    """An event that warns."""

    namespace: str
    kind: str
    name: str
    reason: str
    message: str
    last: str
    count: int

    @classmethod
    def of(cls, body: Any) -> Warned:
        about, series = body.get("involvedObject") or body.get("regarding") or {}, body.get("series") or {}
        return cls(
            namespace=about.get("namespace", ""),
            kind=about.get("kind", ""),
            name=about.get("name", ""),
            reason=body.get("reason", ""),
            message=(body.get("message") or body.get("note") or "").strip(),
            last=series.get("lastObservedTime") or body.get("lastTimestamp") or body.get("eventTime") or "",
            count=series.get("count") or body.get("count") or 1,
        )


@dataclass(frozen=True, slots=True)
class View:
    """Everything of ours that can be seen, in the order of names."""

    databases: Sequence[SlateDatabase] = ()
    checkpoints: Sequence[Checkpoint] = ()
    clones: Sequence[Clone] = ()
    schedules: Sequence[CheckpointSchedule] = ()
    reads: Sequence[BulkRead] = ()
    pods: Sequence[Pod] = ()
    warnings: Sequence[Warned] = ()

    @classmethod
    def of(cls, bodies: Iterable[Body], pods: Iterable[Body] = (), warnings: Iterable[Body] = ()) -> View:
        found: dict[str, list[Any]] = {kind.definition.kind: [] for kind in KINDS}
        for body in bodies:
            kind = next(each for each in KINDS if each.definition.kind == body["kind"])
            # A newer CRD than this plugin's may have fields that only a newer plugin knows.
            found[body["kind"]].append(kind.of(body, extra="ignore"))
        for objects in found.values():
            objects.sort(key=lambda each: (each.metadata.namespace, each.metadata.name))
        return cls(
            databases=tuple(found["SlateDatabase"]),
            checkpoints=tuple(found["Checkpoint"]),
            clones=tuple(found["Clone"]),
            schedules=tuple(found["CheckpointSchedule"]),
            reads=tuple(found["BulkRead"]),
            pods=tuple(sorted(map(Pod.of, pods), key=lambda pod: (pod.namespace, pod.name))),
            warnings=tuple(sorted(map(Warned.of, warnings), key=lambda event: event.last)),
        )

    def database(self, name: str) -> SlateDatabase:
        for each in self.databases:
            if each.metadata.name == name:
                return each
        there = ", ".join(each.metadata.name for each in self.databases)
        hint = f"there are: {there}" if there else "there is none; look into others with -n NAMESPACE or -A"
        raise Failed(f"there is no SlateDatabase {name} in this namespace; {hint}", 3)

    # --- who belongs to whom ----------------------------------------------------------------------------------------

    def pods_of(self, database: SlateDatabase) -> list[Pod]:
        return [pod for pod in self.pods if _key(database) == (pod.namespace, pod.database)]

    def checkpoints_of(self, database: SlateDatabase) -> list[Checkpoint]:
        return [
            each
            for each in self.checkpoints
            if _key(database) == (each.metadata.namespace, each.spec.database_ref.name)
        ]

    def schedules_of(self, database: SlateDatabase) -> list[CheckpointSchedule]:
        return [
            each
            for each in self.schedules
            if _key(database) == (each.metadata.namespace, each.spec.template.spec.database_ref.name)
        ]

    def schedule_of(self, checkpoint: Checkpoint) -> str | None:
        """The name of the schedule that made it."""
        return checkpoint.metadata.labels.get(LABEL_SCHEDULE)

    def clones_of(self, database: SlateDatabase) -> list[Clone]:
        """Those that come from it."""
        return [each for each in self.clones if _key(database) == (each.metadata.namespace, self.source_of(each))]

    def reads_of(self, database: SlateDatabase) -> list[BulkRead]:
        return [each for each in self.reads if _key(database) == (each.metadata.namespace, self.read_by(each))]

    def read_by(self, read: BulkRead) -> str | None:
        """The name of the database that a bulk read is of."""
        if read.spec.database_ref is not None:
            return read.spec.database_ref.name
        return read.status.database or self._database_of_checkpoint(read.metadata.namespace, read.spec.checkpoint_ref)

    def origin_of(self, database: SlateDatabase) -> Clone | None:
        """The Clone that made it."""
        for each in self.clones:
            if _key(database) == (each.metadata.namespace, made_by(each)):
                return each
        return None

    def source_of(self, clone: Clone) -> str | None:
        """The name of the database that a clone comes from."""
        source = clone.spec.source
        if clone.status.source_database is not None:
            return clone.status.source_database
        if source.database_ref is not None:
            return source.database_ref.name
        return self._database_of_checkpoint(clone.metadata.namespace, source.checkpoint_ref)

    def parent_of(self, database: SlateDatabase) -> SlateDatabase | None:
        """The database that it was cloned from, if it is still an object here."""
        clone, bootstrap = self.origin_of(database), database.spec.bootstrap.clone
        if clone is not None:
            name = self.source_of(clone)
        elif bootstrap is not None and bootstrap.database_ref is not None:
            name = bootstrap.database_ref.name
        elif bootstrap is not None:
            name = self._database_of_checkpoint(database.metadata.namespace, bootstrap.checkpoint_ref)
        else:
            return None
        key = (database.metadata.namespace, name)
        return next((each for each in self.databases if _key(each) == key), None)

    def children_of(self, database: SlateDatabase) -> list[SlateDatabase]:
        """The databases that were cloned from it."""
        return [each for each in self.databases if (parent := self.parent_of(each)) and _key(parent) == _key(database)]

    def _database_of_checkpoint(self, namespace: str, reference: Any) -> str | None:
        for each in self.checkpoints:
            if reference is not None and (each.metadata.namespace, each.metadata.name) == (namespace, reference.name):
                return each.spec.database_ref.name
        return None


def made_by(clone: Clone) -> str:
    """The name of the database that a clone makes."""
    return clone.status.database_ref or clone.spec.database_name or clone.metadata.name


def look(kubectl: Kubectl, *, everywhere: bool = False) -> View:
    """Ask for all of it. The three questions do not wait for each other."""
    scope = ["--all-namespaces"] if everywhere else []
    with ThreadPoolExecutor(3) as threads:
        ours = threads.submit(kubectl.items, together([kind.definition.plural for kind in KINDS]), *scope)
        pods = threads.submit(kubectl.items, "pods", "--selector", LABEL_DATABASE, *scope)
        warnings = threads.submit(_warnings, kubectl, scope)
        return View.of(ours.result(), pods.result(), warnings.result())


def _warnings(kubectl: Kubectl, scope: Sequence[str]) -> list[Body]:
    """Not everybody may see events, and everything else can be told without them."""
    try:
        return kubectl.items("events", "--field-selector", "type=Warning", *scope)
    except Failed:
        return []


def _key(database: SlateDatabase) -> tuple[str, str]:
    return database.metadata.namespace, database.metadata.name
