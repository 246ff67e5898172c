"""The client of the API server, on the real one: what it sends, what it leaves, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from slate_operator.kube.cluster import (
    CHECKPOINTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    SECRETS,
    Conflict,
    Key,
    Kind,
    NameTaken,
    Refused,
    Unreachable,
)
from slate_operator.kube.requests import Place, Requests, connect
from slate_operator.names import ANNOTATION_APPLIED, FIELD_MANAGER, LABEL_DATABASE, STATUS_MANAGER
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.edge.world import OWNER, Object, checkpoint, config_map, world


def managers(kinds: ApiServer, *words: str) -> set[str]:
    fields = kinds.kubectl.get(*words, "--show-managed-fields")["metadata"]["managedFields"]
    return {entry["manager"] for entry in fields if entry["operation"] == "Apply"}


async def test_the_same_is_not_applied_again_and_a_change_is(kinds: ApiServer, place: str) -> None:
    async with world(kinds) as here:
        await here.cluster.apply(CONFIG_MAPS, config_map(place, a="1", b="2"))
        assert here.took() == {("get", "configmaps"): 1, ("patch", "configmaps"): 1}
        await here.cluster.apply(CONFIG_MAPS, config_map(place, a="1", b="2"))
        assert here.took() == {}, "it was sent again"
        await here.cluster.apply(CONFIG_MAPS, config_map(place, a="1"))
        assert here.took() == {("patch", "configmaps"): 1}
    stored = kinds.kubectl.get("configmap/settings", "-n", place)
    assert stored["data"] == {"a": "1"}, "what is no longer wanted is still there"
    assert ANNOTATION_APPLIED in stored["metadata"]["annotations"]
    assert managers(kinds, "configmap/settings", "-n", place) == {FIELD_MANAGER}


async def test_a_new_process_sends_nothing_that_stands(kinds: ApiServer, place: str) -> None:
    async with world(kinds) as first:
        await first.cluster.apply(CONFIG_MAPS, config_map(place, a="1"))
        await first.cluster.apply(DEPLOYMENTS, deployment(place))
    async with world(kinds) as second:
        await second.informer.list_all()
        second.took()
        await second.cluster.apply(CONFIG_MAPS, config_map(place, a="1"))
        await second.cluster.apply(DEPLOYMENTS, deployment(place))
        assert second.took() == {}


async def test_what_somebody_changed_is_mended_and_what_he_added_stays(kinds: ApiServer, place: str) -> None:
    async with world(kinds) as here:
        await here.cluster.apply(DEPLOYMENTS, deployment(place))
        kinds.kubectl("scale", "deployment/d", "--replicas=7", "-n", place)
        kinds.kubectl("label", "deployment/d", "mine=yes", "-n", place)
        await here.informer.list_all()
        here.took()
        await here.cluster.apply(DEPLOYMENTS, deployment(place))
        assert here.took() == {("patch", "deployments"): 1}
    stored = kinds.kubectl.get("deployment/d", "-n", place)
    assert stored["spec"]["replicas"] == 1
    assert stored["metadata"]["labels"]["mine"] == "yes"


async def test_what_the_server_spells_differently_is_sent_once(kinds: ApiServer, place: str) -> None:
    wanted = deployment(place)
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1000m", "memory": "1024Mi"}
    }
    async with world(kinds) as here:
        for _ in range(3):
            await here.cluster.apply(DEPLOYMENTS, wanted)
        assert here.took()[("patch", "deployments")] == 1


async def test_a_status_is_written_only_if_it_differs(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    key = Key(place, "one")
    status: Object = {"observedGeneration": 1, "phase": "Ready", "conditions": []}
    async with world(kinds) as here:
        await here.informer.list_all()
        here.took()
        await here.cluster.set_status(CHECKPOINTS, key, {**status, "manifestId": 3})
        await here.cluster.set_status(CHECKPOINTS, key, {**status, "manifestId": 3})
        assert here.took() == {("patch", "checkpoints/status"): 1}
        await here.cluster.set_status(CHECKPOINTS, key, status)
        assert here.took() == {("patch", "checkpoints/status"): 1}
        assert "manifestId" not in kinds.kubectl.get("checkpoint/one", "-n", place)["status"]
        assert managers(kinds, "checkpoint/one", "-n", place) >= {STATUS_MANAGER}
        await here.cluster.set_status(CHECKPOINTS, Key(place, "nobody"), status)
        assert here.took() == {}, "there is no such object"


async def test_a_status_of_an_object_that_was_replaced_meanwhile_is_not_given_to_its_successor(
    kinds: ApiServer, place: str
) -> None:
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    async with world(kinds) as here:
        await here.informer.list_all()
        kinds.kubectl("delete", "checkpoint/one", "-n", place)
        kinds.kubectl.apply([checkpoint(place)], namespace=place)
        with pytest.raises(Conflict):
            await here.cluster.set_status(CHECKPOINTS, Key(place, "one"), {"observedGeneration": 1, "phase": "Ready"})


async def test_finalizers_are_set_only_on_what_was_seen(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    key = Key(place, "one")
    async with world(kinds) as here:
        await here.informer.list_all()
        seen = await here.cluster.get(CHECKPOINTS, key)
        assert seen is not None
        await here.cluster.set_finalizers(CHECKPOINTS, seen, ["slatekeeper.io/test"])
        with pytest.raises(Conflict):
            await here.cluster.set_finalizers(CHECKPOINTS, seen, ["slatekeeper.io/other"])
        now = await here.cluster.get(CHECKPOINTS, key)
        assert now is not None
        assert now["metadata"]["finalizers"] == ["slatekeeper.io/test"], "its own write was not taken in"
        here.took()
        await here.cluster.set_finalizers(CHECKPOINTS, now, ["slatekeeper.io/test"])
        assert here.took() == {}
        kinds.kubectl("delete", "checkpoint/one", "-n", place, "--wait=false")
        await here.informer.list_all()
        dying = await here.cluster.get(CHECKPOINTS, key)
        assert dying is not None
        await here.cluster.set_finalizers(CHECKPOINTS, dying, [])
        assert await here.cluster.get(CHECKPOINTS, key) is None, "its end is not known"
    assert not kinds.kubectl.answers("get", "checkpoint/one", "-n", place)


async def test_of_a_secret_only_its_version_is_read(kinds: ApiServer, place: str) -> None:
    kinds.kubectl("create", "secret", "generic", "keys", "--from-literal=a=b", "-n", place)
    async with world(kinds) as here:
        version = await here.cluster.version(SECRETS, Key(place, "keys"))
        assert version == kinds.kubectl.get("secret/keys", "-n", place)["metadata"]["resourceVersion"]
        assert await here.cluster.version(SECRETS, Key(place, "nothing")) is None
        assert await here.cluster.get(NAMESPACES, Key("", place)) is not None


async def test_what_is_not_ours_is_found_though_no_watch_shows_it(kinds: ApiServer, place: str) -> None:
    foreign = config_map(place, "foreign", a="1")
    del foreign["metadata"]["labels"]
    kinds.kubectl.apply([foreign, config_map(place, "ours")], namespace=place)
    async with world(kinds) as here:
        await here.informer.list_all()
        here.took()
        assert await here.cluster.get(CONFIG_MAPS, Key(place, "foreign")) is not None
        assert here.took() == {("get", "configmaps"): 1}
        found = await here.cluster.list(CONFIG_MAPS, place, {LABEL_DATABASE: "orders"})
        assert [each["metadata"]["name"] for each in found] == ["ours"]
        assert here.took() == {}
        names = {each["metadata"]["name"] for each in await here.cluster.list(CONFIG_MAPS, place)}
        assert names >= {"ours", "foreign"}


async def test_what_is_not_ours_is_never_overwritten(kinds: ApiServer, place: str) -> None:
    foreign = config_map(place, a="mine")
    del foreign["metadata"]["labels"], foreign["metadata"]["ownerReferences"]
    kinds.kubectl.apply([foreign], namespace=place)
    async with world(kinds) as here:
        with pytest.raises(NameTaken, match=f"label it {LABEL_DATABASE}=orders to have it taken over"):
            await here.cluster.apply(CONFIG_MAPS, config_map(place, a="1"))
    assert kinds.kubectl.get("configmap/settings", "-n", place)["data"] == {"a": "mine"}
    kinds.kubectl("label", "configmap/settings", f"{LABEL_DATABASE}=orders", "-n", place)
    async with world(kinds) as here:
        await here.cluster.apply(CONFIG_MAPS, config_map(place, a="1"))
    assert kinds.kubectl.get("configmap/settings", "-n", place)["data"] == {"a": "1"}


@pytest.mark.parametrize("ours_was_there", [False, True])
async def test_what_comes_to_be_between_look_and_write_is_not_overwritten(
    kinds: ApiServer, place: str, monkeypatch: pytest.MonkeyPatch, ours_was_there: bool
) -> None:
    foreign = config_map(place, a="mine")
    del foreign["metadata"]["labels"], foreign["metadata"]["ownerReferences"]
    async with world(kinds) as here:
        if ours_was_there:
            await here.cluster.apply(CONFIG_MAPS, config_map(place, a="0"))
        patch = here.requests.patch

        async def too_late(*words: Any) -> Object:
            kinds.kubectl("delete", "configmap/settings", "-n", place, "--ignore-not-found")
            kinds.kubectl.apply([foreign], namespace=place)
            return await patch(*words)

        monkeypatch.setattr(here.requests, "patch", too_late)
        with pytest.raises(Conflict):
            await here.cluster.apply(CONFIG_MAPS, config_map(place, a="1"))
    assert kinds.kubectl.get("configmap/settings", "-n", place)["data"] == {"a": "mine"}


async def test_create_and_delete_may_be_repeated(kinds: ApiServer, place: str) -> None:
    key = Key(place, "settings")
    async with world(kinds) as here:
        assert await here.cluster.create(CONFIG_MAPS, config_map(place))
        assert not await here.cluster.create(CONFIG_MAPS, config_map(place))
        await here.cluster.delete(CONFIG_MAPS, key, uid="00000000-0000-0000-0000-000000000000")
        assert kinds.kubectl.answers("get", "configmap/settings", "-n", place), "another one was deleted"
        await here.cluster.delete(CONFIG_MAPS, key)
        await here.cluster.delete(CONFIG_MAPS, key)
    assert not kinds.kubectl.answers("get", "configmap/settings", "-n", place)


async def test_the_same_event_counts_up_also_for_a_new_process(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    for _ in range(2):
        async with world(kinds) as here:
            await here.informer.list_all()
            body = await here.cluster.get(CHECKPOINTS, Key(place, "one"))
            assert body is not None
            for _ in range(2):
                await here.cluster.event(CHECKPOINTS, body, "Normal", "Created", "a checkpoint was made")
            await here.cluster.event(CHECKPOINTS, body, "Warning", "Lost", "x" * 5000)
    events = {each["reason"]: each for each in kinds.kubectl.get("events", "-n", place)["items"]}
    assert {reason: each["count"] for reason, each in events.items()} == {"Created": 4, "Lost": 2}
    assert events["Created"]["involvedObject"]["kind"] == "Checkpoint"
    assert "a checkpoint was made" in kinds.kubectl("describe", "checkpoint/one", "-n", place)


async def test_what_the_server_says_is_told_apart(kinds: ApiServer, place: str) -> None:
    async with world(kinds) as here:
        invalid = config_map(place, "Not A Name")
        with pytest.raises(Refused, match="Not A Name"):
            await here.cluster.apply(CONFIG_MAPS, invalid)
        kinds.kubectl("delete", "namespace", place, "--wait=false")
        with pytest.raises(Refused) as refusal:
            await here.cluster.create(CONFIG_MAPS, config_map(place, "late"))
        assert refusal.value.reason == "NamespaceTerminating"
        unknown = Kind("monitoring.coreos.com/v1", "PodMonitor", "podmonitors")
        assert await here.cluster.get(unknown, Key(place, "x")) is None
        monitor = {"apiVersion": unknown.api_version, "kind": unknown.kind}
        with pytest.raises(Refused, match=r"does not know PodMonitor .*install its CRD"):
            await here.cluster.apply(unknown, {**monitor, "metadata": {"name": "x", "namespace": place}})


async def test_what_is_created_is_said_to_be_ours(kinds: ApiServer, place: str) -> None:
    async with world(kinds) as here:
        assert await here.cluster.create(CONFIG_MAPS, config_map(place, "made", a="1"))
    fields = kinds.kubectl.get("configmap/made", "-n", place, "--show-managed-fields")["metadata"]["managedFields"]
    assert [entry["manager"] for entry in fields] == [FIELD_MANAGER]


async def test_no_server_is_told_so(kinds: ApiServer) -> None:
    nowhere = await connect(str(kinds.kubeconfig))
    nowhere.host = "https://127.0.0.1:1"
    requests = Requests(nowhere)
    try:
        with pytest.raises(Unreachable, match="did not answer"):
            await requests.get(Place(CHECKPOINTS))
    finally:
        await requests.close()


def deployment(namespace: str) -> Object:
    labels = {LABEL_DATABASE: "orders"}
    container = {"name": "slate", "image": "none", "ports": [{"name": "http", "containerPort": 8080}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace, "labels": labels, "ownerReferences": [OWNER]},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
