"""The picture of databases: what each is, what runs for it, what it keeps, and who was cloned from whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slate_operator import names
from slate_operator.api.amount import size
from slate_operator.api.bulk_read import BulkRead
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.conditions import find
from slate_operator.api.database import SlateDatabase
from slate_operator.api.schedule import CheckpointSchedule
from slate_operator.plugin.pod import Pod
from slate_operator.plugin.view import View, made_by
from slate_operator.plugin.words import ago, count, when

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

_ROLES = {
    role: place
    for place, role in enumerate((names.Role.WRITER, names.Role.READER, names.Role.COMPACTOR, names.Role.GC))
}


def facts(view: View, database: SlateDatabase) -> dict[str, Any]:
    """The same as JSON; the names are promised."""
    parent, status = view.parent_of(database), database.status
    ready = find(status.conditions, names.READY)
    return {
        "namespace": database.metadata.namespace,
        "name": database.metadata.name,
        "url": database.spec.store.url,
        "ready": ready is not None and ready.status == "True",
        "reason": ready.reason if ready else "",
        "message": ready.message if ready else "",
        "phase": status.phase,
        "deleting": database.metadata.deleting,
        "deletion_policy": database.spec.deletion_policy,
        "size_bytes": status.size_bytes,
        "manifest_id": status.manifest_id,
        "writer_epoch": status.writer_epoch,
        "cloned_from": parent.metadata.name if parent else None,
        "pods": [
            {"name": pod.name, "role": pod.role, "phase": pod.phase, "ready": pod.ready, "restarts": pod.restarts}
            | ({"trouble": pod.trouble} if pod.trouble else {})
            for pod in _in_order(view.pods_of(database))
        ],
        "checkpoints": [_checkpoint_facts(view, each) for each in view.checkpoints_of(database)],
        "schedules": [
            {"name": each.metadata.name, "schedule": each.spec.schedule, "next_run": each.status.next_run}
            for each in view.schedules_of(database)
        ],
        "clones": [
            {
                "name": each.metadata.name,
                "database": made_by(each),
                "ready": _ready(each),
                "attached": each.status.attached,
            }
            for each in view.clones_of(database)
        ],
        "bulk_reads": [
            {
                "name": each.metadata.name,
                "state": each.status.state,
                "rows": each.status.rows,
                "application": each.status.application,
            }
            for each in view.reads_of(database)
        ],
    }


def lineage(view: View, now: float) -> Iterator[Tree]:
    """All databases, each under the one that it was cloned from."""
    for database in view.databases:
        if view.parent_of(database) is None:
            yield _brief(view, database, now)


def whole(view: View, database: SlateDatabase, now: float) -> Tree:
    """One database with everything that belongs to it."""
    made = _root(database)
    for line in _about(database, now):
        made.add(_text(line))
    _section(made, "pods", [_pod(pod, now) for pod in _in_order(view.pods_of(database))])
    _section(made, "checkpoints", [_checkpoint(each, now) for each in _without_schedule(view, database)])
    for schedule in view.schedules_of(database):
        kept = [each for each in view.checkpoints_of(database) if view.schedule_of(each) == schedule.metadata.name]
        _section(made, _schedule(schedule, now), [_checkpoint(each, now) for each in kept], always=True)
    _section(made, "clones", [_clone(each) for each in view.clones_of(database)])
    _section(made, "bulk reads", [_read(each) for each in view.reads_of(database)])
    _section(made, "lineage", [_text(line) for line in _lineage(view, database)])
    return made


def _brief(view: View, database: SlateDatabase, now: float) -> Tree:
    made = _root(database)
    pods = view.pods_of(database)
    parts = [
        f"{sum(pod.ready for pod in pods)} of {count(len(pods), 'pod')} ready",
        count(len(view.checkpoints_of(database)), "Checkpoint"),
        f"{ago(database.metadata.creation_timestamp, now)} old",
    ]
    made.add(_text(" · ".join(parts), "dim"))
    for child in view.children_of(database):
        made.children.append(_brief(view, child, now))
    return made


def _root(database: SlateDatabase) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    name = f"{database.metadata.namespace}/{database.metadata.name}"
    label = Text.assemble((name, "bold"), "  ", _state(database), "  ", (database.spec.store.url, "cyan"))
    ready = find(database.status.conditions, names.READY)
    if ready is not None and ready.status != "True" and ready.message:
        label.append(f"\n{ready.message}", "yellow")
    return Tree(label, guide_style="dim")


def _state(thing: SlateDatabase | Checkpoint | Clone) -> Text:
    from rich.text import Text

    if thing.metadata.deleting:
        return Text("Deleting", "red")
    ready = find(thing.status.conditions, names.READY)
    if ready is None:
        return Text("not seen by the operator yet", "yellow")
    if ready.status == "True":
        return Text(thing.status.phase or "Ready", "green")
    return Text(thing.status.phase or ready.reason, "red" if ready.status == "False" else "yellow")


def _about(database: SlateDatabase, now: float) -> Iterator[str]:
    status, spec = database.status, database.spec
    shape = [
        *([size(status.size_bytes)] if status.size_bytes is not None else []),
        *([f"manifest {status.manifest_id}"] if status.manifest_id is not None else []),
        *([f"writer epoch {status.writer_epoch}"] if status.writer_epoch is not None else []),
        *([f"{status.l0} L0, {count(status.sorted_runs or 0, 'sorted run')}"] if status.l0 is not None else []),
        *([f"{status.estimated_monthly_cost} a month"] if status.estimated_monthly_cost else []),
    ]
    if shape:
        yield " · ".join(shape)
    grace = f" after {spec.delete_grace}" if spec.deletion_policy == "SoftDestroy" else ""
    protected = ", protected" if spec.deletion_protection else ""
    yield f"deletion: {spec.deletion_policy}{grace}{protected}"
    if status.endpoints is not None and status.endpoints.writer:
        yield f"writer at {status.endpoints.writer}"
    if status.endpoints is not None and status.endpoints.readers:
        yield f"readers at {status.endpoints.readers}"
    if status.deletion is not None:
        ends = f", the grace ends {when(status.deletion.deadline, now)}" if status.deletion.deadline else ""
        yield f"deletion asked for {when(status.deletion.requested_at, now)}{ends}"
        for blocker in status.deletion.blocked_by:
            yield f"waits for {blocker.kind} {blocker.name}: {blocker.message}".rstrip(": ")


def _pod(pod: Pod, now: float) -> Text:
    from rich.text import Text

    style = "green" if pod.ready else "red" if pod.trouble else "yellow"
    label = Text.assemble(f"{pod.role:<10}", (f"{'ready' if pod.ready else pod.phase:<12}", style), pod.name)
    label.append(f"  {ago(pod.created, now)} old", "dim")
    if pod.restarts:
        label.append(f", {count(pod.restarts, 'restart')}", "yellow")
    if pod.trouble:
        label.append(f"\n{pod.trouble}", "red")
    return label


def _checkpoint(checkpoint: Checkpoint, now: float) -> Text:
    from rich.text import Text

    status = checkpoint.status
    parts = [
        *([f"manifest {status.manifest_id}"] if status.manifest_id is not None else []),
        f"expires {when(status.expires_at, now)}" if status.expires_at else "for ever",
        *([f"keeps {size(status.pinned_bytes)} alone"] if status.pinned_bytes else []),
        *([f"needed by {', '.join(status.used_by)}"] if status.used_by else []),
    ]
    return Text.assemble(f"{checkpoint.metadata.name}  ", _state(checkpoint), ("  " + " · ".join(parts), "dim"))


def _schedule(schedule: CheckpointSchedule, now: float) -> str:
    if schedule.spec.suspend:
        then = "suspended"
    else:
        then = f"next {when(schedule.status.next_run, now)}" if schedule.status.next_run else "no run planned yet"
    return f"schedule {schedule.metadata.name}: {schedule.spec.schedule} {schedule.spec.time_zone}, {then}"


def _clone(clone: Clone) -> Text:
    from rich.text import Text

    status = clone.status
    shares = f", shares {size(status.shared_bytes)}" if status.shared_bytes else ""
    bond = {True: f"attached{shares}", False: "detached", None: "not made yet"}[status.attached]
    return Text.assemble(f"{clone.metadata.name}  ", _state(clone), (f"  database {made_by(clone)} · {bond}", "dim"))


def _read(read: BulkRead) -> Text:
    from rich.text import Text

    status = read.status
    style = {"Succeeded": "green", "Failed": "red"}.get(status.state or "", "yellow")
    parts = [
        *([read.spec.sink.url] if read.spec.sink is not None else []),
        *([f"{status.rows:,} rows"] if status.rows is not None else []),
        *([status.application] if status.application else []),
    ]
    state = Text(status.state or "not seen by the operator yet", style)
    return Text.assemble(f"{read.metadata.name}  ", state, ("  " + " · ".join(parts), "dim"))


def _lineage(view: View, database: SlateDatabase) -> Iterator[str]:
    chain, seen = [database.metadata.name], database
    while (parent := view.parent_of(seen)) is not None and parent.metadata.name not in chain:
        chain.append(parent.metadata.name)
        seen = parent
    if len(chain) > 1:
        yield " ← ".join(chain)
    for child in view.children_of(database):
        yield f"cloned to {child.metadata.name}"


def _without_schedule(view: View, database: SlateDatabase) -> list[Checkpoint]:
    known = {each.metadata.name for each in view.schedules_of(database)}
    return [each for each in view.checkpoints_of(database) if view.schedule_of(each) not in known]


def _section(tree: Tree, title: str, lines: list[Any], *, always: bool = False) -> None:
    if lines or always:
        branch = tree.add(_text(title, "bold"))
        for line in lines:
            branch.add(line)


def _text(line: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(line, style)


def _in_order(pods: list[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (_ROLES.get(pod.role, len(_ROLES)), pod.name))


def _ready(thing: Checkpoint | Clone) -> bool:
    ready = find(thing.status.conditions, names.READY)
    return ready is not None and ready.status == "True"


def _checkpoint_facts(view: View, checkpoint: Checkpoint) -> dict[str, Any]:
    status = checkpoint.status
    return {
        "name": checkpoint.metadata.name,
        "id": status.id,
        "ready": _ready(checkpoint),
        "manifest_id": status.manifest_id,
        "expires_at": status.expires_at,
        "pinned_bytes": status.pinned_bytes,
        "schedule": view.schedule_of(checkpoint),
    }
