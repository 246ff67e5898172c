"""The reference of the kinds, made from the models: ``python -m slate_operator.api.reference > docs/reference/kinds.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from slate_operator import names
from slate_operator.api.crd import KINDS, root
from slate_operator.api.resource import Resource
from slate_operator.api.rule import RULES
from slate_operator.api.schema import PRESERVE, Schema
from slate_operator.api.vocabulary import CONDITIONS, Meaning

HEAD = f"""\
# The kinds

<!-- Made from the code by `make docs`; a test fails when it is stale. -->

All are of `{names.API_VERSION}`, namespaced, and listed together by `kubectl get {names.CATEGORY}`.
`kubectl explain sdb.spec.writer` shows in a terminal what is written here. Times are written `7d`, `12h`, `90m`, `1h30m`;
sizes `512Mi`, `10Gi`.

The operator writes no spec, only statuses. Every object has `status.observedGeneration` (-1 until somebody has looked) and
exactly one condition `Ready`; `Reconciling` and `Stalled` are there only while they are true, as kstatus has it. So
`kubectl wait --for=condition=Ready`, [Argo CD and Flux](../how-to/gitops.md) tell the truth. `kubectl slate why` explains an
object that is not ready.
"""

DELETION = (
    ("`Retain`", "the pods go, the bytes stay", "the pods are gone"),
    (
        "`SoftDestroy`",
        "writer, compactor and readers stop, the database is marked as destroyed, the collector stays",
        "`deleteGrace` is over, no checkpoint or clone needs the database, and the bytes are gone",
    ),
    (
        "`Destroy`",
        "the same without a grace",
        "no checkpoint or clone needs the database, and the bytes are gone",
    ),
)
AFTER_DELETION = """\
`status.deletion.blockedBy` names what a deletion waits for. Set the policy of an object that is being deleted to `Retain`,
and it is released with its bytes kept: brought back first, if they are marked as destroyed already. `kubectl slate undelete`
does that and makes the object anew. Set it to `Destroy`, and the grace is not waited for. `deletionProtection` and `paused`
hold a deletion until they are taken back. With `deletionProtection` a database that is marked as destroyed is brought back,
whoever marked it, and a deletion that goes on later has its whole grace; with `paused` it stays marked, and the operator
does not delete it meanwhile, whatever the deadline.

When a namespace is deleted it does not wait for bytes: a database with another policy than `Retain` is marked as destroyed,
its object is released with an event, and the chart's reaper, if it is installed, deletes the bytes after the grace. One with
`deletionProtection` is left alive.
"""

EXAMPLES = {
    "SlateDatabase": """\
apiVersion: slatekeeper.io/v1alpha1
kind: SlateDatabase
metadata:
  name: orders
spec:
  store:
    url: s3://shop/orders
    secretRef:
      name: shop-bucket
  readers:
    replicas: 2
  deletionPolicy: SoftDestroy
""",
    "Checkpoint": """\
apiVersion: slatekeeper.io/v1alpha1
kind: Checkpoint
metadata:
  name: before-sale
spec:
  databaseRef:
    name: orders
  lifetime: 7d
""",
    "Clone": """\
apiVersion: slatekeeper.io/v1alpha1
kind: Clone
metadata:
  name: staging
spec:
  source:
    checkpointRef:
      name: before-sale
  template:
    spec:
      readers:
        replicas: 1
""",
    "CheckpointSchedule": """\
apiVersion: slatekeeper.io/v1alpha1
kind: CheckpointSchedule
metadata:
  name: nightly
spec:
  schedule: 0 3 * * *
  timeZone: Europe/Berlin
  successfulHistoryLimit: 7
  template:
    spec:
      databaseRef:
        name: orders
      lifetime: 14d
""",
    "BulkRead": """\
apiVersion: slatekeeper.io/v1alpha1
kind: BulkRead
metadata:
  name: orders-to-lake
spec:
  databaseRef:
    name: orders
  keys:
    prefix: "order:"
  decode:
    key: {format: utf8}
    value: {format: json, ddl: "total INT, tags ARRAY<STRING>"}
  sink:
    url: s3://lake/orders
    mode: Overwrite
  ttl: 1d
""",
}

LABELS = (
    (names.LABEL_DATABASE, "label of everything that is made for a database: its name"),
    (names.LABEL_ROLE, f"label of its pods and Deployments: {', '.join(f'`{role}`' for role in names.Role.ALL)}"),
    (names.LABEL_SCHEDULE, "label of Checkpoints that a CheckpointSchedule made"),
    (names.LABEL_CLONE, "label of SlateDatabases that a Clone made"),
    (names.LABEL_SPARK, "label of the pods and objects of one Spark job: its name"),
    (names.LABEL_OWNER, "label of the pods of one Spark job: the uid of the object that they run for"),
    (names.ANNOTATION_SCHEDULED_AT, "annotation of Checkpoints that a schedule made: the time that they are of"),
    (
        names.ANNOTATION_ROTATE,
        "annotation of a SlateDatabase: a new value makes new tokens, passwords and certificates",
    ),
    (
        names.ANNOTATION_TAKE,
        "annotation of a SlateDatabase: the uid of an owner that is gone for good, whose mark on the path may be replaced",
    ),
    (
        names.ANNOTATION_BRING_BACK,
        "annotation of a SlateDatabase: a new value brings its database back, if that was destroyed by the command `slate`",
    ),
    (names.ANNOTATION_APPLIED, "annotation of what is made: a digest of what was applied last"),
    (names.ANNOTATION_CONFIG, "annotation of pods: a digest of the configuration that they have read"),
    (names.ANNOTATION_SECRET, "annotation of pods: the version of the Secrets that they have read"),
    (names.FINALIZER_DATABASE, "finalizer of a SlateDatabase: its bytes and its path are not settled yet"),
    (names.FINALIZER_CHECKPOINT, "finalizer of a Checkpoint: the checkpoint is still in the database"),
    (names.FINALIZER_BULK_READ, "finalizer of a BulkRead: its driver may still run, and its state be held"),
)


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    for kind in KINDS:
        parts += _kind(kind)
    parts.append("## Labels, annotations, finalizers\n")
    parts.append(_table(("name", ""), ((f"`{name}`", meaning) for name, meaning in LABELS)))
    return "\n".join(parts).rstrip() + "\n"


def _kind(kind: type[Resource]) -> Iterator[str]:
    about, schema = kind.definition, root(kind)
    yield f"## {about.kind}\n"
    yield f"{schema['description']} `kubectl get {about.short}`.\n"
    yield f"```yaml\n{EXAMPLES[about.kind]}```\n"
    yield _table(("field", "type", ""), _fields(schema["properties"]["spec"], "spec"))
    if messages := list(_rules(schema)):
        yield "The API server refuses what breaks these rules:\n"
        yield "\n".join(f"- {message}." for message in messages) + "\n"
    if about.kind == "SlateDatabase":
        yield "### What happens at deletion\n"
        yield _table(("`deletionPolicy`", "what happens", "the object is there until"), DELETION)
        yield AFTER_DELETION
    yield f"### Status of a {about.kind}\n"
    yield _table(("field", "type", ""), _fields(schema["properties"]["status"], "status"))
    yield f"### Conditions of a {about.kind}\n"
    yield _table(("condition", "when true", "reasons"), map(_condition, CONDITIONS[about.kind]))


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """Every field, parents before their children. Conditions have a table of their own."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        yield f"`{here}`", _type(field) + (", required" if name in required else ""), field.get("description", "")
        if name != "conditions":
            yield from _fields(field.get("items", field), here + ("[]" if "items" in field else ""))


def _type(schema: Schema) -> str:
    match schema:
        case {"enum": values}:
            return " \\| ".join(f"`{value}`" for value in values)
        case {"items": items}:
            return f"list of {_type(items)}"
        case {"additionalProperties": values}:
            return f"map of {_type(values)}"
        case {"format": "date-time"}:
            return "time"
        case _ if PRESERVE in schema:
            return "object, as it is"
    return str(schema["type"])


def _rules(schema: Schema) -> Iterator[str]:
    seen: set[str] = set()
    stack: list[Any] = [schema]
    while stack:
        each = stack.pop(0)
        for rule in each.get(RULES, ()):
            if rule["message"] not in seen:
                seen.add(rule["message"])
                yield rule["message"]
        stack += each.get("properties", {}).values()


def _condition(meaning: Meaning) -> tuple[str, str, str]:
    reasons = [f"`{reason}`: {words}" for reason, words in meaning.reasons.items()]
    if meaning.elsewhere:
        reasons.append(("and " if reasons else "") + meaning.elsewhere)
    return f"`{meaning.type}`", meaning.when_true, "<br>".join(reasons)


def _table(columns: tuple[str, ...], rows: Any) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
