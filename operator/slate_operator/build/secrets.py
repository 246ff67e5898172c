"""The Secrets of a database: tokens of the admin API, passwords of the Redis protocol, certificates.

Each is a function from what stands in the cluster to what should stand there. What exists is kept, unless it has run out or
the user asked for a new one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slate_operator.api.database import SlateDatabase
from slate_operator.build.certificates import Pair, authority, authority_due, hosts_of, leaf, leaf_due, renewal_in
from slate_operator.build.naming import Family
from slate_operator.build.succession import Succession
from slate_operator.kube.cluster import SECRETS, Body
from slate_operator.names import ANNOTATION_ROTATE

RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Made:
    """A Secret as it should be, and when it will change by itself."""

    body: Body
    next_change: float | None = None


def wanted_rotation(database: SlateDatabase) -> str:
    return database.metadata.annotations.get(ANNOTATION_ROTATE, "")


def authority_secret(database: SlateDatabase, found: Body | None, now: float) -> tuple[Made, Succession[Pair]]:
    """The authority that signs, and the one that comes next or was before."""
    family, data = Family.of(database), _data(found)
    made = _pair(data, "tls")

    def new() -> Pair:
        return authority(family, now)

    if made is None:
        succession: Succession[Pair] = Succession(new(), followed=wanted_rotation(database))
    else:
        known = Succession.of(made, _pair(data, "other"), _annotations(found))
        succession = known.advanced(now, wanted_rotation(database), new, due=authority_due(made, now))
    contents = {
        "tls.crt": succession.current.certificate,
        "tls.key": succession.current.key,
        "ca.crt": trusted(succession),
    }
    if succession.other is not None:
        contents |= {"other.crt": succession.other.certificate, "other.key": succession.other.key}
    body = _secret(family, family.ca_secret, contents, succession.annotations)
    return Made(body, succession.next_change(now)), succession


def trusted(authorities: Succession[Pair]) -> bytes:
    """The certificates that a client may meet."""
    return b"".join(each.certificate for each in authorities.accepted)


def tls_secret(
    database: SlateDatabase, found: Body | None, authorities: Succession[Pair], now: float, cluster_domain: str
) -> Made:
    """The certificate of the doors."""
    family = Family.of(database)
    hosts = hosts_of(family, cluster_domain)
    pair = _pair(_data(found), "tls")
    if pair is None or leaf_due(pair, authorities.current, hosts, now):
        pair = leaf(authorities.current, hosts, now)
    contents = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": trusted(authorities)}
    body = _secret(family, family.tls_secret, contents, type="kubernetes.io/tls")
    return Made(body, max(0.0, renewal_in(pair, now)))


def admin_secret(
    database: SlateDatabase, found: Body | None, authorities: Succession[Pair], now: float, random: RandomBytes
) -> Made:
    """What the operator, and whoever else may, shows to the admin API."""
    succession = _words(database, found, "token", now, random)
    contents = {**_spelled("token", succession), "ca.crt": trusted(authorities)}
    family = Family.of(database)
    return Made(_secret(family, family.admin_secret, contents, succession.annotations), succession.next_change(now))


def auth_secret(database: SlateDatabase, found: Body | None, now: float, random: RandomBytes) -> Made | None:
    """What clients show; None if the user has a Secret of his own for it."""
    if database.spec.writer.auth.secret_ref is not None:
        return None
    succession = _words(database, found, "password", now, random)
    family = Family.of(database)
    body = _secret(family, family.auth_secret, _spelled("password", succession), succession.annotations)
    return Made(body, succession.next_change(now))


def _words(database: SlateDatabase, found: Body | None, key: str, now: float, random: RandomBytes) -> Succession[bytes]:
    data, wanted = _data(found), wanted_rotation(database)

    def new() -> bytes:
        return base64.urlsafe_b64encode(random(32)).rstrip(b"=")

    current = data.get(key, b"").strip()
    if not current:
        return Succession(new(), followed=wanted)
    others = [line for line in data.get(f"{key}s", b"").split() if line != current]
    return Succession.of(current, others[0] if others else None, _annotations(found)).advanced(now, wanted, new)


def _spelled(key: str, succession: Succession[bytes]) -> dict[str, bytes]:
    return {key: succession.current, f"{key}s": b"".join(word + b"\n" for word in succession.accepted)}


def _secret(
    family: Family,
    name: str,
    contents: Mapping[str, bytes],
    annotations: Mapping[str, str] = {},
    type: str = "Opaque",
) -> Body:
    data = {key: base64.b64encode(value).decode() for key, value in contents.items()}
    return family.object(SECRETS, name, {"type": type, "data": data}, annotations=annotations)


def _data(found: Body | None) -> dict[str, bytes]:
    stored = (found or {}).get("data") or {}
    return {key: base64.b64decode(value) for key, value in stored.items()}


def _annotations(found: Body | None) -> Mapping[str, str]:
    return ((found or {}).get("metadata") or {}).get("annotations") or {}


def _pair(data: Mapping[str, bytes], name: str) -> Pair | None:
    certificate, key = data.get(f"{name}.crt"), data.get(f"{name}.key")
    return Pair(certificate, key) if certificate and key else None
