"""What is done about a database, in order. Each step looks at what is known and adds to the draft; none has effects."""

from __future__ import annotations

from collections.abc import Callable

from slate_operator import names
from slate_operator.admin.database import DatabaseFacts
from slate_operator.api.conditions import find
from slate_operator.build.accounts import service_account
from slate_operator.build.monitors import pod_monitor
from slate_operator.build.naming import Family
from slate_operator.build.pod import Circumstances, is_own_image
from slate_operator.build.policies import network_policy
from slate_operator.build.services import admin_service, readers_service, writer_service
from slate_operator.build.workloads import config_map, deployment, needs_config
from slate_operator.kube.cluster import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    POD_MONITORS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from slate_operator.names import Role
from slate_operator.reconcile import contention
from slate_operator.reconcile.bootstrap import claim_path, come_to_be
from slate_operator.reconcile.deletion import ASK_AGAIN, destroy, known_deadline
from slate_operator.reconcile.departure import depart
from slate_operator.reconcile.draft import Draft, Plan, Unanswered
from slate_operator.reconcile.observed import Destroying, Look, Observed
from slate_operator.reconcile.retention import retain

Step = Callable[[Observed, Draft], None]

LOOK_FOR_SECRETS = 30.0
"""How often a Secret that is missing is looked for: those of users are not watched, so that they wake nobody."""


def planned(seen: Observed) -> Plan:
    """What to do: or what to ask the database before that can be said."""
    draft = Draft(seen, deadline=known_deadline(seen))
    try:
        for step in course_of(seen):
            step(seen, draft)
    except Unanswered as unanswered:
        return Plan(ask=unanswered.ask)
    return Plan(draft=draft)


def course_of(seen: Observed) -> tuple[Step, ...]:
    """Which steps there are for this database now."""
    database = seen.database
    if seen.namespace_terminating:
        return (depart,)
    if database.metadata.deleting:
        if database.spec.paused:
            return (pause, block_by_pause)
        if database.spec.deletion_protection:
            return (*LIFE, block_by_protection)
        if database.spec.deletion_policy == "Retain":
            # What may be marked as destroyed is brought back, which takes a collector.
            return (retain,) if known_deadline(seen) is None else (*FOUNDATION, retain)
        return (*FOUNDATION, destroy)
    return (pause,) if database.spec.paused else LIFE


# --- not now ------------------------------------------------------------------------------------------------------


def pause(seen: Observed, draft: Draft) -> None:
    """What was said before stays said."""
    draft.conditions = [each for each in seen.database.status.conditions if each.type != names.PAUSED]
    draft.say(names.PAUSED, True, "Asked", "nothing is changed until spec.paused is false")


def block_by_pause(seen: Observed, draft: Draft) -> None:
    draft.block("Protection", "paused", "spec.paused holds the deletion; set it to false to go on")


def block_by_protection(seen: Observed, draft: Draft) -> None:
    """A deadline of before says that the database may be marked: it is forgotten when that is alive, and stays so."""
    looked = seen.answers.get(Look())
    alive = looked is not None and isinstance(looked.value, DatabaseFacts) and looked.value.state == "alive"
    if alive and draft.deadline is not None:
        destroying = draft.ask(Destroying())
        if destroying.good and not destroying.value:
            draft.deadline = None
        else:
            draft.come_back(ASK_AGAIN)
    draft.block(
        "Protection", "deletionProtection", "spec.deletionProtection holds the deletion; set it to false to go on"
    )


# --- the foundation: what the collector needs, and the collector --------------------------------------------------


def choose_image(seen: Observed, draft: Draft) -> None:
    """An operator that brings another image than the last one did changes nothing about databases that run."""
    draft.status["image"] = seen.database.status.image or seen.default_image or None
    if not seen.image:
        draft.hold("NoImage", "there is no image to run: set spec.image, or tell the operator one", stalled=True)


def keep_finalizer(seen: Observed, draft: Draft) -> None:
    draft.keep_finalizer = not seen.held and not seen.database.metadata.deleting


def give_identity(seen: Observed, draft: Draft) -> None:
    draft.apply(SERVICE_ACCOUNTS, service_account(seen.database))
    if seen.missing_secrets:
        which = seen.missing_secrets[0]
        draft.say(
            names.STORAGE_AVAILABLE,
            False,
            "SecretMissing",
            f"Secret {which} is missing: create it. Pods that run go on with what they have, new ones wait for it",
        )
        draft.come_back(LOOK_FOR_SECRETS)


def run_collector(seen: Observed, draft: Draft) -> None:
    if seen.image:
        _run(seen, draft, Role.GC, 1)
    draft.apply(SERVICES, admin_service(seen.database))


# --- those that serve ---------------------------------------------------------------------------------------------


def watch_for_rivals(seen: Observed, draft: Draft) -> None:
    """A writer of ours that fights with another gives way for a while."""
    if seen.database.spec.writer.mode == "External" or Role.GC not in seen.deployments or draft.halt is not None:
        return
    before = seen.database.status.contention
    _, facts = draft.look()
    if facts is None:
        draft.status["contention"] = before
        return
    starts = contention.starts_of(seen.pods.get(Role.WRITER, ()))
    now = contention.weighed(before, facts.writer_epoch, starts, seen.now)
    draft.status["contention"] = now
    left = contention.resting(now, seen.now)
    if left is not None:
        message = (
            f"another writer has taken the database away again and again (epoch {facts.writer_epoch}). Ours rests until "
            f"{now.backing_off_until} and then tries again: stop the other one, or set writer.mode to External"
        )
        draft.say(names.CONTENDED, True, "BackingOff", message)
        draft.come_back(left + 1.0)
    elif now.attempts:
        message = "the writer tries again after another one has taken the database away; it is watched for half an hour"
        draft.say(names.CONTENDED, None, "TryingAgain", message)


def run_writer(seen: Observed, draft: Draft) -> None:
    family = Family.of(seen.database)
    if seen.database.spec.writer.mode == "External":
        if Role.WRITER in seen.deployments:
            draft.remove(SERVICES, family.writer_service)
            _retire(seen, draft, Role.WRITER)
        return
    resting = draft.status.get("contention") is not None and _rests(seen, draft)
    if not _run(seen, draft, Role.WRITER, 0 if resting else 1):
        return
    service = writer_service(seen.database)
    draft.apply(SERVICES, service)
    if service is None and _changed(seen):
        draft.remove(SERVICES, family.writer_service)


def _rests(seen: Observed, draft: Draft) -> bool:
    return contention.resting(draft.status["contention"], seen.now) is not None


def run_compactor(seen: Observed, draft: Draft) -> None:
    if seen.database.spec.compactor.enabled:
        _run(seen, draft, Role.COMPACTOR, 1)
    elif Role.COMPACTOR in seen.deployments:
        _retire(seen, draft, Role.COMPACTOR)


def run_readers(seen: Observed, draft: Draft) -> None:
    """As many as wanted; what was made for some stays for none, until there are some again."""
    replicas = seen.database.spec.readers.replicas
    if (replicas or Role.READER in seen.deployments) and _run(seen, draft, Role.READER, replicas):
        draft.apply(SERVICES, readers_service(seen.database))


def watch_pods(seen: Observed, draft: Draft) -> None:
    family = Family.of(seen.database)
    if seen.database.spec.monitoring.pod_monitor:
        draft.apply(POD_MONITORS, pod_monitor(seen.database))
    elif _changed(seen) and seen.database.status.observed_generation > 0:
        draft.remove(POD_MONITORS, family.pod_monitor)


def hibernate(seen: Observed, draft: Draft) -> None:
    if not seen.database.spec.hibernated:
        return
    left = [pod for role in Role.ALL if role != Role.GC for pod in seen.pods.get(role, ())]
    if left:
        draft.say(names.HIBERNATED, False, "Stopping", f"{len(left)} pods are ending")
    else:
        draft.say(names.HIBERNATED, True, "Asked", "nothing but the collector runs until spec.hibernated is false")


FOUNDATION: tuple[Step, ...] = (choose_image, keep_finalizer, give_identity, run_collector)

LIFE: tuple[Step, ...] = (
    *FOUNDATION,
    claim_path,
    come_to_be,
    watch_for_rivals,
    run_writer,
    run_compactor,
    run_readers,
    watch_pods,
    hibernate,
)


def _run(seen: Observed, draft: Draft, role: str, replicas: int) -> bool:
    """Have so many pods of a role, or none while something holds them. Whether there is anything of the role at all."""
    serving = role != Role.GC
    if serving and (draft.halt is not None or seen.database.spec.hibernated):
        if role not in seen.deployments:
            return False
        replicas = 0
    database, image = seen.database, seen.image
    if is_own_image(database, role):
        image = database.spec.writer.image or image
    if needs_config(database, role):
        draft.apply(CONFIG_MAPS, config_map(database, role))
    draft.apply(DEPLOYMENTS, deployment(database, role, Circumstances(image, _environment(seen, role)), replicas))
    draft.replicas[role] = replicas
    if database.spec.network_policies.enabled:
        draft.apply(NETWORK_POLICIES, network_policy(database, role, seen.operator_namespace))
    elif _changed(seen) and role in seen.deployments:
        draft.remove(NETWORK_POLICIES, Family.of(database).workload(role))
    return True


def _environment(seen: Observed, role: str) -> str | None:
    """The version of the Secrets that pods take in. While one is missing, the pods that run are left as they are."""
    if not seen.missing_secrets:
        return "-".join(seen.secret_versions) or None
    template = seen.deployments.get(role, {}).get("spec", {}).get("template", {})
    found: str | None = ((template.get("metadata") or {}).get("annotations") or {}).get(names.ANNOTATION_SECRET)
    return found


def _retire(seen: Observed, draft: Draft, role: str) -> None:
    """Take away what was made for a role. The Deployment goes last: as long as it is there, the rest is looked for."""
    name = Family.of(seen.database).workload(role)
    draft.remove(CONFIG_MAPS, name)
    draft.remove(NETWORK_POLICIES, name)
    draft.remove(DEPLOYMENTS, name)


def _changed(seen: Observed) -> bool:
    """Whether the spec is newer than what was last done about it, or that was given up midway: only then can there be
    something that was wanted before and is not any more."""
    status = seen.database.status
    ready = find(status.conditions, names.READY)
    given_up = ready is not None and ready.reason in names.GIVEN_UP
    return given_up or status.observed_generation != seen.database.metadata.generation
