"""``checkpoint`` and ``clone``: make an object, and wait until it is what was asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.resource import Resource
from slate_operator.clock import stamp
from slate_operator.names import API_VERSION
from slate_operator.plugin.kubectl import Body, Failed, kind
from slate_operator.plugin.reasons import Object, reasons
from slate_operator.plugin.session import Database, DryRun, Output, Session, Timeout, session, wants_json
from slate_operator.plugin.view import View, look, made_by


def checkpoint(
    context: typer.Context,
    database: Database,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the Checkpoint; by default the database's with the time.")
    ] = "",
    lifetime: Annotated[
        str, typer.Option(metavar="TIME", help="How long it lives: 7d, 12h, 1h30m. For ever if not given.")
    ] = "",
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also what the writer has not brought to object storage yet; the writer has to run."
        ),
    ] = False,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep the checkpoint in the database when the object is deleted.")
    ] = False,
    timeout: Timeout = 120,
    dry_run: DryRun = False,
    output: Output = "tree",
) -> None:
    """Keep the present state of a database, for reading, cloning and restoring.

    \b
      kubectl slate checkpoint orders
      kubectl slate checkpoint orders before-sale --lifetime 7d
      kubectl slate checkpoint orders --dry-run > checkpoint.yaml
    """
    here = session(context)
    as_json = wants_json(output)
    spec: Body = {"databaseRef": {"name": database}}
    if everything:
        spec["scope"] = {"all": {}}
    if lifetime:
        spec["lifetime"] = lifetime
    if retain:
        spec["deletionPolicy"] = "Retain"
    made = _body(Checkpoint, name or f"{database}-{_now(here)}", spec)
    if dry_run:
        _print(made)
        return
    found = Checkpoint.of(_made(here, Checkpoint, made, timeout), extra="ignore")
    if as_json:
        here.json({"name": found.metadata.name, "id": found.status.id, "manifest_id": found.status.manifest_id})
    elif timeout:
        ends = f", until {found.status.expires_at}" if found.status.expires_at else ""
        typer.echo(
            f"Checkpoint {found.metadata.name} keeps manifest {found.status.manifest_id} as {found.status.id}{ends}"
        )
    else:
        typer.echo(f"Checkpoint {found.metadata.name} is asked for")


def clone(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="DATABASE", help="The SlateDatabase to clone.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the new SlateDatabase, and of the Clone.")],
    from_checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint", metavar="NAME", help="The state that this Checkpoint keeps, instead of the present."
        ),
    ] = "",
    path: Annotated[
        str, typer.Option(metavar="PATH", help="In the source's bucket. By default beside the source.")
    ] = "",
    readers: Annotated[int, typer.Option(min=0, metavar="N", help="How many readers it has.")] = 0,
    timeout: Timeout = 300,
    dry_run: DryRun = False,
    output: Output = "tree",
) -> None:
    """Make a new database that begins with another's state. No bytes are copied, and each goes its own way.

    \b
      kubectl slate clone orders staging
      kubectl slate clone orders what-if --checkpoint before-sale
      kubectl slate clone orders staging --dry-run > staging.yaml
    """
    here = session(context)
    as_json = wants_json(output)
    begins = {"checkpointRef": {"name": from_checkpoint}} if from_checkpoint else {"databaseRef": {"name": source}}
    if from_checkpoint and not dry_run:
        _check_checkpoint(look(here.kubectl), from_checkpoint, source)
    spec: Body = {"source": begins}
    if path:
        spec["target"] = {"path": path}
    if readers:
        spec["template"] = {"spec": {"readers": {"replicas": readers}}}
    made = _body(Clone, name, spec)
    if dry_run:
        _print(made)
        return
    found = Clone.of(_made(here, Clone, made, timeout), extra="ignore")
    if as_json:
        here.json({"name": found.metadata.name, "database": made_by(found), "url": found.status.url})
    elif timeout:
        typer.echo(f"SlateDatabase {made_by(found)} is a clone of {source}, at {found.status.url}")
    else:
        typer.echo(f"Clone {found.metadata.name} is asked for")


def wait(here: Session, kind_of: type[Resource], name: str, timeout: int) -> Body:
    """The object once it is ready; or why it is not."""
    plural = kind(kind_of.definition.plural)
    try:
        here.kubectl.run("wait", f"{plural}/{name}", "--for=condition=Ready", f"--timeout={timeout}s")
    except Failed as failure:
        view = look(here.kubectl)
        things: list[Object] = [*view.databases, *view.checkpoints, *view.clones]
        told = [
            f"  {each.about}: {each.message}"
            for thing in things
            if thing.definition is kind_of.definition and thing.metadata.name == name
            for each in reasons(view, thing, here.clock.now())
        ]
        why = "\n".join(told) or f"  {failure}"
        raise Failed(f"{kind_of.definition.kind} {name} is not ready after {timeout} s:\n{why}") from None
    return here.kubectl.get(plural, name)


def _made(here: Session, kind_of: type[Resource], body: Body, timeout: int) -> Body:
    made = here.kubectl.create(body)
    return wait(here, kind_of, made["metadata"]["name"], timeout) if timeout else made


def _check_checkpoint(view: View, name: str, database: str) -> None:
    """A mistake in one of two names is better told than cloned."""
    for each in view.checkpoints:
        if each.metadata.name == name:
            if each.spec.database_ref.name != database:
                raise Failed(f"Checkpoint {name} is one of {each.spec.database_ref.name}, not of {database}")
            return
    known = ", ".join(each.metadata.name for each in view.checkpoints if each.spec.database_ref.name == database)
    raise Failed(f"there is no Checkpoint {name}; of {database} there are: {known or 'none'}", 3)


def _body(kind_of: type[Resource], name: str, spec: Body) -> Body:
    return {
        "apiVersion": API_VERSION,
        "kind": kind_of.definition.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _print(body: Body) -> None:
    import yaml

    typer.echo(yaml.safe_dump(body, sort_keys=False), nl=False)


def _now(here: Session) -> str:
    """The time as it can be part of a name."""
    return stamp(here.clock.now()).translate(str.maketrans("", "", "-:Z")).replace("T", "-")
