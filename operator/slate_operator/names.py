"""Every name that others can see: the API group, labels, annotations, finalizers, conditions, reasons.

They are listed here once, because each is a promise: a label is selected by somebody's policy, a reason is matched by
somebody's alert. docs/reference/kinds.md explains them to users.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "slatekeeper.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "slate"

FIELD_MANAGER: Final = "slatekeeper"
"""The one field manager of everything that we apply."""
STATUS_MANAGER: Final = "slatekeeper-status"

# --- labels of what we make ---------------------------------------------------------------------------------------
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "slatekeeper"
APP: Final = "slatedb"
LABEL_DATABASE: Final = f"{GROUP}/database"
LABEL_ROLE: Final = f"{GROUP}/role"
LABEL_SCHEDULE: Final = f"{GROUP}/schedule"
LABEL_CLONE: Final = f"{GROUP}/clone"
LABEL_SPARK: Final = f"{GROUP}/spark"
"""On everything of one Spark job: its name."""
LABEL_OWNER: Final = f"{GROUP}/owner"
"""On the pods of one Spark job, which outlive what they were made for: its uid."""

# --- annotations --------------------------------------------------------------------------------------------------
ANNOTATION_APPLIED: Final = f"{GROUP}/applied"
"""A digest of what we applied last, on every object that we make: the same again is not sent again."""
ANNOTATION_CONFIG: Final = f"{GROUP}/config"
"""A digest of the configuration that a pod reads at its start, on its template: a change rolls that pod only."""
ANNOTATION_SECRET: Final = f"{GROUP}/secret"
"""The resource version of the user's Secret, on the templates of pods that take their environment from it."""
ANNOTATION_ROTATE: Final = f"{GROUP}/rotate"
"""On a SlateDatabase: a new value makes new tokens and certificates."""
ANNOTATION_TAKE: Final = f"{GROUP}/take-ownership-from"
"""On a SlateDatabase: the uid of the owner, now gone, whose mark on the path may be replaced."""
ANNOTATION_BRING_BACK: Final = f"{GROUP}/bring-back"
"""On a SlateDatabase: a new value brings back its database, if that was destroyed."""
ANNOTATION_SCHEDULED_AT: Final = f"{GROUP}/scheduled-at"

# --- finalizers, named after what they wait for -------------------------------------------------------------------
FINALIZER_DATABASE: Final = f"{GROUP}/database-released"
FINALIZER_CHECKPOINT: Final = f"{GROUP}/checkpoint-released"
FINALIZER_BULK_READ: Final = f"{GROUP}/bulk-read-stopped"

# --- conditions ---------------------------------------------------------------------------------------------------
READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
"""kstatus: there only while something is under way."""
STALLED: Final = "Stalled"
"""kstatus: there only while nothing but a change by the user helps."""
STORAGE_AVAILABLE: Final = "StorageAvailable"
OWNED: Final = "Owned"
WRITER_READY: Final = "WriterReady"
READERS_READY: Final = "ReadersReady"
COMPACTOR_READY: Final = "CompactorReady"
GC_READY: Final = "GCReady"
CONTENDED: Final = "Contended"
PAUSED: Final = "Paused"
HIBERNATED: Final = "Hibernated"
DELETION_BLOCKED: Final = "DeletionBlocked"
ATTACHED: Final = "Attached"
COMPACTING_ON_SPARK: Final = "CompactingOnSpark"

# --- reasons ------------------------------------------------------------------------------------------------------
GIVEN_UP: Final = ("Refused", "NameTaken", "LeftBehind", "InvalidObject", "OperatorFailed")
"""Those that the loop around all reconcilers gives. A look that ended so may have done a part of its work only."""


class Role:
    """The processes of a database."""

    WRITER: Final = "writer"
    READER: Final = "reader"
    COMPACTOR: Final = "compactor"
    GC: Final = "gc"
    ALL: Final = (GC, WRITER, COMPACTOR, READER)


class Port:
    RESP: Final = 6379
    HTTP: Final = 8080
