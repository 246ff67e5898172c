"""``undelete``: bring back a database whose object was deleted, or whose bytes were destroyed under it.

Kubernetes has no way to take a deletion back, so the object is let go without its bytes and made anew, as it was. Its spec
is written to a file before anything is changed: whatever happens midway, the same command goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from slate_operator.api.database import SlateDatabase
from slate_operator.clock import stamp
from slate_operator.names import ANNOTATION_BRING_BACK, ANNOTATION_TAKE, API_VERSION, OWNED, READY
from slate_operator.plugin.kubectl import Body, Failed, kind
from slate_operator.plugin.making import wait
from slate_operator.plugin.session import Database, Session, Timeout, session

DATABASES = kind(SlateDatabase.definition.plural)
LET_GO = {"spec": {"deletionPolicy": "Retain", "deletionProtection": False, "paused": False}}
"""What makes the operator release a Terminating object at once. It takes a tombstone off the bytes that are to stay."""

_NOT_OURS = ("kubectl.kubernetes.io/last-applied-configuration",)


def undelete(
    context: typer.Context,
    name: Database,
    file: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="The SlateDatabase as it was applied, if its object is gone already.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    take_from: Annotated[
        str,
        typer.Option(
            "--take-ownership-from",
            metavar="UID",
            help="Of the object that is gone and left its mark on the path; `kubectl slate why` tells it.",
        ),
    ] = "",
    timeout: Timeout = 300,
) -> None:
    """Bring back a database that was destroyed, within its deleteGrace.

    While the object is still Terminating, its name is enough. It is let go with its bytes kept and made anew with the
    same spec; a database that serves is interrupted for a moment. If the object is gone, as after the deletion of its
    namespace, give the manifest: it is applied with bootstrap.recover. If only the database was destroyed, by the command
    slate, its object stays as it is.

    \b
      kubectl slate undelete orders
      kubectl slate undelete orders -f orders.yaml
    """
    here = session(context)
    kept = Path(f"{name}.undelete.yaml")
    found = here.kubectl.find(DATABASES, name)
    if found is not None and "deletionTimestamp" not in found["metadata"]:
        _of_living(here, found, kept, timeout)
        return
    if file is not None:
        if found is not None:
            raise Failed(
                f"SlateDatabase {name} is still there, Terminating: leave out -f, and it is made anew as it was"
            )
        wanted = recovering(_read(file), name, take_from)
    elif found is not None:
        wanted = _of_earlier_run(kept, found) or as_it_was(found)
        _write(kept, wanted)
        _let_go(here, name, kept, timeout or 300)
    elif kept.exists():
        here.note(f"going on with {kept}, which an earlier run has left")
        wanted = _read(kept)
    else:
        raise Failed(f"there is no SlateDatabase {name}; give the manifest that it was made from with -f FILE", 3)
    here.kubectl.create(wanted if file is not None else insisting(wanted))
    if not timeout:
        kept.unlink(missing_ok=True)
        typer.echo(f"SlateDatabase {name} is made anew")
        return
    _settle(here, name, None if file is not None else no_longer_insisting(wanted), kept, timeout)


def _of_living(here: Session, found: Mapping[str, Any], kept: Path, timeout: int) -> None:
    """The object is there: an earlier run was interrupted after it had made it, or its database was destroyed under it."""
    name, left = found["metadata"]["name"], _read(kept) if kept.exists() else None
    if left is not None and _taken_from(left) and _taken_from(left) == _taken_from(found):
        here.note(f"going on with {kept}, which an earlier run has left")
        _settle(here, name, no_longer_insisting(left), kept, timeout or 300)
        return
    if not is_destroyed(found):
        raise Failed(
            f"SlateDatabase {name} is not being deleted, and its database is not destroyed: there is nothing to bring back"
        )
    here.kubectl.patch(DATABASES, name, _wish(stamp(here.clock.now())))
    if not timeout:
        typer.echo(f"SlateDatabase {name} is asked to bring its database back")
        return
    _settle(here, name, _wish(None), kept, timeout)


def _settle(here: Session, name: str, last: Body | None, kept: Path, timeout: int) -> None:
    """Wait until it is back, and let the object be as it was. The file goes last: until then it is what to go on from."""
    wait(here, SlateDatabase, name, timeout)
    if last is not None:
        here.kubectl.patch(DATABASES, name, last)
    kept.unlink(missing_ok=True)
    typer.echo(f"SlateDatabase {name} is back")


def is_destroyed(found: Mapping[str, Any]) -> bool:
    """Whether its database is, and is its own."""
    conditions = {each["type"]: each for each in found.get("status", {}).get("conditions", ())}
    return (
        conditions.get(READY, {}).get("reason") in ("Destroyed", "NotRecovered")
        and conditions.get(OWNED, {}).get("status") == "True"
    )


def _wish(value: str | None) -> Body:
    return {"metadata": {"annotations": {ANNOTATION_BRING_BACK: value}}}


def as_it_was(found: Mapping[str, Any]) -> Body:
    """The object to make in place of one that is being deleted: the same wish, without the traces of its life. The uid is
    remembered, for the old object may leave its mark on the path."""
    wanted = _made(found["metadata"], dict(found["spec"]))
    wanted["metadata"].setdefault("annotations", {})[ANNOTATION_TAKE] = found["metadata"]["uid"]
    return wanted


def insisting(wanted: Body) -> Body:
    """The same, but sure to find its bytes: should they be gone, an empty database in their place would be a lie."""
    return {**wanted, "spec": {**wanted["spec"], "bootstrap": {"adopt": {}}}}


def no_longer_insisting(wanted: Body) -> Body:
    """The patch that makes it the object that it was, once its bytes are found: then nothing differs from Git."""
    began = wanted["spec"].get("bootstrap")
    return {
        "metadata": {"annotations": {ANNOTATION_TAKE: None}},
        "spec": {"bootstrap": {"adopt": None, **began} if began else None},
    }


def recovering(manifest: Mapping[str, Any], name: str, take_from: str) -> Body:
    """The object to make where only a tombstone is left."""
    if manifest.get("kind") != "SlateDatabase" or manifest.get("metadata", {}).get("name") != name:
        raise Failed(f"the file holds no SlateDatabase {name}")
    wanted = _made(manifest["metadata"], {**manifest["spec"], "bootstrap": {"recover": {}}})
    if take_from:
        wanted["metadata"].setdefault("annotations", {})[ANNOTATION_TAKE] = take_from
    return wanted


def _of_earlier_run(kept: Path, found: Mapping[str, Any]) -> Body | None:
    """How this very object was before an earlier run of this command changed it."""
    if not kept.exists():
        return None
    left = _read(kept)
    return left if _taken_from(left) == found["metadata"]["uid"] else None


def _taken_from(body: Mapping[str, Any]) -> str | None:
    """The uid of the object in whose place it is made."""
    found: str | None = body.get("metadata", {}).get("annotations", {}).get(ANNOTATION_TAKE)
    return found


def _made(metadata: Mapping[str, Any], spec: Body) -> Body:
    kept: Body = {"name": metadata["name"]}
    if "namespace" in metadata:
        kept["namespace"] = metadata["namespace"]
    if labels := metadata.get("labels"):
        kept["labels"] = dict(labels)
    if annotations := {key: value for key, value in metadata.get("annotations", {}).items() if key not in _NOT_OURS}:
        kept["annotations"] = annotations
    return {"apiVersion": API_VERSION, "kind": "SlateDatabase", "metadata": kept, "spec": spec}


def _let_go(here: Session, name: str, kept: Path, timeout: int) -> None:
    here.note(f"its spec is in {kept} until it is back")
    try:
        here.kubectl.patch(DATABASES, name, LET_GO)
    except Failed:
        if here.kubectl.find(DATABASES, name) is None:
            return  # it went by itself in this very moment
        raise
    here.note("waiting for the operator to let the old object go")
    try:
        here.kubectl.run("wait", f"{DATABASES}/{name}", "--for=delete", f"--timeout={timeout}s")
    except Failed:
        raise Failed(
            f"SlateDatabase {name} is still there after {timeout} s: see `kubectl slate why {name}`, and repeat this "
            f"command when it is gone; its spec is in {kept}"
        ) from None


def _write(file: Path, body: Body) -> None:
    import yaml

    file.write_text(yaml.safe_dump(body, sort_keys=False))


def _read(file: Path) -> Body:
    import yaml

    try:
        found = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise Failed(f"{file} cannot be read: {error}", 2) from None
    if not isinstance(found, dict):
        raise Failed(f"{file} holds no object", 2)
    return found
