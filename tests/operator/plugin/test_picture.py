"""What `status` and `cost` make of a namespace, without a cluster."""

from __future__ import annotations

import io
from typing import Any

import pytest

from slate_operator.api.amount import size
from slate_operator.plugin import bill, tree
from slate_operator.plugin.kubectl import Failed, explained
from slate_operator.plugin.view import View
from slate_operator.plugin.words import dollars, span, when
from tests.operator.plugin import shop


@pytest.fixture
def view() -> View:
    return View.of(shop.ALL, shop.PODS)


def shown(thing: Any) -> list[str]:
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=200, soft_wrap=True).print(thing)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_database_and_all_that_belongs_to_it(view: View) -> None:
    assert shown(tree.whole(view, view.database("orders"), shop.NOW)) == [
        "shop/orders  Running  s3://shop/orders",
        "├── 3.0 GiB · manifest 42 · writer epoch 7 · 2 L0, 1 sorted run · $0.07 a month",
        "├── deletion: SoftDestroy after 7d",
        "├── writer at orders.shop.svc:6379",
        "├── readers at orders-readers.shop.svc:6379",
        "├── pods",
        "│   ├── writer    ready       orders-writer-7d-bbbbb  3m old",
        "│   ├── reader    ready       orders-readers-5c-ccccc  3m old",
        "│   ├── compactor ready       orders-compactor-4b-ddddd  3m old",
        "│   └── gc        ready       orders-gc-6f-aaaaa  3m old",
        "├── checkpoints",
        "│   └── before-sale  Ready  manifest 41 · for ever · keeps 1.0 GiB alone · needed by Clone/staging",
        "├── schedule nightly: 0 3 * * * Etc/UTC, next in 15h53m",
        "│   └── nightly-29916000  Ready  manifest 40 · expires in 2d",
        "├── clones",
        "│   └── staging  Ready  database staging · attached, shares 3.0 GiB",
        "├── bulk reads",
        "│   └── to-lake  Succeeded  s3://lake/orders · 1,840,220 rows · to-lake-read-1",
        "└── lineage",
        "    └── cloned to staging",
    ]


def test_clones_stand_under_their_sources(view: View) -> None:
    (only,) = tree.lineage(view, shop.NOW)
    assert shown(only) == [
        "shop/orders  Running  s3://shop/orders",
        "├── 4 of 4 pods ready · 2 Checkpoints · 3d old",
        "└── shop/staging  Running  s3://shop/staging",
        "    └── 0 of 0 pods ready · 0 Checkpoints · 3d old",
    ]
    assert shown(tree.whole(view, view.database("staging"), shop.NOW))[-1] == "    └── staging ← orders"


def test_a_clone_whose_source_is_gone_stands_alone() -> None:
    view = View.of((shop.STAGING, shop.CLONE))
    assert next(line for each in tree.lineage(view, shop.NOW) for line in shown(each)).startswith("shop/staging")


def test_a_database_cloned_by_its_own_bootstrap_has_the_same_lineage() -> None:
    spec = {"store": {"url": "s3://shop/b"}, "bootstrap": {"clone": {"checkpointRef": {"name": "before-sale"}}}}
    view = View.of((shop.ORDERS, shop.BEFORE_SALE, shop.body("SlateDatabase", "branch", spec)))
    parent = view.parent_of(view.database("branch"))
    assert parent is not None
    assert parent.metadata.name == "orders"


def test_what_is_deleted_says_what_it_waits_for() -> None:
    status = {
        "conditions": [shop.condition("Ready", "False", "Deleting", "It is being deleted.")],
        "deletion": {
            "requestedAt": shop.EARLIER,
            "deadline": shop.LATER,
            "blockedBy": [{"kind": "Checkpoint", "name": "x", "message": "Delete it."}],
        },
    }
    going = shop.body("SlateDatabase", "orders", shop.ORDERS["spec"], status, deletionTimestamp=shop.EARLIER)
    lines = shown(tree.whole(View.of([going]), View.of([going]).database("orders"), shop.NOW))
    assert lines[:2] == ["shop/orders  Deleting  s3://shop/orders", "It is being deleted."]
    assert "├── deletion asked for 1h ago, the grace ends in 2d" in lines
    assert "└── waits for Checkpoint x: Delete it." in lines


def test_json_has_the_same_facts(view: View) -> None:
    facts = tree.facts(view, view.database("orders"))
    assert facts["ready"] is True
    assert [each["role"] for each in facts["pods"]] == ["writer", "reader", "compactor", "gc"]
    assert facts["checkpoints"][1] == {
        "name": "nightly-29916000",
        "id": "1c1d",
        "ready": True,
        "manifest_id": 40,
        "expires_at": shop.LATER,
        "pinned_bytes": None,
        "schedule": "nightly",
    }
    assert facts["clones"] == [{"name": "staging", "database": "staging", "ready": True, "attached": True}]
    assert tree.facts(view, view.database("staging"))["cloned_from"] == "orders"


def test_shared_bytes_are_paid_for_once(view: View) -> None:
    orders, staging = bill.lines(view, 1.0)
    assert (orders.name, orders.dollars) == ("orders", 4.0)  # three GiB of its own and one for a checkpoint
    assert (staging.name, staging.dollars) == ("staging", 1.0)  # four GiB, of which three are its source's


def test_fields_of_a_newer_version_do_not_stop_it() -> None:
    newer = shop.body("SlateDatabase", "orders", {"store": {"url": "s3://shop/orders", "vault": {"name": "x"}}})
    assert View.of([newer]).database("orders").spec.store.url == "s3://shop/orders"


def test_a_name_that_is_not_there_is_told_with_those_that_are(view: View) -> None:
    with pytest.raises(Failed, match="there are: orders, staging"):
        view.database("order")


def test_times_sizes_and_money() -> None:
    assert [span(each) for each in (0, 59, 61, 3600, 90061, 604800)] == ["0s", "59s", "1m1s", "1h", "1d1h", "7d"]
    assert when(shop.EARLIER, shop.NOW) == "1h ago"
    assert when(shop.LATER, shop.NOW) == "in 2d"
    assert [size(each) for each in (12, 2048, 5 << 40)] == ["12 B", "2.0 KiB", "5.0 TiB"]
    assert [dollars(each) for each in (0, 0.001, 1234.5)] == ["$0.00", "less than $0.01", "$1,234.50"]


def test_a_cluster_without_our_kinds_is_explained() -> None:
    said = explained('error: the server doesn\'t have a resource type "slatedatabases"\n')
    assert "install Slatekeeper's chart" in said
    assert explained("Error from server (Forbidden): no\n") == "Error from server (Forbidden): no"
