"""The options of a store: what they are called, which environment variables stand for them, which are secret.

An option may be written by its short name (``access_key_id``) or by the name of one of its variables
(``AWS_ACCESS_KEY_ID``), and is looked for in the environment when it is not given. Values that are secret never show: not
in ``repr``, not in an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slate_engine.errors import InvalidError

S3, GCS, AZURE, OTHER = "s3", "gcs", "azure", "fsspec"
_HTTP = frozenset({S3, GCS, AZURE})
_EVERY = frozenset({"memory", "file", S3, GCS, AZURE, OTHER})


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    services: frozenset[str]
    variables: tuple[str, ...] = ()
    secret: bool = False
    identity: bool = False
    """One of those that together say who calls: they are taken all from the options or all from the environment."""


def _of(service: str, *options: tuple[str, tuple[str, ...], str]) -> list[Option]:
    return [
        Option(name, frozenset({service}), variables, secret="s" in traits, identity="i" in traits)
        for name, variables, traits in options
    ]


OPTIONS = [
    Option("client", _HTTP | {OTHER}),
    Option("cas", _EVERY, secret=True),
    Option("probe", _HTTP),
    Option("endpoint", _HTTP),
    Option("allow_http", _HTTP, ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP")),
    Option("anonymous", _HTTP, ("AWS_SKIP_SIGNATURE", "AZURE_SKIP_SIGNATURE", "GOOGLE_SKIP_SIGNATURE")),
    Option("timeout", _HTTP),
    Option("connect_timeout", _HTTP),
    Option("retry_attempts", _HTTP | {OTHER}),
    Option("retry_seconds", _HTTP | {OTHER}),
    *_of(
        S3,
        ("dialect", (), ""),
        ("region", ("AWS_REGION", "AWS_DEFAULT_REGION"), ""),
        ("virtual_hosted_style", ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST",), ""),
        ("access_key_id", ("AWS_ACCESS_KEY_ID",), "si"),
        ("secret_access_key", ("AWS_SECRET_ACCESS_KEY",), "si"),
        ("session_token", ("AWS_SESSION_TOKEN", "AWS_TOKEN"), "si"),
    ),
    *_of(
        GCS,
        ("service_account", ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"), "i"),
        ("service_account_key", ("GOOGLE_SERVICE_ACCOUNT_KEY",), "si"),
        ("application_credentials", ("GOOGLE_APPLICATION_CREDENTIALS",), "i"),
        ("bearer_token", ("GOOGLE_BEARER_TOKEN",), "si"),
    ),
    *_of(
        AZURE,
        ("account_name", ("AZURE_STORAGE_ACCOUNT_NAME",), ""),
        ("connection_string", ("AZURE_STORAGE_CONNECTION_STRING",), "si"),
        ("account_key", ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"), "si"),
        ("sas_token", ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"), "si"),
        ("token", ("AZURE_STORAGE_TOKEN",), "si"),
        ("client_id", ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID"), "i"),
        ("client_secret", ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"), "si"),
        ("tenant_id", ("AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID"), "i"),
        ("federated_token_file", ("AZURE_FEDERATED_TOKEN_FILE",), "i"),
    ),
]

_ENDPOINTS = {
    S3: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    GCS: ("GOOGLE_BASE_URL", "STORAGE_EMULATOR_HOST"),
    AZURE: ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_SECRET = frozenset(option.name for option in OPTIONS if option.secret)
_OPEN = frozenset(
    name.lower() for option in OPTIONS if not option.secret for name in (option.name, *option.variables)
) | frozenset(variable.lower() for variables in _ENDPOINTS.values() for variable in variables)
PASSED_ON = "fsspec."
"""Options of other fsspec file systems are their own: ``fsspec.host`` is handed on as ``host``."""
_PREFIXES = {S3: "AWS_", GCS: "GOOGLE_", AZURE: "AZURE_"}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one store, resolved. ``repr`` shows no value."""

    service: str
    values: Mapping[str, str] = field(repr=False)

    def text(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name, "").strip().lower()
        if value in ("1", "true", "yes", "on"):
            return True
        if value in ("0", "false", "no", "off"):
            return False
        if value:
            raise InvalidError(f"option {name} must be true or false")
        return default

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name, "")
        try:
            number = float(value) if value else default
        except ValueError:
            number = 0.0
        if not number > 0:
            raise InvalidError(f"option {name} must be a number above 0")
        return number

    def hide(self, text: str) -> str:
        """``text`` without any value that must not be shown."""
        for name, value in self.values.items():
            if len(value) > 3 and (name in _SECRET or name.startswith(PASSED_ON)):
                text = text.replace(value, "***")
        return text


def may_be_shown(name: str) -> bool:
    """Whether the value of an option, by any of its names, is fit for everybody. Of one that nobody knows, it is not."""
    return name.lower() in _OPEN


def resolve(service: str, given: Mapping[str, str] | None, environment: Mapping[str, str]) -> Options:
    """The options of a ``service`` from those ``given`` and, for the rest, from the ``environment``."""
    known = {option.name: option for option in OPTIONS if service in option.services}
    values = _by_short_name(service, given or {}, known)
    own_identity = any(name in known and known[name].identity for name in values)
    for name, option in known.items():
        variables = _ENDPOINTS.get(service, ()) if name == "endpoint" else option.variables
        if name in values or (option.identity and own_identity):
            continue
        for variable in variables:
            if not variable.startswith((_PREFIXES.get(service, ""), "STORAGE_")):
                continue
            if environment.get(variable):
                values[name] = environment[variable]
                break
    if connection := values.pop("connection_string", ""):
        values = {**_from_connection_string(connection), **values}
    return Options(service, values)


def _from_connection_string(text: str) -> dict[str, str]:
    """What Azure's portal hands out as one line: ``AccountName=…;AccountKey=…;BlobEndpoint=…``."""
    fields = dict(pair.partition("=")[::2] for pair in text.strip().strip(";").split(";"))
    names = {"AccountName": "account_name", "AccountKey": "account_key", "BlobEndpoint": "endpoint"}
    names["SharedAccessSignature"] = "sas_token"
    values = {short: fields[name] for name, short in names.items() if fields.get(name)}
    if "EndpointSuffix" in fields and "endpoint" not in values and "account_name" in values:
        scheme = fields.get("DefaultEndpointsProtocol", "https")
        values["endpoint"] = f"{scheme}://{values['account_name']}.blob.{fields['EndpointSuffix']}"
    return values


def _by_short_name(service: str, given: Mapping[str, str], known: Mapping[str, Option]) -> dict[str, str]:
    aliases = {variable.lower(): name for name, option in known.items() for variable in option.variables}
    aliases |= {variable.lower(): "endpoint" for variable in _ENDPOINTS.get(service, ())}
    values: dict[str, str] = {}
    for name, value in given.items():
        short = aliases.get(name.lower(), name.lower())
        if service == OTHER and name.startswith(PASSED_ON):
            short = name
        elif short not in known:
            raise InvalidError(f"store option {name!r} is unknown for {service}; known are: {', '.join(sorted(known))}")
        if short in values:
            raise InvalidError(f"store option {short!r} is given twice, by two of its names")
        values[short] = str(value)
    return values
