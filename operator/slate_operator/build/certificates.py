"""Certificates: an authority of each database's own, and one certificate for all of its doors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from slate_operator.build.naming import Family

AUTHORITY_DAYS, AUTHORITY_RENEWED_DAYS = 3650, 365
LEAF_DAYS, LEAF_RENEWED_DAYS = 90, 30
"""How long each is good, and how long before its end there is a new one."""
SKEW = timedelta(minutes=5)
"""The clocks of others may be behind by so much."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def authority(family: Family, now: float) -> Pair:
    """A new one, which may sign certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{family.name}.{family.namespace} SlateDB authority")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _begun(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def leaf(authority: Pair, hosts: Sequence[str], now: float) -> Pair:
    """A new certificate for these names."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = _private(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    builder = (
        _begun(_name(hosts[0][:64]), issuer.subject, key.public_key(), now, LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
    )
    return _signed(builder, key, signer)


def hosts_of(family: Family, cluster_domain: str) -> list[str]:
    """All names under which the Services of the database are reached, from near and far."""
    services = (family.writer_service, family.readers_service, family.admin_service)
    ends = ("", f".{family.namespace}", f".{family.namespace}.svc", f".{family.namespace}.svc.{cluster_domain}")
    return [service + end for service in services for end in ends] + ["localhost"]


def authority_due(pair: Pair, now: float) -> bool:
    return _left(pair, now) < timedelta(days=AUTHORITY_RENEWED_DAYS)


def leaf_due(pair: Pair, authority: Pair, hosts: Sequence[str], now: float) -> bool:
    """Whether a new one is needed: it ends soon, it is not of this authority, or it is not for these names."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        _private(pair.key)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return True  # somebody has written something else there
    return names.get_values_for_type(x509.DNSName) != list(hosts) or renewal_in(pair, now) <= 0


def renewal_in(pair: Pair, now: float) -> float:
    """Seconds until a leaf should be replaced."""
    return (_left(pair, now) - timedelta(days=LEAF_RENEWED_DAYS)).total_seconds()


def _left(pair: Pair, now: float) -> timedelta:
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc - _when(now)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_when(now) - SKEW)
        .not_valid_after(_when(now) + timedelta(days=days))
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    return Pair(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not a key of ours")
    return key


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _usage(**allowed: bool) -> x509.KeyUsage:
    every = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in every})


def _when(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
