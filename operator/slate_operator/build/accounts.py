"""The service account of the pods: an identity for the cloud, with no rights in the cluster."""

from __future__ import annotations

from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import SERVICE_ACCOUNTS, Body


def service_account(database: SlateDatabase) -> Body | None:
    """None if the user has made one."""
    if database.spec.store.service_account_name is not None:
        return None
    family = Family.of(database)
    return family.object(
        SERVICE_ACCOUNTS,
        family.service_account,
        {"automountServiceAccountToken": False},
        annotations=database.spec.store.service_account_annotations,
    )
