"""Where a database is: its bucket and path, and what opens them."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from slate_operator.api.model import Model, Name, Reference
from slate_operator.api.place import URL
from slate_operator.api.rule import rule, rules

SECRET_OPTIONS = (
    *("cas", "access_key_id", "aws_access_key_id", "secret_access_key", "aws_secret_access_key"),
    *("session_token", "aws_session_token", "aws_token"),
    *("service_account_key", "google_service_account_key", "bearer_token", "google_bearer_token"),
    *("connection_string", "azure_storage_connection_string"),
    *("account_key", "azure_storage_account_key", "azure_storage_access_key"),
    *("sas_token", "azure_storage_sas_token", "azure_storage_sas_key", "token", "azure_storage_token"),
    *("client_secret", "azure_storage_client_secret", "azure_client_secret"),
)
"""The options of stores that are secret, by all the names that a store knows them by. Case does not count there."""


def no_secrets(advice: str) -> dict[str, str]:
    """The rule of options that everybody may see."""
    return rule(
        f"self.all(name, !(name.lowerAscii() in {list(SECRET_OPTIONS)}))",
        f"options are no place for secrets, for everybody who sees this object reads them; {advice}",
    )


class SecretKey(Model):
    """One key of a Secret of the same namespace."""

    name: Name = Field(description="The Secret's name.")
    key: str = Field(default="password", min_length=1, max_length=253, description="The key in it.")


class SecretUrl(SecretKey):
    """One key of a Secret of the same namespace."""

    key: str = Field(default="url", min_length=1, max_length=253, description="The key in it.")


class Cas(Model):
    """A transactional store that decides conditional writes, for buckets that have none."""

    secret_ref: SecretUrl = Field(
        description="Where the url of the transactional store is: mysql://…, postgresql://… or dynamodb://…. It is a "
        "secret because it holds a password."
    )


class Store(Model):
    """Where the database is, and how its pods get there."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.serviceAccountName) || !has(self.serviceAccountAnnotations)",
                "serviceAccountAnnotations are for the service account that is made for the database; put them on the "
                "one that serviceAccountName names, or leave that out",
            )
        )
    )

    url: str = Field(
        min_length=6,
        max_length=1024,
        description="The place of the database: s3://bucket/path, gs://bucket/path or az://container/path. It cannot be "
        "changed; to move a database, make a Clone or a copy.",
        examples=["s3://shop/orders"],
        json_schema_extra=rules(
            URL,
            rule(
                "self == oldSelf",
                "the place of a database cannot be changed; to have it elsewhere, make a Clone or a copy there, and a "
                "SlateDatabase with that url",
            ),
        ),
    )
    secret_ref: Reference | None = Field(
        default=None,
        description="A Secret whose keys become environment variables of the database's pods, such as AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY. Only these pods read it, never the operator, which knows no more than its resource version: "
        "any change of it, also of a label, replaces the pods.",
    )
    service_account_name: Name | None = Field(
        default=None,
        description="The service account of the pods, made by you, for instance one with a cloud identity. By default one "
        "is made for the database.",
    )
    service_account_annotations: dict[str, str] = Field(
        default_factory=dict,
        description="Annotations of the service account that is made, such as eks.amazonaws.com/role-arn.",
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        max_length=32,
        description="Options of the store that are no secrets: endpoint, region, allow_http, dialect …",
        json_schema_extra=rules(
            no_secrets(
                "put keys into a Secret and name it in store.secretRef, and the url of a transactional store into that of "
                "store.cas"
            )
        ),
    )
    cas: Cas | None = Field(default=None, description="For buckets without conditional writes.")
