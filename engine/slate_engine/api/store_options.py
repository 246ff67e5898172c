"""The names that ``ObjectStoreBuilder`` takes for the options of a store, and what the engine calls them.

The wheel takes those of its storage library: the names of environment variables in lower case, with or without the prefix
of the service, and a few synonyms.
"""

from __future__ import annotations

from slate_engine.api.enums import ObjectStoreType
from slate_engine.errors import InvalidError
from slate_engine.store.options import OPTIONS

LABELS = {
    ObjectStoreType.S3: "S3",
    ObjectStoreType.AZURE: "Azure",
    ObjectStoreType.GCS: "GCS",
    ObjectStoreType.LOCAL: "Local",
    ObjectStoreType.IN_MEMORY: "in-memory",
}

SCHEMES = {
    "s3": ObjectStoreType.S3,
    "s3a": ObjectStoreType.S3,
    "gs": ObjectStoreType.GCS,
    "gcs": ObjectStoreType.GCS,
    "az": ObjectStoreType.AZURE,
    "azure": ObjectStoreType.AZURE,
    "abfs": ObjectStoreType.AZURE,
    "abfss": ObjectStoreType.AZURE,
    "file": ObjectStoreType.LOCAL,
    "memory": ObjectStoreType.IN_MEMORY,
}

BUCKETS = {
    ObjectStoreType.S3: ("s3", ("AWS_BUCKET", "AWS_BUCKET_NAME")),
    ObjectStoreType.AZURE: ("az", ("AZURE_CONTAINER_NAME", "AZURE_STORAGE_CONTAINER_NAME")),
    ObjectStoreType.GCS: ("gs", ("GOOGLE_BUCKET", "GOOGLE_BUCKET_NAME")),
}
"""The scheme of each service's urls, and the variables that name the bucket."""

_PREFIXES = {
    ObjectStoreType.S3: ("aws_",),
    ObjectStoreType.AZURE: ("azure_storage_", "azure_"),
    ObjectStoreType.GCS: ("google_",),
}
_SERVICES = {ObjectStoreType.S3: "s3", ObjectStoreType.AZURE: "azure", ObjectStoreType.GCS: "gcs"}
_SYNONYMS = {
    ObjectStoreType.S3: {
        "bucket_name": "bucket",
        "default_region": "region",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "token": "session_token",
        "virtual_hosted_style_request": "virtual_hosted_style",
        "skip_signature": "anonymous",
    },
    ObjectStoreType.AZURE: {
        "container_name": "bucket",
        "access_key": "account_key",
        "master_key": "account_key",
        "sas_key": "sas_token",
        "bearer_token": "token",
        "authority_id": "tenant_id",
        "skip_signature": "anonymous",
    },
    ObjectStoreType.GCS: {
        "bucket_name": "bucket",
        "service_account_path": "service_account",
        "base_url": "endpoint",
        "skip_signature": "anonymous",
    },
}
_NEEDLESS = frozenset({"conditional_put", "copy_if_not_exists", "disable_tagging"})
"""How a store does conditional writes is not taken on trust: it is tried when the store is first used."""


def short_option(kind: ObjectStoreType, key: str) -> str | None:
    """The engine's name of an option; None for one that has no effect here."""
    if kind is ObjectStoreType.IN_MEMORY:
        return None
    if kind is ObjectStoreType.LOCAL:
        known = {"local_path"}
        name = key
    else:
        known = {"bucket", *(option.name for option in OPTIONS if _SERVICES[kind] in option.services)}
        name = next((key.removeprefix(start) for start in _PREFIXES[kind] if key.startswith(start)), key)
        name = _SYNONYMS[kind].get(name, name)
        if name in _NEEDLESS:
            return None
    if name not in known:
        raise InvalidError(
            f"invalid {LABELS[kind]} object store config key: {key}; there are {', '.join(sorted(known))}"
        )
    return name
