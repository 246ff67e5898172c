"""Certificates: served, replaced without a restart, and asked of clients."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import TlsConfig
from slate_engine.server.tls import Certificates
from tests.server.conftest import Start
from tests.server.processes import until


def issue(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key)]
    subprocess.run([*command, "-out", str(certificate)], check=True, capture_output=True, timeout=30)
    return certificate, key


def shown(port: int, trusted: Path, client: tuple[Path, Path] | None = None) -> bytes:
    """Ping over TLS; the certificate that the server has shown."""
    context = ssl.create_default_context(cafile=str(trusted))
    if client is not None:
        context.load_cert_chain(*client)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        secured.sendall(b"PING\r\n")
        assert secured.recv(100) == b"+PONG\r\n"
        return secured.getpeercert(binary_form=True) or b""


def test_the_redis_protocol_with_tls(start: Start, tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "server")
    caller = issue(tmp_path, "caller")
    tls = {"resp__tls__certificate": certificate, "resp__tls__key": key}
    writer = start("writer", **tls).wait_ready()
    assert shown(writer.resp_port, certificate)
    with socket.create_connection(("127.0.0.1", writer.resp_port), timeout=10) as plain:
        plain.sendall(b"PING\r\n")
        assert b"PONG" not in plain.recv(100)
    mutual = start("writer", path="other", **tls, resp__tls__client_ca=caller[0]).wait_ready()
    assert shown(mutual.resp_port, certificate, caller)
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        shown(mutual.resp_port, certificate)


def test_a_certificate_is_replaced_without_a_restart(tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "server")
    held = Certificates.of(TlsConfig(certificate=certificate, key=key), SystemRuntime())
    assert held is not None
    first = handshake(held.context, certificate)
    issue(tmp_path, "server")
    held.refresh()
    second = handshake(held.context, certificate)
    assert first != second
    key.write_text("nonsense")
    held.refresh()
    assert handshake(held.context, certificate) == second, "what was good stays in use"


def handshake(server: ssl.SSLContext, trusted: Path) -> bytes:
    """The certificate that a server with this context shows, without a socket."""
    client = ssl.create_default_context(cafile=str(trusted))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for _ in range(10):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return theirs.getpeercert(binary_form=True) or b""


def test_half_a_configuration_is_refused(tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "server")
    runtime = SystemRuntime()
    assert Certificates.of(TlsConfig(), runtime) is None
    with pytest.raises(InvalidError, match="given together"):
        Certificates.of(TlsConfig(certificate=certificate), runtime)
    with pytest.raises(InvalidError, match=r"needs tls\.certificate"):
        Certificates.of(TlsConfig(client_ca=certificate), runtime)
    with pytest.raises(InvalidError, match="no certificate"):
        Certificates.of(TlsConfig(certificate=key, key=key), runtime)


def accepted(server: ssl.SSLContext, trusted: Path, client: tuple[Path, Path]) -> bool:
    """Whether a server with this context takes a client that shows this certificate, without a socket."""
    context = ssl.create_default_context(cafile=str(trusted))
    context.load_cert_chain(*client)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    done = False
    for _ in range(10):
        for side in (theirs, ours):
            try:
                side.do_handshake()
                done |= side is ours
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return done


def replace(file: Path, other: Path) -> None:
    """As a secret that is mounted is replaced: another file stands there all at once."""
    fresh = file.with_suffix(".fresh")
    shutil.copy(other, fresh)
    fresh.replace(file)


def test_an_authority_that_was_removed_is_not_trusted_any_more(tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "server")
    former, present = issue(tmp_path, "former"), issue(tmp_path, "present")
    authority = tmp_path / "ca.pem"
    replace(authority, former[0])
    held = Certificates.of(TlsConfig(certificate=certificate, key=key, client_ca=authority), SystemRuntime())
    assert held is not None
    assert accepted(held.context, certificate, former)
    replace(authority, present[0])
    held.refresh()
    assert accepted(held.context, certificate, present)
    assert not accepted(held.context, certificate, former)


def test_half_a_rotation_changes_nothing(tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "server")
    trusted = shutil.copy(certificate, tmp_path / "first.pem")
    held = Certificates.of(TlsConfig(certificate=certificate, key=key), SystemRuntime())
    assert held is not None
    first = handshake(held.context, trusted)
    (tmp_path / "next").mkdir()
    next_certificate, next_key = issue(tmp_path / "next", "server")
    replace(certificate, next_certificate)
    held.refresh()
    assert handshake(held.context, trusted) == first, "the certificate has come, its key has not"
    replace(key, next_key)
    held.refresh()
    assert handshake(held.context, next_certificate) != first


def test_a_running_process_takes_new_certificates_and_authorities(start: Start, tmp_path: Path) -> None:
    """Health and the admin API, with certificates on both sides, before and after all of them were replaced."""
    certificate, key = issue(tmp_path, "server")
    former, present = issue(tmp_path, "former"), issue(tmp_path, "present")
    authority = tmp_path / "ca.pem"
    replace(authority, former[0])
    tls = {"http__tls__certificate": certificate, "http__tls__key": key, "http__tls__client_ca": authority}
    service = start("gc", **tls)

    def alive(trusted: Path, client: tuple[Path, Path] | None) -> bool:
        context = ssl.create_default_context(cafile=str(trusted))
        if client is not None:
            context.load_cert_chain(*client)
        try:
            with urlopen(f"https://127.0.0.1:{service.http_port}/livez", timeout=10, context=context) as answer:
                return bool(answer.read() == b"alive\n")
        except OSError:
            return False

    until(lambda: alive(certificate, former), 60)
    assert not alive(certificate, None)
    assert not alive(certificate, present)
    (tmp_path / "next").mkdir()
    next_certificate, next_key = issue(tmp_path / "next", "server")
    replace(certificate, next_certificate)
    replace(key, next_key)
    replace(authority, present[0])
    until(lambda: alive(next_certificate, present), 30)
    assert not alive(next_certificate, former)
    assert service.stop() == 0
