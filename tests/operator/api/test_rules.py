"""Every rule of every kind, asked of the real API server: something that it takes, and something that it refuses, with the
words that the rule has for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from slate_engine.spark.parquet.folder import SCHEMES
from slate_engine.store.options import OPTIONS
from slate_operator.api import crd
from slate_operator.api.bulk_read import OWN_SCHEMES, BulkRead
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.database import SlateDatabase
from slate_operator.api.resource import Resource
from slate_operator.api.rule import RULES
from slate_operator.api.schedule import CheckpointSchedule
from slate_operator.api.store import SECRET_OPTIONS
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.api.objects import Body, Objects, Refused, body
from tests.operator.api.test_crds import walk

ID = "0b0c7dc0-6d2a-4e27-9d5b-2f3c1d0a9e11"
URL = {"store": {"url": "s3://shop/orders"}}
DATABASE = {"databaseRef": {"name": "orders"}}
CLONE = {"source": {"databaseRef": {"name": "orders"}}}
NIGHTLY = {"schedule": "0 3 * * *", "template": {"spec": DATABASE}}
SINK = {"url": "s3://lake/orders"}
READ = {**DATABASE, "sink": SINK}
ICEBERG = {"url": "catalog.sales.orders", "format": "iceberg"}
OWNED = {"observedGeneration": 1, "conditions": [{"type": "Owned", "status": "True", "reason": "Claimed"}]}


@dataclass(frozen=True)
class Made:
    """A rule about what is made: specs (or names) that are taken, and one that is not."""

    kind: type[Resource]
    message: str
    taken: tuple[Body, ...]
    refused: tuple[Body, ...]


@dataclass(frozen=True)
class Changed:
    """A rule about changes of an object that is there already."""

    kind: type[Resource]
    message: str
    before: Body
    taken: tuple[Body, ...]
    refused: tuple[Body, ...]
    status: Body | None = None


def store(url: str = "s3://shop/orders", **more: Any) -> Body:
    return {"store": {"url": url, **more}}


def named(name: str, spec: Body) -> Body:
    return {"name": name, "spec": spec}


MADE = (
    Made(
        SlateDatabase,
        "the name of a SlateDatabase becomes that of Services",
        taken=(named("o", URL), named("o" * 52, URL)),
        refused=(named("1st", URL), named("o" * 53, URL), named("my.orders", URL)),
    ),
    Made(
        SlateDatabase,
        "the url of a database is that of a bucket and a path in it",
        taken=tuple(
            store(url)
            for url in (
                "gs://b/a/b",
                "az://c/x",
                "abfss://c@account.dfs.core.windows.net/x",
                "file:///tmp/x",
                "s3://b/.x",
            )
        ),
        refused=tuple(
            store(url)
            for url in (
                "s3://bucket",
                "s3://b/x/",
                "s3://b//x",
                "s3://b/../x",
                "s3://key:secret@b/x",
                "memory:///x",
                "/x/y/z",
            )
        ),
    ),
    Made(
        SlateDatabase,
        "serviceAccountAnnotations are for the service account that is made",
        taken=(store(serviceAccountName="mine"), store(serviceAccountAnnotations={"a": "b"})),
        refused=(store(serviceAccountName="mine", serviceAccountAnnotations={"a": "b"}),),
    ),
    Made(
        SlateDatabase,
        "options are no place for secrets",
        taken=(store(options={"endpoint": "http://s3:7070", "allow_http": "true"}),),
        refused=tuple(
            store(options={name: "x"}) for name in ("secret_access_key", "AWS_SECRET_ACCESS_KEY", "token", "cas")
        ),
    ),
    Made(
        SlateDatabase,
        "give either databaseRef or checkpointRef",
        taken=({**URL, "bootstrap": {"clone": {"checkpointRef": {"name": "x"}}}},),
        refused=(
            {**URL, "bootstrap": {"clone": {}}},
            {**URL, "bootstrap": {"clone": {"checkpointRef": {"name": "x"}, "databaseRef": {"name": "x"}}}},
        ),
    ),
    Made(
        SlateDatabase,
        "a database begins in one way",
        taken=({**URL, "bootstrap": {}}, {**URL, "bootstrap": {"adopt": {}}}, {**URL, "bootstrap": {"recover": {}}}),
        refused=({**URL, "bootstrap": {"adopt": {}, "recover": {}}},),
    ),
    Made(
        SlateDatabase,
        "the mode Image runs an image of yours",
        taken=({**URL, "writer": {"mode": "Image", "image": "shop:1"}},),
        refused=({**URL, "writer": {"mode": "Image"}},),
    ),
    Made(
        SlateDatabase,
        "writer.image is not for the mode Server",
        taken=({**URL, "writer": {}}, {**URL, "writer": {"mode": "External", "image": "shop:1"}}),
        refused=({**URL, "writer": {"image": "shop:1"}}, {**URL, "writer": {"mode": "Server", "image": "shop:1"}}),
    ),
    Made(
        Checkpoint,
        "the name of a Checkpoint has at most 63 characters",
        taken=(named("c" * 63, DATABASE),),
        refused=(named("c" * 64, DATABASE), named("a.b", DATABASE)),
    ),
    Made(
        Checkpoint,
        "a checkpoint has one scope",
        taken=({**DATABASE, "scope": {"all": {}}}, {**DATABASE, "scope": {"durable": {}}}),
        refused=({**DATABASE, "scope": {}}, {**DATABASE, "scope": {"all": {}, "durable": {}}}),
    ),
    Made(
        Checkpoint,
        "a checkpoint has one source",
        taken=({**DATABASE, "source": {"id": ID}}, {**DATABASE, "source": {"checkpointRef": {"name": "x"}}}),
        refused=({**DATABASE, "source": {}}, {**DATABASE, "source": {"id": ID, "checkpointRef": {"name": "x"}}}),
    ),
    Made(
        Checkpoint,
        "the scope all asks the writer",
        taken=({**DATABASE, "source": {"id": ID}, "scope": {"durable": {}}},),
        refused=({**DATABASE, "source": {"id": ID}, "scope": {"all": {}}},),
    ),
    Made(
        Checkpoint,
        "a lifetime is longer than nothing",
        taken=({**DATABASE, "lifetime": "1h30m"}, {**DATABASE, "lifetime": "10d"}),
        refused=({**DATABASE, "lifetime": "0s"}, {**DATABASE, "lifetime": "0h00m"}),
    ),
    Made(
        Clone,
        "the name of a Clone becomes that of Services",
        taken=(named("c" * 52, CLONE),),
        refused=(named("c" * 53, CLONE), named("2", CLONE)),
    ),
    Made(Clone, "give either databaseRef or checkpointRef", taken=(CLONE,), refused=({"source": {}},)),
    Made(
        Clone,
        "a clone is at one place",
        taken=(
            {**CLONE, "target": {"path": "a/b"}},
            {**CLONE, "target": {"url": "s3://shop/b"}},
            {**CLONE, "target": {}},
        ),
        refused=({**CLONE, "target": {"path": "a/b", "url": "s3://shop/b"}},),
    ),
    Made(
        Clone,
        "the url of a database is that of a bucket and a path in it",
        taken=({**CLONE, "target": {"url": "s3://shop/b"}},),
        refused=({**CLONE, "target": {"url": "shop/b"}},),
    ),
    Made(
        Clone,
        "a path begins and ends without a slash",
        taken=({**CLONE, "target": {"path": "b"}},),
        refused=tuple({**CLONE, "target": {"path": path}} for path in ("/b", "b/", "a//b", "..", "a/../b")),
    ),
    Made(
        CheckpointSchedule,
        "the name of a CheckpointSchedule has at most 52 characters",
        taken=(named("s" * 52, NIGHTLY),),
        refused=(named("s" * 53, NIGHTLY),),
    ),
    Made(
        CheckpointSchedule,
        "a schedule has five fields",
        taken=({**NIGHTLY, "schedule": "@daily"}, {**NIGHTLY, "schedule": "*/5 2-4 * JAN mon"}),
        refused=tuple(
            {**NIGHTLY, "schedule": text}
            for text in ("daily", "0 3 * *", "0 0 3 * * *", "TZ=UTC 0 3 * * *", "TZ=UTC 3 * * *")
        ),
    ),
    Made(
        CheckpointSchedule,
        "a schedule keeps the state at each of its times",
        taken=({**NIGHTLY, "template": {"spec": {**DATABASE, "scope": {"all": {}}}}},),
        refused=({**NIGHTLY, "template": {"spec": {**DATABASE, "source": {"id": ID}}}},),
    ),
    Made(
        CheckpointSchedule,
        "a checkpoint has one scope",
        taken=(NIGHTLY,),
        refused=({**NIGHTLY, "template": {"spec": {**DATABASE, "scope": {}}}},),
    ),
    Made(
        CheckpointSchedule,
        "a lifetime is longer than nothing",
        taken=({**NIGHTLY, "template": {"spec": {**DATABASE, "lifetime": "7d"}}},),
        refused=({**NIGHTLY, "template": {"spec": {**DATABASE, "lifetime": "0d"}}},),
    ),
    # Two rules of Checkpoints that the template has with them, behind the one that forbids a source.
    Made(
        CheckpointSchedule,
        "a checkpoint has one source",
        taken=(NIGHTLY,),
        refused=({**NIGHTLY, "template": {"spec": {**DATABASE, "source": {}}}},),
    ),
    Made(
        CheckpointSchedule,
        "the scope all asks the writer",
        taken=(NIGHTLY,),
        refused=({**NIGHTLY, "template": {"spec": {**DATABASE, "source": {"id": ID}, "scope": {"all": {}}}}},),
    ),
    Made(
        BulkRead,
        "the name of a BulkRead has at most 40 characters",
        taken=(named("r" * 40, READ),),
        refused=(named("r" * 41, READ), named("a.b", READ)),
    ),
    Made(
        BulkRead,
        "a bulk read is of one state",
        taken=({"checkpointRef": {"name": "x"}, "sink": SINK},),
        refused=({"sink": SINK}, {**READ, "checkpointRef": {"name": "x"}}),
    ),
    Made(
        BulkRead,
        "give either sink",
        taken=({**DATABASE, "application": {"mainFile": "local:///a.py"}},),
        refused=(DATABASE, {**READ, "application": {"mainFile": "local:///a.py"}}),
    ),
    Made(
        BulkRead,
        "an application of your own chooses its keys",
        taken=({**READ, "keys": {"prefix": "a"}, "columns": ["key"], "where": "seq > 1"},),
        refused=(
            {**DATABASE, "application": {"mainFile": "local:///a.py"}, "columns": ["key"]},
            {**DATABASE, "application": {"mainFile": "local:///a.py"}, "decode": {"key": {"format": "utf8"}}},
        ),
    ),
    Made(
        BulkRead,
        "an Append to this sink is not tried again",
        taken=(
            {**DATABASE, "sink": {**ICEBERG, "mode": "Append"}},
            {**DATABASE, "sink": {**ICEBERG, "mode": "Append"}, "retries": 0},
            {**DATABASE, "sink": ICEBERG, "retries": 3},
            {**DATABASE, "sink": {**ICEBERG, "format": "delta", "mode": "Append"}, "retries": 3},
            *(
                {**DATABASE, "sink": {"url": f"{each}://lake/a", "mode": "Append"}, "retries": 3}
                for each in OWN_SCHEMES
            ),
            {**DATABASE, "sink": {"url": "S3://lake/a", "mode": "Append"}, "retries": 3},
            {**DATABASE, "application": {"mainFile": "local:///a.py"}, "retries": 3},
        ),
        refused=tuple(
            {**DATABASE, "sink": {**sink, "mode": "Append"}, "retries": 1}
            for sink in (
                ICEBERG,
                {"url": "s3://lake/a", "format": "iceberg"},
                {"url": "s3a://lake/a"},
                {"url": "/lake/a"},
            )
        ),
    ),
    Made(
        BulkRead,
        "a format is one of binary",
        taken=tuple({**READ, "decode": {"value": {"format": each}}} for each in ("utf8", "uint64", "app.rows:decode")),
        refused=tuple({**READ, "decode": {"value": {"format": each}}} for each in ("int8", "rows decode", "a:b:c")),
    ),
    Made(
        BulkRead,
        "the url of a sink holds no password",
        taken=({**DATABASE, "sink": {"url": "abfss://lake@account.dfs.core.windows.net/orders"}},),
        refused=tuple({**DATABASE, "sink": {"url": url}} for url in ("s3://me:secret@lake/a", "s3://lake/a b")),
    ),
    Made(
        BulkRead,
        "options are no place for secrets",
        taken=({**DATABASE, "sink": {**SINK, "storeOptions": {"region": "eu", "federated_token_file": "/t"}}},),
        refused=tuple(
            {**DATABASE, "sink": {**SINK, "storeOptions": {name: "x"}}} for name in ("secret_access_key", "Account_Key")
        ),
    ),
    Made(
        BulkRead,
        "names of conf begin with `spark.`",
        taken=({**READ, "spark": {"conf": {"spark.sql.shuffle.partitions": "8"}}},),
        refused=tuple(
            {**READ, "spark": {"conf": {name: "x"}}}
            for name in (
                "sql.shuffle",
                "spark.hadoop.fs.s3a.secret.key",
                "spark.hadoop.fs.s3a.access.key",
                "spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net",
            )
        ),
    ),
    Made(
        SlateDatabase,
        "names of conf begin with `spark.`",
        taken=({**URL, "compactor": {"spark": {"conf": {"spark.task.maxFailures": "8"}}}},),
        refused=({**URL, "compactor": {"spark": {"conf": {"spark.password": "x"}}}},),
    ),
    Made(
        SlateDatabase,
        "compactor.spark works for the compactor",
        taken=({**URL, "compactor": {"spark": {"largerThan": "50Gi"}}}, {**URL, "compactor": {"enabled": False}}),
        refused=({**URL, "compactor": {"enabled": False, "spark": {}}},),
    ),
)

CHANGED = (
    Changed(
        SlateDatabase,
        "the place of a database cannot be changed",
        before=URL,
        taken=({**store(secretRef={"name": "keys"}), "deletionPolicy": "SoftDestroy", "deleteGrace": "1h"},),
        refused=(store("s3://shop/others"),),
    ),
    Changed(
        SlateDatabase,
        "the database has begun, and how it did cannot be changed",
        before={**URL, "bootstrap": {"empty": {}}},
        status=OWNED,
        taken=(URL, {**URL, "bootstrap": {"empty": {}}, "paused": True}),
        refused=({**URL, "bootstrap": {"adopt": {}}}, {**URL, "bootstrap": {"recover": {}}}),
    ),
    Changed(
        Checkpoint,
        "a checkpoint keeps what it was made from",
        before={**DATABASE, "source": {"id": ID}},
        taken=({**DATABASE, "source": {"id": ID}, "lifetime": "7d", "deletionPolicy": "Retain"},),
        refused=(
            DATABASE,
            {**DATABASE, "source": {"checkpointRef": {"name": "x"}}},
            {"databaseRef": {"name": "others"}, "source": {"id": ID}},
            {**DATABASE, "source": {"id": ID}, "scope": {"durable": {}}},
        ),
    ),
    Changed(
        Clone,
        "a Clone is carried out once",
        before=CLONE,
        taken=(CLONE,),
        refused=({**CLONE, "databaseName": "x"}, {"source": {"databaseRef": {"name": "others"}}}),
    ),
    Changed(
        BulkRead,
        "a bulk read is carried out once",
        before=READ,
        taken=({**READ, "ttl": "1h", "deadline": "2h", "retries": 3},),
        refused=(
            {**DATABASE, "sink": {"url": "s3://lake/others"}},
            {**READ, "columns": ["key"]},
            {**READ, "spark": {"executor": {"instances": 3}}},
        ),
    ),
)


def test_all_options_that_are_secret_are_refused() -> None:
    """The operator does not import the engine, so it has a list of its own."""
    secret = {name.lower() for option in OPTIONS if option.secret for name in (option.name, *option.variables)}
    assert set(SECRET_OPTIONS) == secret


def test_all_places_where_the_engine_writes_parquet_itself_are_known() -> None:
    assert OWN_SCHEMES == SCHEMES


@pytest.fixture(scope="module")
def objects(kinds: ApiServer) -> Objects:
    return Objects(kinds)


def _of(kind: type[Resource], given: Body) -> Body:
    return body(kind, given["spec"], given["name"]) if set(given) == {"name", "spec"} else body(kind, given)


@pytest.mark.parametrize("rule", MADE, ids=lambda rule: f"{rule.kind.__name__}: {rule.message[:40]}")
def test_a_rule_about_what_is_made(objects: Objects, rule: Made) -> None:
    for given in rule.taken:
        objects.create(rule.kind, _of(rule.kind, given), dry=True)
    for given in rule.refused:
        with pytest.raises(Refused, match=rule.message):
            objects.create(rule.kind, _of(rule.kind, given), dry=True)


@pytest.mark.parametrize("rule", CHANGED, ids=lambda rule: f"{rule.kind.__name__}: {rule.message[:40]}")
def test_a_rule_about_changes(objects: Objects, rule: Changed) -> None:
    made = objects.create(rule.kind, body(rule.kind, rule.before, "changing"))
    try:
        if rule.status is not None:
            made = objects.set_status(rule.kind, "changing", rule.status)
        for spec in rule.taken:
            objects.replace(rule.kind, {**made, "spec": spec}, dry=True)
        for spec in rule.refused:
            with pytest.raises(Refused, match=rule.message):
                objects.replace(rule.kind, {**made, "spec": spec}, dry=True)
    finally:
        objects.delete(rule.kind, "changing")


def test_how_a_database_begins_can_be_corrected_until_it_has_begun(objects: Objects) -> None:
    made = objects.create(SlateDatabase, body(SlateDatabase, URL, "early"))
    try:
        objects.replace(SlateDatabase, {**made, "spec": {**URL, "bootstrap": {"adopt": {}}}}, dry=True)
    finally:
        objects.delete(SlateDatabase, "early")


def test_what_was_adopted_may_be_described_as_it_had_begun(objects: Objects) -> None:
    made = objects.create(SlateDatabase, body(SlateDatabase, {**URL, "bootstrap": {"adopt": {}}}, "again"))
    try:
        made = objects.set_status(SlateDatabase, "again", OWNED)
        clone = {"clone": {"databaseRef": {"name": "orders"}}}
        objects.replace(SlateDatabase, {**made, "spec": {**URL, "bootstrap": clone}}, dry=True)
    finally:
        objects.delete(SlateDatabase, "again")


def test_a_template_can_be_changed(objects: Objects) -> None:
    made = objects.create(CheckpointSchedule, body(CheckpointSchedule, NIGHTLY, "nightly"))
    try:
        other = {**NIGHTLY, "template": {"spec": {"databaseRef": {"name": "others"}, "scope": {"durable": {}}}}}
        objects.replace(CheckpointSchedule, {**made, "spec": other}, dry=True)
    finally:
        objects.delete(CheckpointSchedule, "nightly")


def test_no_rule_is_untested() -> None:
    tested = [(rule.kind, rule.message) for rule in (*MADE, *CHANGED)]
    for kind, message in declared():
        found = [words for owner, words in tested if owner is kind and message.startswith(words)]
        assert len(found) == 1, f"{kind.__name__}: {message}"


def declared() -> Iterator[tuple[type[Resource], str]]:
    for kind in crd.KINDS:
        seen = {rule["message"] for _, schema in walk(crd.root(kind)) for rule in schema.get(RULES, ())}
        yield from ((kind, message) for message in seen)


def test_what_is_not_in_the_schema_is_refused(objects: Objects) -> None:
    with pytest.raises(Refused, match=r"unknown field \\?\"spec.readers.replica\\?\""):
        objects.create(SlateDatabase, body(SlateDatabase, {**URL, "readers": {"replica": 2}}), dry=True)
    with pytest.raises(Refused, match="Unsupported value"):
        objects.create(SlateDatabase, body(SlateDatabase, {**URL, "deletionPolicy": "Keep"}), dry=True)
    with pytest.raises(Refused, match="should match"):
        objects.create(SlateDatabase, body(SlateDatabase, {**URL, "deleteGrace": "7 days"}), dry=True)
    with pytest.raises(Refused, match=r"spec\.store: Required value"):
        objects.create(SlateDatabase, body(SlateDatabase, {}), dry=True)


def test_what_belongs_to_others_is_kept(objects: Objects) -> None:
    template = {"spec": {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "slate", "env": []}]}}
    spec = {**URL, "writer": {"podTemplate": template, "settings": {"flush_interval": "100ms"}}}
    made = objects.create(SlateDatabase, body(SlateDatabase, spec), dry=True)
    assert made["spec"]["writer"]["podTemplate"] == template
    assert made["spec"]["writer"]["settings"] == {"flush_interval": "100ms"}
    assert SlateDatabase.of(made).spec.writer.pod_template == template
