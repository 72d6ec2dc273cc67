"""Certificates that the operator makes are ones that OpenSSL and the coordinators take, and what is read is judged."""

import dataclasses
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from muster_coordinator.runtime.tls_files import read_material, subject_of
from muster_coordinator.security.certificates import problem_of
from muster_coordinator.tls_settings import TlsKeys
from muster_operator.runtime.clock import SystemClock
from muster_operator.runtime.x509 import (
    Issued,
    Unreadable,
    key_id_of,
    key_store,
    new_authority,
    new_certificate,
    new_client_certificate,
    read_certificates,
)

NOW_MS = SystemClock().wall_ms()
HOSTS = ("main-bootstrap.shop.svc", "*.main-peers.shop.svc")


def made(days: int = 90) -> tuple[Issued, Issued]:
    ca = new_authority("main-cluster-ca shop", now_ms=NOW_MS, days=1825)
    return ca, new_certificate(ca, "main", hosts=HOSTS, addresses=("10.0.0.1", "fd00::1"), now_ms=NOW_MS, days=days)


def shake(server: Issued, ca: str, host: str, folder: Path, *, back: Issued | None = None) -> None:
    """A handshake in memory; `back`: the client shows this certificate. Raises ssl.SSLError."""
    (folder / "chain").write_text(server.certificate)
    (folder / "key").write_text(server.key)
    serving, dialling = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=ca)
    serving.load_cert_chain(folder / "chain", folder / "key")
    if back is not None:
        serving.verify_mode = ssl.CERT_REQUIRED
        serving.load_verify_locations(cadata=ca)
        (folder / "own-chain").write_text(back.certificate)
        (folder / "own-key").write_text(back.key)
        dialling.load_cert_chain(folder / "own-chain", folder / "own-key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        dialling.wrap_bio(to_client, to_server, server_hostname=host),
        serving.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(6):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
    assert sides == []


@pytest.mark.parametrize("host", ["main-bootstrap.shop.svc", "main-7.main-peers.shop.svc", "10.0.0.1", "fd00::1"])
def test_openssl_verifies_chain_and_name_both_ways(host: str, tmp_path: Path) -> None:
    ca, server = made()
    shake(server, ca.certificate, host, tmp_path, back=server)


@pytest.mark.parametrize("host", ["main-7.other-peers.shop.svc", "a.main-7.main-peers.shop.svc", "10.0.0.2"])
def test_a_host_that_is_not_covered_is_refused(host: str, tmp_path: Path) -> None:
    ca, server = made()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, ca.certificate, host, tmp_path)


def test_another_ca_of_the_same_name_is_refused_and_a_bundle_of_both_takes_both(tmp_path: Path) -> None:
    (ca, server), (other, newer) = made(), made()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, other.certificate, HOSTS[0], tmp_path)
    for one in (server, newer):
        shake(one, other.certificate + ca.certificate, HOSTS[0], tmp_path)


def test_the_coordinators_judge_takes_it(tmp_path: Path) -> None:
    ca, server = made()
    config = dataclasses.replace(
        TlsKeys().tls(""), keystore_chain=server.certificate, keystore_key=server.key,
        truststore_certificates=ca.certificate,
    )  # fmt: skip
    material = read_material(config)
    hosts = ["main-0.main-peers.shop.svc", "10.0.0.1"]
    for now_ms, problem in ((NOW_MS, False), (NOW_MS + 91 * 86_400_000, True)):
        said = problem_of(material.chain, material.key, hosts=hosts, now_s=now_ms // 1000, issuers=material.trusted)
        assert (said is not None) == problem, said


@pytest.mark.parametrize(
    "subject", ["CN=orders", "CN=orders,OU=Sales,O=Example", "CN=a\\,b", "CN=Grün", "CN=" + "n" * 64, "O=Example"]
)
def test_a_users_certificate_names_it_as_the_coordinators_read_it(subject: str) -> None:
    ca, _ = made()
    one = new_client_certificate(ca, subject, now_ms=NOW_MS, days=90)
    assert subject_of(ssl.PEM_cert_to_DER_cert(one.certificate)) == subject


@pytest.mark.parametrize("subject", ["orders", "", "CN=" + "n" * 65, "CN=a, O=b", "CN=", "CN=a,", "C=Germany", "XX=a"])
def test_what_names_nobody_is_refused_in_words(subject: str) -> None:
    ca, _ = made()
    with pytest.raises(Unreadable, match="is no subject of a certificate"):
        new_client_certificate(ca, subject, now_ms=NOW_MS, days=90)


def test_a_users_certificate_dials_and_does_not_serve(tmp_path: Path) -> None:
    """As OpenSSL judges it, by the purposes that it has."""
    ca, server = made()
    one = new_client_certificate(ca, "CN=orders", now_ms=NOW_MS, days=90)
    shake(server, ca.certificate, HOSTS[0], tmp_path, back=one)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(one, ca.certificate, HOSTS[0], tmp_path)
    other, _ = made()
    with pytest.raises(ssl.SSLError):
        shake(server, ca.certificate, HOSTS[0], tmp_path,
              back=new_client_certificate(other, "CN=orders", now_ms=NOW_MS, days=90))  # fmt: skip


def test_a_key_store_needs_both_parts() -> None:
    ca, _ = made()
    one = new_client_certificate(ca, "CN=orders", now_ms=NOW_MS, days=90)
    assert key_store(one, "changeit")
    for broken in (Issued("no certificate", one.key), Issued(one.certificate, "no key")):
        with pytest.raises(Unreadable):
            key_store(broken, "changeit")


def test_what_is_made_is_read_as_it_was_meant() -> None:
    ca, server = made(days=90)
    (authority,), (leaf,) = read_certificates(ca.certificate), read_certificates(server.certificate)
    assert leaf.issuer_key_id == authority.key_id == authority.issuer_key_id == key_id_of(ca.key)
    assert leaf.key_id == key_id_of(server.key) != authority.key_id
    assert leaf.names == {*HOSTS, "10.0.0.1", "fd00::1"}
    assert leaf.not_after_ms - leaf.not_before_ms == 90 * 86_400_000
    assert NOW_MS - 301_000 <= leaf.not_before_ms <= NOW_MS - 299_000
    assert [one.key_id for one in read_certificates(server.certificate + ca.certificate)] == [
        leaf.key_id,
        authority.key_id,
    ]


@pytest.mark.parametrize("cut", range(0, 700, 37))
def test_one_flipped_byte_is_a_reason_and_never_another_exception(cut: int) -> None:
    ca, server = made()
    for text, read in ((server.certificate, read_certificates), (server.key, key_id_of)):
        at = cut % len(text)
        damaged = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        try:
            read(damaged)
        except Unreadable as error:
            assert server.key not in str(error)
        try:
            new_certificate(Issued(ca.certificate, damaged), "x", hosts=(), addresses=(), now_ms=NOW_MS, days=1)
        except Unreadable:
            continue
        raise AssertionError("this key does not belong to that CA")


@pytest.mark.parametrize("text", ["", "no PEM", "-----BEGIN CERTIFICATE-----\n" * 101, "x" * 300_000])
def test_what_is_no_certificate_is_said_in_words(text: str) -> None:
    with pytest.raises(Unreadable):
        read_certificates(text)


def test_keys_as_people_have_them() -> None:
    for key in (rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()):
        assert len(key_id_of(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())) == 40
    locked = ed25519.Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
    )
    agrees = x25519.X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for bad in (locked, agrees):
        with pytest.raises(Unreadable):
            key_id_of(bad.decode())


def test_a_key_is_in_no_representation() -> None:
    ca, _ = made()
    assert ca.key not in repr(ca)
