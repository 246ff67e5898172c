"""The cache: the newest state of each object, whatever the order in which it is told."""

from __future__ import annotations

from typing import Any

from slate_operator.kube.cache import Cache
from slate_operator.kube.cluster import CHECKPOINTS, PODS, Key, Kind
from slate_operator.kube.freshness import Freshness
from tests.operator.edge.clocks import HandClock

KEY = Key("default", "one")


def body(version: int, uid: str = "u1", **rest: Any) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, **rest}


def listened() -> tuple[Cache, list[tuple[str | None, str | None]]]:
    cache, heard = Cache([CHECKPOINTS, PODS]), []

    def listen(kind: Kind, key: Key, old: Any, new: Any) -> None:
        heard.append(tuple(each and each["metadata"]["resourceVersion"] for each in (old, new)))

    cache.listener = listen
    return cache, heard


def test_an_object_never_goes_back() -> None:
    cache, heard = listened()
    assert cache.put(CHECKPOINTS, body(9))
    assert not cache.put(CHECKPOINTS, body(9))
    assert not cache.put(CHECKPOINTS, body(8))
    assert cache.put(CHECKPOINTS, body(10)), "resource versions are numbers: 10 is newer than 9"
    assert heard == [(None, "9"), ("9", "10")]


def test_what_is_gone_stays_gone_when_old_news_comes_late() -> None:
    cache, _ = listened()
    cache.put(CHECKPOINTS, body(5))
    cache.drop(CHECKPOINTS, body(7))
    assert not cache.put(CHECKPOINTS, body(6))
    assert cache.get(CHECKPOINTS, KEY) is None
    assert cache.put(CHECKPOINTS, body(6, uid="u2")), "another object of the same name is another object"


def test_the_end_of_the_one_before_does_not_take_its_successor() -> None:
    cache, _ = listened()
    cache.put(CHECKPOINTS, body(5))
    cache.put(CHECKPOINTS, body(8, uid="u2"))
    assert not cache.drop(CHECKPOINTS, body(7))
    found = cache.get(CHECKPOINTS, KEY)
    assert found is not None
    assert found["metadata"]["uid"] == "u2"


def test_a_list_ends_what_it_no_longer_shows_but_not_what_came_meanwhile() -> None:
    cache, heard = listened()
    cache.put(CHECKPOINTS, body(5))
    before = list(cache.all(CHECKPOINTS))
    late = body(9, uid="u9")
    late["metadata"]["name"] = "nine"
    cache.put(CHECKPOINTS, late)
    cache.drop_unlisted(CHECKPOINTS, None, set(), before)
    assert [each["metadata"]["name"] for each in cache.all(CHECKPOINTS)] == ["nine"]
    assert heard[-1] == ("5", None)


def test_only_what_is_read_is_kept() -> None:
    cache, _ = listened()
    pod = body(
        1, spec={"nodeName": "n", "containers": [{"name": "slate", "image": "i", "env": ["secret"]}], "volumes": []}
    )
    pod["metadata"] |= {"managedFields": [1], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}}
    cache.put(PODS, pod)
    kept = cache.get(PODS, KEY)
    assert kept is not None
    assert kept["spec"] == {"nodeName": "n", "containers": [{"name": "slate", "image": "i"}]}
    assert kept["metadata"]["annotations"] == {}
    assert "managedFields" not in kept["metadata"]
    assert "managedFields" in pod["metadata"], "what others handed in was changed"


async def test_a_watch_that_owes_news_is_late_and_one_that_brings_newer_ones_is_not() -> None:
    clock = HandClock()
    fresh = Freshness(clock, patience=60)
    fresh.expect(CHECKPOINTS, body(5))
    await clock.pass_(50)
    fresh.expect(CHECKPOINTS, body(6))
    await clock.pass_(20)
    assert "checkpoints" in fresh.late()[0], "a new debt must not put off the old one"
    fresh.saw(CHECKPOINTS, body(5))
    assert fresh.late(), "it still owes version 6"
    fresh.saw(CHECKPOINTS, body(7))
    assert fresh.late() == []
    fresh.expect(PODS, body(8))
    fresh.forget(PODS, body(9))
    await clock.pass_(100)
    assert fresh.late() == []
