"""Secrets: made once and kept; and when they are replaced, nobody is shut out at any moment."""

from __future__ import annotations

import ssl
from typing import Any

from cryptography import x509

from slate_operator.build.certificates import (
    AUTHORITY_DAYS,
    AUTHORITY_RENEWED_DAYS,
    LEAF_DAYS,
    LEAF_RENEWED_DAYS,
    hosts_of,
)
from slate_operator.build.naming import Family
from slate_operator.build.secrets import admin_secret, auth_secret, authority_secret, tls_secret
from slate_operator.build.succession import FADE_SECONDS, SPREAD_SECONDS, Succession
from slate_operator.names import ANNOTATION_ROTATE
from tests.operator.build.samples import NOW, SMALL, database_of, plain, random_bytes, secrets_of

DAY = 86400.0


class Chance:
    """Different bytes each time."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, n: int) -> bytes:
        self.drawn += 1
        return bytes([self.drawn]) * n


def asked_to_rotate(value: str) -> Any:
    return database_of(SMALL, annotations={ANNOTATION_ROTATE: value})


def test_what_is_there_is_kept() -> None:
    database = database_of(SMALL)
    ca, tls, admin, auth = secrets_of(database)
    later = NOW + 30 * DAY
    made, authorities = authority_secret(database, ca, later)
    assert made.body == ca
    assert tls_secret(database, tls, authorities, later, "cluster.local").body == tls
    assert admin_secret(database, admin, authorities, later, Chance()).body == admin
    kept = auth_secret(database, auth, later, Chance())
    assert kept is not None
    assert kept.body == auth


def test_a_token_gives_way_to_the_next_without_a_gap() -> None:
    """At every moment the token in use is accepted by a pod whose file is older by up to the time of spreading."""
    database, chance = asked_to_rotate("now"), Chance()
    found = secrets_of(database_of(SMALL))[2]
    _, authorities = authority_secret(database_of(SMALL), None, NOW)
    seen: list[tuple[float, dict[str, bytes]]] = []
    for at in (0.0, 10.0, SPREAD_SECONDS + 1, SPREAD_SECONDS + 20, SPREAD_SECONDS + FADE_SECONDS + 2):
        made = admin_secret(database, found, authorities, NOW + at, chance)
        found = made.body
        seen.append((at, plain(found)))
    old, new = seen[0][1]["token"], seen[-1][1]["token"]
    assert old != new
    assert [data["token"] for _, data in seen] == [old, old, new, new, new]
    assert [set(data["tokens"].split()) for _, data in seen] == [{old, new}] * 4 + [{new}]
    assert chance.drawn == 1
    assert found["metadata"]["annotations"] == {ANNOTATION_ROTATE: "now"}


def test_asked_again_while_an_old_one_fades_begins_again() -> None:
    fading = Succession(b"b", b"a", "fading", NOW, "one")
    again = fading.advanced(NOW + 10, "two", lambda: b"c")
    assert (again.current, again.other, again.phase) == (b"b", b"c", "spreading")
    assert fading.advanced(NOW + 10, "one", lambda: b"c") == fading
    assert fading.next_change(NOW + 10) == FADE_SECONDS - 10


def test_the_certificate_is_for_every_name_and_of_the_authority() -> None:
    database = database_of(SMALL)
    ca, tls = secrets_of(database)[:2]
    names = hosts_of(Family.of(database), "cluster.local")
    assert {"orders.shop.svc", "orders-readers.shop.svc.cluster.local", "orders-admin.shop.svc"} <= set(names)
    leaf = x509.load_pem_x509_certificate(plain(tls)["tls.crt"])
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(plain(ca)["tls.crt"]))
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == names
    ssl.create_default_context(cadata=plain(tls)["ca.crt"].decode())


def test_a_certificate_is_renewed_well_before_its_end() -> None:
    database = database_of(SMALL)
    ca, tls = secrets_of(database)[:2]
    _, authorities = authority_secret(database, ca, NOW)
    early = NOW + (LEAF_DAYS - LEAF_RENEWED_DAYS - 1) * DAY
    kept = tls_secret(database, tls, authorities, early, "cluster.local")
    assert kept.body == tls
    assert kept.next_change is not None
    assert 0 < kept.next_change <= 2 * DAY
    renewed = tls_secret(database, tls, authorities, early + 2 * DAY, "cluster.local").body
    assert plain(renewed)["tls.crt"] != plain(tls)["tls.crt"]
    # Another domain, or somebody's scribble, is as good as an end.
    assert tls_secret(database, tls, authorities, NOW, "other.domain").body != tls
    broken = {**tls, "data": {**tls["data"], "tls.crt": "bm9uZQ=="}}
    assert plain(tls_secret(database, broken, authorities, NOW, "cluster.local").body)["tls.crt"] != b"none"


def test_an_authority_is_trusted_before_it_signs_and_after() -> None:
    database = database_of(SMALL)
    ca, tls = secrets_of(database)[:2]
    due = NOW + (AUTHORITY_DAYS - AUTHORITY_RENEWED_DAYS + 1) * DAY
    for at, bundle in ((0.0, 2), (SPREAD_SECONDS + 1, 2), (SPREAD_SECONDS + FADE_SECONDS + 2, 1)):
        made, authorities = authority_secret(database, ca, due + at)
        ca = made.body
        tls = tls_secret(database, tls, authorities, due + at, "cluster.local").body
        trusted = plain(tls)["ca.crt"]
        assert trusted.count(b"BEGIN CERTIFICATE") == bundle
        assert _signer(plain(tls)["tls.crt"], trusted), "the door shows a certificate that nobody trusts"


def _signer(leaf: bytes, bundle: bytes) -> bool:
    certificate = x509.load_pem_x509_certificate(leaf)
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            certificate.verify_directly_issued_by(authority)
        except Exception:
            continue
        return True
    return False


def test_a_secret_of_the_users_own_is_left_to_him() -> None:
    database = database_of(SMALL | {"writer": {"auth": {"secretRef": {"name": "mine", "key": "passwords"}}}})
    assert auth_secret(database, None, NOW, random_bytes) is None
