"""The verbs against the real API server. Nothing acts there, so a test plays the operator where one would answer."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.crd import KINDS
from slate_operator.api.database import SlateDatabase
from slate_operator.names import ANNOTATION_BRING_BACK, ANNOTATION_TAKE, FINALIZER_DATABASE
from slate_operator.plugin import connect
from slate_operator.plugin.connect import Door, client_words, instructions
from slate_operator.plugin.flags import Flags, split
from slate_operator.plugin.kubectl import Kubectl as Plugin
from slate_operator.plugin.logs import pretty
from slate_operator.plugin.main import app, main
from slate_operator.plugin.reference import reference
from slate_operator.plugin.undelete import no_longer_insisting
from tests.cluster.tool.apiserver import ApiServer
from tests.cluster.tool.kubectl import Kubectl
from tests.operator.api.objects import Objects, body
from tests.operator.plugin import shop

NAMESPACE = "shop"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Slate = Callable[..., Ended]


@pytest.fixture(scope="module")
def kubectl(kinds: ApiServer) -> Kubectl:
    kinds.kubectl.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    return kinds.kubectl


@pytest.fixture
def objects(kinds: ApiServer, kubectl: Kubectl) -> Iterator[Objects]:
    found = Objects(kinds, NAMESPACE)
    yield found
    for kind in KINDS:
        found.delete_all(kind)


@pytest.fixture
def slate(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Slate:
    """``kubectl slate …`` in a folder of its own, with the API server's kubectl on the search path."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {" ".join(kubectl.program)} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["kubectl-slate", *words, "-n", NAMESPACE])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        out, err = capfd.readouterr()
        return Ended(code if isinstance(code, int) else 1, out, err)

    return call


def put(objects: Objects, *written: dict[str, Any]) -> None:
    """Objects with their statuses, as the operator would have left them."""
    for each in written:
        kind = next(known for known in KINDS if known.definition.kind == each["kind"])
        metadata = {key: each["metadata"][key] for key in ("name", "labels") if key in each["metadata"]}
        objects.create(kind, {**each, "metadata": metadata})
        objects.set_status(kind, metadata["name"], each["status"])


def test_status_and_why_and_cost(slate: Slate, objects: Objects) -> None:
    put(objects, shop.ORDERS, shop.STAGING, shop.CLONE, shop.BEFORE_SALE)
    shown = slate("status")
    assert shown.code == 0
    assert "shop/orders  Running" in shown.out
    assert "└── shop/staging  Running" in shown.out
    assert "before-sale  Ready  manifest 41" in slate("status", "orders").out
    assert {each["name"] for each in slate("status", "-o", "json").json} == {"orders", "staging"}
    assert slate("why").out == "everything: nothing is in the way\n"
    bill = {each["name"]: each["dollars_a_month"] for each in slate("cost", "-o", "json", "--price", "1").json}
    assert bill == {"orders": 4.0, "staging": 1.0}
    assert "total" in slate("cost").out

    broken = [shop.condition("Ready", "False", "SecretMissing", "Secret keys is missing: create it.")]
    objects.set_status(SlateDatabase, "orders", {"observedGeneration": 1, "conditions": broken})
    assert "Secret keys is missing: create it." in slate("why", "orders").out
    (told,) = slate("why", "-o", "json").json
    assert told["findings"][0]["reason"] == "SecretMissing"
    assert slate("why", "clone/staging").code == 0

    absent = slate("status", "nobody")
    assert absent.code == 3
    assert "there are: orders, staging" in absent.err
    assert slate("why", "shelf/x").code == 2


def test_a_checkpoint_is_made_and_waited_for(slate: Slate, objects: Objects) -> None:
    put(objects, shop.ORDERS)
    planned = yaml.safe_load(slate("checkpoint", "orders", "kept", "--lifetime", "7d", "--all", "--dry-run").out)
    assert planned["spec"] == {"databaseRef": {"name": "orders"}, "scope": {"all": {}}, "lifetime": "7d"}
    assert objects.find(Checkpoint, "kept") is None

    answer = {**shop.ready(), "observedGeneration": 1, "id": "0b0c", "manifestId": 41}
    with operator(
        lambda: objects.set_status(Checkpoint, "kept", answer),
        when=lambda: objects.find(Checkpoint, "kept") is not None,
    ):
        made = slate("checkpoint", "orders", "kept", "--timeout", "30")
    assert made.code == 0, made.err
    assert made.out == "Checkpoint kept keeps manifest 41 as 0b0c\n"

    nameless = slate("checkpoint", "orders", "--timeout", "0")
    assert nameless.out.startswith("Checkpoint orders-20")

    refused = slate("checkpoint", "orders", "--lifetime", "0s", "--timeout", "0")
    assert refused.code == 1
    assert "a lifetime is longer than nothing" in refused.err

    late = slate("checkpoint", "orders", "slow", "--timeout", "1")
    assert late.code == 1
    assert "the operator has not looked at it yet" in late.err


def test_a_clone_is_asked_for(slate: Slate, objects: Objects) -> None:
    put(objects, shop.ORDERS, shop.BEFORE_SALE)
    asked = slate(
        "clone", "orders", "what-if", "--checkpoint", "before-sale", "--path", "a/b", "--readers", "2", "--timeout", "0"
    )
    assert asked.out == "Clone what-if is asked for\n"
    assert objects.get(Clone, "what-if")["spec"] == {
        "source": {"checkpointRef": {"name": "before-sale"}},
        "target": {"path": "a/b"},
        "template": {"spec": {"readers": {"replicas": 2}}},
    }
    assert "of orders there are: before-sale" in slate("clone", "orders", "x", "--checkpoint", "after-sale").err
    assert "is one of orders, not of others" in slate("clone", "others", "x", "--checkpoint", "before-sale").err


def test_undelete_makes_a_terminating_object_anew(slate: Slate, objects: Objects, tmp_path: Path) -> None:
    wish = {"store": {"url": "s3://shop/orders"}, "deletionPolicy": "SoftDestroy", "deletionProtection": True}
    made = body(SlateDatabase, wish, "orders", labels={"team": "shop"}, finalizers=[FINALIZER_DATABASE])
    objects.create(SlateDatabase, made)
    assert "is not being deleted" in slate("undelete", "orders").err
    objects.delete(SlateDatabase, "orders")
    before = objects.get(SlateDatabase, "orders")

    # The operator is away: the command gives up, and has the spec in a file.
    late = slate("undelete", "orders", "--timeout", "1")
    assert late.code == 1
    assert "still there after 1 s" in late.err
    kept = tmp_path / "orders.undelete.yaml"
    assert yaml.safe_load(kept.read_text())["spec"] == before["spec"]
    assert slate("undelete", "orders", "--timeout", "1").code == 1
    assert yaml.safe_load(kept.read_text())["spec"] == before["spec"], "not what the first run has made of it"
    flipped = objects.get(SlateDatabase, "orders")["spec"]
    assert (flipped["deletionPolicy"], flipped["deletionProtection"]) == ("Retain", False)

    # It comes back, and lets the object go at whatever moment; the command goes on from the file.
    objects.release(SlateDatabase, "orders")
    anew: list[dict[str, Any]] = []

    def find_its_bytes() -> None:
        anew.append(objects.get(SlateDatabase, "orders"))
        owned = shop.condition("Owned", "True", "Claimed")
        objects.set_status(
            SlateDatabase, "orders", {"observedGeneration": 1, "conditions": [owned, *shop.ready()["conditions"]]}
        )

    with operator(find_its_bytes, when=lambda: objects.find(SlateDatabase, "orders") is not None):
        back = slate("undelete", "orders", "--timeout", "30")
    assert back.code == 0, back.err
    assert back.out == "SlateDatabase orders is back\n"
    assert anew[0]["spec"]["bootstrap"] == {"adopt": {}}, "an empty database instead of the lost one would be a lie"
    assert anew[0]["metadata"]["annotations"] == {ANNOTATION_TAKE: before["metadata"]["uid"]}
    after = objects.get(SlateDatabase, "orders")
    assert "annotations" not in after["metadata"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["labels"] == {"team": "shop"}
    assert after["spec"] == before["spec"], "with its own policy, not the one that let it go"
    assert not kept.exists()


def test_undelete_brings_back_what_was_destroyed_under_its_object(slate: Slate, objects: Objects) -> None:
    objects.create(SlateDatabase, body(SlateDatabase, {"store": {"url": "s3://shop/orders"}}, "orders"))
    owned = shop.condition("Owned", "True", "Claimed")
    destroyed = shop.condition("Ready", "False", "Destroyed", "it was destroyed by the command")
    objects.set_status(SlateDatabase, "orders", {"observedGeneration": 1, "conditions": [owned, destroyed]})
    assert slate("undelete", "orders", "--timeout", "0").code == 0
    wish = objects.get(SlateDatabase, "orders")["metadata"]["annotations"][ANNOTATION_BRING_BACK]

    def bring_back() -> None:
        status = {"observedGeneration": 1, "conditions": [owned, *shop.ready()["conditions"]]}
        objects.set_status(SlateDatabase, "orders", status)

    def asked() -> bool:
        annotations = objects.get(SlateDatabase, "orders")["metadata"].get("annotations", {})
        return annotations.get(ANNOTATION_BRING_BACK) not in (None, wish)

    time.sleep(1.1)  # another second is another wish
    with operator(bring_back, when=asked):
        back = slate("undelete", "orders", "--timeout", "30")
    assert back.out == "SlateDatabase orders is back\n", back.err
    assert "annotations" not in objects.get(SlateDatabase, "orders")["metadata"]
    assert "nothing to bring back" in slate("undelete", "orders").err


def test_undelete_keeps_its_file_until_the_new_object_is_as_it_was(
    slate: Slate, objects: Objects, tmp_path: Path
) -> None:
    """Interrupted while it waits, it goes on from there."""
    wish = {"store": {"url": "s3://shop/orders"}}
    objects.create(SlateDatabase, body(SlateDatabase, wish, "orders", finalizers=[FINALIZER_DATABASE]))
    objects.delete(SlateDatabase, "orders")
    kept = tmp_path / "orders.undelete.yaml"
    assert slate("undelete", "orders", "--timeout", "1").code == 1
    objects.release(SlateDatabase, "orders")
    late = slate("undelete", "orders", "--timeout", "1")
    assert "not ready after 1 s" in late.err
    assert kept.exists()
    owned = shop.condition("Owned", "True", "Claimed")
    status = {"observedGeneration": 1, "conditions": [owned, *shop.ready()["conditions"]]}
    objects.set_status(SlateDatabase, "orders", status)
    back = slate("undelete", "orders", "--timeout", "30")
    assert back.out == "SlateDatabase orders is back\n", back.err
    after = objects.get(SlateDatabase, "orders")
    assert "annotations" not in after["metadata"]
    assert "bootstrap" not in after["spec"]
    assert not kept.exists()


def test_undelete_waits_for_the_operator(slate: Slate, objects: Objects) -> None:
    wish = {"store": {"url": "s3://shop/orders"}, "deletionPolicy": "Destroy", "bootstrap": {"recover": {}}}
    Path("orders.undelete.yaml").write_text("metadata: {annotations: {}}")  # of another one of that name, long ago
    objects.create(SlateDatabase, body(SlateDatabase, wish, "orders", finalizers=[FINALIZER_DATABASE]))
    objects.delete(SlateDatabase, "orders")
    with operator(
        lambda: objects.release(SlateDatabase, "orders"),
        when=lambda: objects.get(SlateDatabase, "orders")["spec"]["deletionPolicy"] == "Retain",
    ):
        back = slate("undelete", "orders", "--timeout", "0")
    assert back.out == "SlateDatabase orders is made anew\n", back.err
    after = objects.get(SlateDatabase, "orders")["spec"]
    assert after["deletionPolicy"] == "Destroy"
    assert after["bootstrap"] == {"adopt": {}}, (
        "its bytes are alive again when it is let go: there is nothing to recover"
    )


@pytest.mark.parametrize(
    ("began", "patch"),
    [
        (None, None),
        ({"empty": {}}, {"adopt": None, "empty": {}}),
        ({"adopt": {}}, {"adopt": {}}),
        ({"clone": {"databaseRef": {"name": "a"}}}, {"adopt": None, "clone": {"databaseRef": {"name": "a"}}}),
    ],
)
def test_how_it_began_is_written_down_again(began: dict[str, Any] | None, patch: dict[str, Any] | None) -> None:
    wanted = {"spec": {"store": {}, **({"bootstrap": began} if began else {})}}
    assert no_longer_insisting(wanted)["spec"] == {"bootstrap": patch}


def test_undelete_of_what_is_gone_needs_the_manifest(slate: Slate, objects: Objects, tmp_path: Path) -> None:
    assert slate("undelete", "orders").code == 3
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump({**shop.ORDERS, "metadata": {"name": "orders"}}))
    assert "holds no SlateDatabase others" in slate("undelete", "others", "-f", str(file)).err
    back = slate("undelete", "orders", "-f", str(file), "--take-ownership-from", "some-uid", "--timeout", "0")
    assert back.code == 0, back.err
    made = objects.get(SlateDatabase, "orders")
    assert made["spec"]["bootstrap"] == {"recover": {}}
    assert made["metadata"]["annotations"] == {"slatekeeper.io/take-ownership-from": "some-uid"}


def test_connect_finds_the_door(slate: Slate, objects: Objects, kubectl: Kubectl) -> None:
    put(objects, shop.ORDERS)
    # No pod runs here, so the way ends at the Secret and the Service; a whole cluster goes further.
    assert "there is no Secret orders-tls yet" in slate("connect", "orders").err
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "orders-tls"},
        "data": {"ca.crt": base64.b64encode(b"PEM").decode()},
    }
    kubectl.apply([secret], namespace=NAMESPACE)
    refused = slate("connect", "orders")
    kubectl("delete", "secret/orders-tls", "-n", NAMESPACE)  # other tests apply one of the same name
    assert refused.code == 1
    assert "no way to service/orders" in refused.err
    assert slate("connect", "nobody").code == 3


def test_the_command_line_of_redis_cli_holds_no_password() -> None:
    door = Door("orders", "orders-auth", "password", "orders-tls")
    words = client_words("redis-cli", 6380, Path("/tmp/ca.crt"), ["GET", "a"])
    assert words == ["redis-cli", "-h", "127.0.0.1", "-p", "6380", "--tls", "--cacert", "/tmp/ca.crt", "GET", "a"]
    told = instructions(door, 6380, None, Flags(("-n", "shop")), here_is_client=False)
    assert "install it, or use any Redis client" in told
    assert "kubectl get secret orders-auth -n shop -o 'jsonpath={.data.password}'" in told


def test_a_forwarded_port_is_closed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for kubectl that forwards nothing, but says so as kubectl does, and notes its end."""
    program = tmp_path / "kubectl"
    program.write_text(
        "#!/bin/sh\ntrap 'echo ended > \"$NOTE\"; exit' TERM\n"
        "echo 'Forwarding from 127.0.0.1:41234 -> 6379'\nwhile :; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))
    with connect.forwarded(Plugin(Flags(), str(program)), "orders", 0) as way:
        assert way.port == 41234
        assert not (tmp_path / "note").exists()
    assert (tmp_path / "note").read_text() == "ended\n"


def test_logs_without_pods_say_where_to_look(slate: Slate) -> None:
    assert "kubectl slate why orders" in slate("logs", "orders").err
    assert slate("logs", "orders", "--role", "cook").code == 2


def test_lines_of_our_processes_are_made_readable() -> None:
    line = '{"time": "2026-11-18T11:06:40.000Z", "level": "warning", "logger": "x", "message": "slow", "n": 3}'
    assert pretty(line) == ("2026-11-18T11:06:40.000Z warning slow n=3", "warning")
    assert pretty("plain {") == ("plain {", "")
    assert pretty("[1]") == ("[1]", "")


def test_without_kubectl_it_says_so(slate: Slate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = slate("status")
    assert ended.code == 127
    assert "kubectl is not on the search path" in ended.err


class operator:
    """Does one thing, in a thread, once something is so; what went wrong there fails the test."""

    def __init__(self, act: Callable[[], None], *, when: Callable[[], bool], timeout: float = 30.0) -> None:
        self._act, self._when, self._deadline = act, when, time.monotonic() + timeout
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._when():
                assert time.monotonic() < self._deadline, "the operator waited in vain"
                time.sleep(0.1)
            self._act()
        except BaseException as error:
            self._trouble = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(40)
        if self._trouble is not None:
            raise self._trouble


def test_the_reference_is_made_from_the_code() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "kubectl-slate.md"
    assert page.read_text() == reference(), "docs are stale: run `make docs`"


LINE = re.compile(r"^\$ kubectl slate (?P<words>.+)$", re.MULTILINE)
PAGES = (Path(__file__).parents[3] / "docs").rglob("*.md")
SHOWN = sorted({found["words"] for page in PAGES for found in LINE.finditer(page.read_text())})


@pytest.mark.parametrize("line", SHOWN)
def test_what_the_pages_show_is_understood(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").touch()
    verb, *words = split(shlex.split(line.partition(" > ")[0], comments=True))[1]
    group: Any = typer.main.get_command(app)
    if verb != "--help":
        group.commands[verb].make_context(verb, words)  # an option or a word too many would be refused


def test_the_command_is_installed() -> None:
    assert shutil.which("kubectl-slate", path=str(Path(sys.executable).parent))
