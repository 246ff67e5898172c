"""The obstore clients of a bucket, from its place and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from obstore.store import AzureStore, GCSStore, S3Store

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.cost import RequestMeter
from slate_engine.store.dialects import dialect_of
from slate_engine.store.obstore_backend import ObstoreBackend
from slate_engine.store.options import AZURE, GCS, S3, Options
from slate_engine.store.place import Place

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureCredential, ClientConfig, GCSConfig, RetryConfig, S3Config, S3Credential

    from slate_engine.store.obstore_backend import Client

_NEVER: RetryConfig = {"max_retries": 0}
_PATIENT: RetryConfig = {"max_retries": 8}


def open_obstore(
    place: Place, options: Options, runtime: Runtime, *, meter: RequestMeter | None = None
) -> ObstoreBackend:
    make = {S3: _s3, GCS: _gcs, AZURE: _azure}[place.service]
    client, patient = make(place, options, _NEVER), make(place, options, _PATIENT)
    return ObstoreBackend(place, options, client, patient, runtime, meter=meter)


def _http(options: Options, headers: dict[str, str] | None = None) -> ClientConfig:
    config: ClientConfig = {
        "allow_http": options.flag("allow_http"),
        "timeout": f"{options.number('timeout', 30)}s",
        "connect_timeout": f"{options.number('connect_timeout', 5)}s",
    }
    if headers:
        config["default_headers"] = headers
    return config


def _s3(place: Place, options: Options, retries: RetryConfig) -> Client:
    dialect = dialect_of(options)
    config: S3Config = {
        "region": options.text("region", dialect.region),
        "virtual_hosted_style_request": options.flag("virtual_hosted_style"),
        "skip_signature": options.flag("anonymous"),
    }
    if endpoint := options.text("endpoint"):
        config["endpoint"] = endpoint
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options=_http(options, dialect.headers),
        retry_config=retries,
        credential_provider=_s3_credentials(options),
    )


def _s3_credentials(options: Options) -> Callable[[], S3Credential] | None:
    """None leaves it to the client: a web identity, a container's or a machine's role.

    A key that was given is handed over by a function and not in the config, which the client shows to whoever prints it.
    """
    if not (key := options.text("access_key_id")):
        return None
    credential: S3Credential = {
        "access_key_id": key,
        "secret_access_key": options.text("secret_access_key"),
        "token": options.text("session_token") or None,
        "expires_at": None,
    }
    return lambda: credential


def _gcs(place: Place, options: Options, retries: RetryConfig) -> Client:
    config: GCSConfig = {}
    if options.flag("anonymous"):
        config["skip_signature"] = True
    for name in ("service_account", "service_account_key", "application_credentials", "bearer_token"):
        if value := options.text(name):
            config[name] = value
    if endpoint := options.text("endpoint"):
        config["base_url"] = endpoint
    return GCSStore(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options=_http(options),
        retry_config=retries,
    )


def _azure(place: Place, options: Options, retries: RetryConfig) -> Client:
    config: AzureConfig = {}
    account = place.account or options.text("account_name")
    if not account:
        raise InvalidError(
            "Azure needs the storage account: set the option account_name, or AZURE_STORAGE_ACCOUNT_NAME"
        )
    config["account_name"] = account
    for name in ("client_id", "client_secret", "tenant_id", "federated_token_file"):
        if value := options.text(name):
            config[name] = value
    if endpoint := options.text("endpoint"):
        config["endpoint"] = endpoint
    if options.flag("anonymous"):
        config["skip_signature"] = True
    return AzureStore(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options=_http(options),
        retry_config=retries,
        credential_provider=_azure_credentials(options),
    )


def _azure_credentials(options: Options) -> Callable[[], AzureCredential] | None:
    """None leaves it to the client: a service principal, a federated token, a managed identity."""
    credential: AzureCredential
    if key := options.text("account_key"):
        credential = {"access_key": key, "expires_at": None}
    elif sas := options.text("sas_token"):
        credential = {"sas_token": sas.removeprefix("?"), "expires_at": None}
    elif token := options.text("token"):
        credential = {"token": token, "expires_at": None}
    else:
        return None
    return lambda: credential
