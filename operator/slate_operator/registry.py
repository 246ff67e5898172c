"""Which reconciler looks after which kind."""

from __future__ import annotations

from collections.abc import Mapping

from slate_operator.admin.database import Databases
from slate_operator.clock import Clock
from slate_operator.controller import Reconciler
from slate_operator.kube.cluster import BULK_READS, CHECKPOINTS, CLONES, DATABASES, SCHEDULES, Cluster, Kind
from slate_operator.reconcile.bulk_read import BulkReadReconciler
from slate_operator.reconcile.checkpoint import CheckpointReconciler
from slate_operator.reconcile.clone import CloneReconciler
from slate_operator.reconcile.database import DatabaseReconciler
from slate_operator.reconcile.schedule import ScheduleReconciler
from slate_operator.settings import Settings


def reconcilers(cluster: Cluster, databases: Databases, clock: Clock, settings: Settings) -> Mapping[Kind, Reconciler]:
    return {
        DATABASES: DatabaseReconciler(cluster, databases, clock, settings),
        CHECKPOINTS: CheckpointReconciler(cluster, databases, clock),
        CLONES: CloneReconciler(cluster, databases, clock),
        SCHEDULES: ScheduleReconciler(cluster, clock),
        BULK_READS: BulkReadReconciler(cluster, databases, clock, settings),
    }
