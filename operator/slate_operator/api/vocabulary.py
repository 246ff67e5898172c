"""What the conditions of the kinds mean, and their reasons. docs/reference/kinds.md is made from it.

A reason is matched by somebody's alert, so a test holds this list against what the reconcilers say. Reasons that come from
elsewhere, such as a pod's ``ImagePullBackOff``, are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slate_operator import names


@dataclass(frozen=True, slots=True)
class Meaning:
    """Of a condition: what it says when it is true, and why it is or is not."""

    type: str
    when_true: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    elsewhere: str = ""
    """Reasons that are not ours."""


_UNDER_WAY = Meaning(
    names.RECONCILING,
    "Something is under way and needs nobody. It is there only while it is true, and has the reason of `Ready`.",
)
_STUCK = Meaning(
    names.STALLED,
    "Nothing but a change by you helps. It is there only while it is true, and has the reason of `Ready`.",
)
_OPERATOR = {
    "InvalidObject": "this operator is older than the CRD and does not understand the object",
    "OperatorFailed": "a defect of the operator; its log says more, and it tries again",
    "Refused": "the API server does not take what is to be made; the message is its own",
}
_TAKEN = (
    "an object of yours has the name of one that is to be made, and is left as it is: rename or delete it, rename this "
    "object, or give it away by the label that the message names"
)
_LEFT = (
    "an object of the same name that is gone has left something that is to be made anew; the message says what, and which "
    "finalizers hold it. It goes on by itself"
)
_PODS = "what a pod waits for or ended with: `ImagePullBackOff`, `CrashLoopBackOff`, `Unschedulable`, `Restarting` …"
_ROLE = {
    "Available": "as many run as wanted, all of the newest template",
    "Stopped": "none is wanted",
    "RollingOut": "they are being started or replaced",
}

DATABASE = (
    Meaning(
        names.READY,
        "Everything that is wanted runs.",
        {
            "Ready": "all that is wanted runs",
            "RollingOut": "pods are being started or replaced",
            "Starting": "the collector is being started, which comes before all others",
            "NotClaimed": "nothing is started before the path is known to be this object's",
            "NotAnswering": "the collector or the object store does not answer",
            "NoDatabase": "the first writer has yet to make it, or there is none to adopt or recover",
            "WalMissing": "a WAL file that the database needs is missing: it is lost, or the WAL is in another store",
            "Cloning": "it is being cloned",
            "SourceMissing": "the SlateDatabase or Checkpoint to clone is not there",
            "SourceNotReady": "what is to be cloned is not ready yet",
            "OtherStore": "a clone has to be in its source's bucket",
            "CloneFailed": "the clone could not be made",
            "UnderConstruction": "somebody else is making a clone at this path",
            "Recovering": "the destroyed database is being brought back",
            "NotRecovered": "it could not be brought back",
            "Destroyed": "the database at this path is destroyed, and `bootstrap.recover` was not asked for",
            "BeingDeleted": "the database at this path is being deleted for good",
            "DataMissing": "there was a database, and nothing is left of it, or another one is in its place",
            "NoImage": "neither the spec nor the operator names an image",
            "NameTaken": _TAKEN,
            "LeftBehind": _LEFT,
            "Hibernated": "nothing but the collector runs, as asked",
            "Deleting": "it is being deleted",
            **_OPERATOR,
        },
        "those of the condition below that is not as it should be",
    ),
    _UNDER_WAY,
    _STUCK,
    Meaning(
        names.STORAGE_AVAILABLE,
        "The pods reach the object store.",
        {
            "Answering": "the object store answers",
            "NotAnswering": "it does not, or does not permit it",
            "SecretMissing": "a Secret that the spec names is not there",
        },
    ),
    Meaning(
        names.OWNED,
        "The path is marked as belonging to this object. Without it nothing but the collector runs.",
        {
            "Claimed": "the mark is there",
            "NotAsked": "the collector could not be asked yet",
            "OwnedByAnother": "another object, perhaps of another cluster, has the path",
            "DatabaseExists": "there is a database already, and `bootstrap.adopt` was not asked for",
            "NoDatabase": "there is no database to adopt or recover",
            "WalMissing": "a WAL file that the database needs is missing: it is lost, or the WAL is in another store",
            "NotDestroyed": "the database is alive, so there is nothing to recover",
            "Destroyed": "the database is destroyed, and `bootstrap.recover` was not asked for",
            "Refused": "the collector refuses for another reason; the message says which",
        },
    ),
    Meaning(names.GC_READY, "The garbage collector runs, which also answers the operator.", _ROLE, _PODS),
    Meaning(names.WRITER_READY, "The writer runs. Not there in the mode External.", _ROLE, _PODS),
    Meaning(names.COMPACTOR_READY, "The compactor runs. Not there if it is not enabled.", _ROLE, _PODS),
    Meaning(names.READERS_READY, "All readers run. Not there if none was ever wanted.", _ROLE, _PODS),
    Meaning(
        names.CONTENDED,
        "Another writer takes the database away again and again. There only while it matters.",
        {
            "BackingOff": "our writer rests, twice as long each time",
            "TryingAgain": "it has another try, and is watched",
        },
    ),
    Meaning(
        names.COMPACTING_ON_SPARK,
        "A Spark job merges what is too large for the compactor. There only while it does, or when it could not.",
        {
            "Submitted": "the job is being started",
            "Running": "its driver runs",
            "LeftBehind": _LEFT,
            "Failed": "the last job failed, and another one is tried later; the compactor does what waits for too long",
        },
    ),
    Meaning(
        names.PAUSED, "The operator changes nothing, and its status is of the spec before.", {"Asked": "`spec.paused`"}
    ),
    Meaning(
        names.HIBERNATED,
        "Nothing but the garbage collector runs.",
        {"Asked": "`spec.hibernated`", "Stopping": "pods are still ending"},
    ),
    Meaning(
        names.DELETION_BLOCKED,
        "The deletion of the object waits; `status.deletion.blockedBy` lists for what.",
        {"InvalidDeletion": "the policy is `Destroy`, and a checkpoint or a clone needs the bytes"},
        elsewhere="the kind of the first blocker: `Grace`, `Checkpoint`, `Clone`, `BulkRead`, `Protection`, `Storage`, "
        "`Pods`, or `Image`, which is then too old for the operator",
    ),
)
CHECKPOINT = (
    Meaning(
        names.READY,
        "The checkpoint is in the database's manifest, and lives.",
        {
            "Kept": "it is there",
            "DatabaseMissing": "there is no such SlateDatabase",
            "DatabaseUnreachable": "its collector does not answer",
            "SourceMissing": "there is no Checkpoint to take the state of",
            "SourceElsewhere": "that Checkpoint is of another database",
            "SourceNotReady": "that Checkpoint is not ready yet",
            "NoSuchCheckpoint": "the database has no checkpoint of the id to adopt",
            "HeldByAnother": "the checkpoint to adopt is what a clone, a bulk read or another Checkpoint holds",
            "Lost": "it was deleted in the database, and not by this object",
            "Expired": "its lifetime is over",
            "Deleting": "it is being deleted",
            **_OPERATOR,
        },
        "what the database's collector refuses with, such as `NoDatabase` or `Destroyed`",
    ),
    _UNDER_WAY,
    _STUCK,
    Meaning(
        names.DELETION_BLOCKED,
        "The deletion of the object waits.",
        {
            "InUse": "something that begins with its state is still being made",
            "DatabaseUnreachable": "its collector does not answer",
        },
    ),
)
CLONE = (
    Meaning(
        names.READY,
        "The SlateDatabase that was made is ready.",
        {
            "Ready": "it is",
            "SourceMissing": "there is no such SlateDatabase or Checkpoint",
            "NameTaken": "there is another SlateDatabase of that name",
            "TargetTaken": "the clone would be where its source is",
            "TargetElsewhere": "the url is not in the source's bucket",
            "TemplateRefused": "the API server does not take the SlateDatabase that the template makes",
            "DatabaseDeleted": "the SlateDatabase that was made is deleted",
            **_OPERATOR,
        },
        "those of the SlateDatabase that was made",
    ),
    _UNDER_WAY,
    _STUCK,
    Meaning(
        names.ATTACHED,
        "It still needs bytes of its source. Neither is better than the other.",
        {"Shares": "so many bytes are shared", "Detached": "nothing is shared any more"},
    ),
)
SCHEDULE = (
    Meaning(
        names.READY,
        "Its runs are planned.",
        {
            "Scheduled": "the message says when the next is",
            "Suspended": "none is made, as asked",
            "InvalidSchedule": "the schedule or the time zone is none",
            **_OPERATOR,
        },
    ),
    _STUCK,
)
BULK_READ = (
    Meaning(
        names.READY,
        "The read has ended well.",
        {
            "Succeeded": "it has",
            "Submitted": "Spark is being started",
            "Running": "the driver runs; the message says how many executors do",
            "Retrying": "an attempt failed, and the next one is about to begin",
            "Failed": "all attempts failed; the message is that of the last one",
            "DeadlineExceeded": "it took longer than `spec.deadline`",
            "SourceMissing": "there is no such SlateDatabase or Checkpoint",
            "SourceNotReady": "the Checkpoint is not ready yet",
            "StateLost": "nobody prolonged what held the state, and it is gone",
            "DatabaseUnreachable": "the collector of the database does not answer",
            "NoImage": "neither the spec nor the operator names an image",
            "NameTaken": _TAKEN,
            "LeftBehind": _LEFT,
            "Deleting": "the driver's pod is ending",
            **_OPERATOR,
        },
        "what the database's collector refuses with, such as `NoDatabase` or `Destroyed`",
    ),
    _UNDER_WAY,
    _STUCK,
)
CONDITIONS: Mapping[str, tuple[Meaning, ...]] = {
    "SlateDatabase": DATABASE,
    "Checkpoint": CHECKPOINT,
    "Clone": CLONE,
    "CheckpointSchedule": SCHEDULE,
    "BulkRead": BULK_READ,
}
