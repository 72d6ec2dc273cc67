"""Every form in which people have keys is read; every set that would fail a client is refused, with its cure."""

import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, PrivateFormat, pkcs12
from muster_coordinator.events import TLS_LOADED, TLS_REFUSED, Event
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.tls_files import FILE_BYTES_MAX, read_material
from muster_coordinator.runtime.tls_material import TlsRefused
from muster_coordinator.runtime.tls_store import TlsStore, openssl_name
from muster_coordinator.security.tls_config import ClientAuth, StoreType, TlsConfig

from tests.certificates import DAY, Authority, Issued, tls_config
from tests.sim.loop import SimLoop, World

HOSTS = ("localhost",)


class FileLoop(SimLoop):
    """Virtual time that stands where the certificates' does; jobs run at once."""

    def wall_ms(self) -> int:
        from tests.certificates import now

        return int(now().timestamp() * 1_000) + self.monotonic_ms()

    def submit(self, queue, job, done):  # type: ignore[no-untyped-def,override]
        assert queue == limits.TLS_QUEUE
        try:
            found = job()
        except Exception as error:  # noqa: BLE001  # as the loop hands it on
            found = error
        done(found)


def store(
    config: TlsConfig, *, hosts: tuple[str, ...] = HOSTS, **more: object
) -> tuple[TlsStore, SimLoop, list[Event]]:
    events: list[Event] = []
    loop = FileLoop(World())
    made = TlsStore(loop, config, name="SSL", hosts=hosts, tell=events.append, **more)  # type: ignore[arg-type]
    return made, loop, events


def why_not(config: TlsConfig, **more: object) -> str:
    with pytest.raises(TlsRefused) as error:
        store(config, **more)[0].load()  # type: ignore[arg-type]
    return str(error.value)


def files(issued: Issued, folder: Path, **more: object) -> TlsConfig:
    crt, key = issued.write(folder)
    return tls_config(keystore_chain=str(crt), keystore_key=str(key), **more)


@pytest.mark.parametrize("bits", [0, 2_048])
def test_every_form_of_a_key_is_the_same_key(tmp_path: Path, bits: int) -> None:
    root = Authority()
    leaf = Authority("between", root, rsa_bits=bits).issue()
    one_file = tmp_path / "one.pem"
    one_file.write_text(leaf.pem + leaf.key_pem(password="secret"))
    p12 = tmp_path / "it.p12"
    p12.write_bytes(leaf.pkcs12("secret"))
    configs = [
        files(leaf, tmp_path),
        tls_config(keystore_chain=leaf.pem, keystore_key=leaf.key_pem(PrivateFormat.TraditionalOpenSSL)),
        tls_config(keystore_chain=leaf.pem, keystore_key=leaf.key_pem(password="secret"), key_password="secret"),
        tls_config(
            keystore_chain=leaf.pem,
            keystore_key=leaf.key_pem(PrivateFormat.TraditionalOpenSSL, "secret"),
            key_password="secret",
        ),
        tls_config(keystore_location=one_file, key_password="secret"),
        tls_config(keystore_location=p12, keystore_type=StoreType.PKCS12, keystore_password="secret"),
    ]
    read = [read_material(config) for config in configs]
    assert len({(found.chain, found.key, found.pem) for found in read}) == 1
    assert [one.shown for one in read[0].chain] == ["CN=server", "CN=between"]
    assert read[0].chain[0].hosts == ("localhost", "127.0.0.1")
    for config in configs:
        made, _, _ = store(config)
        made.load()
        assert isinstance(made.server, ssl.SSLContext)
        assert "secret" not in repr(config)
        assert "PRIVATE" not in repr(config)


def test_trust_as_pem_and_as_pkcs12(tmp_path: Path) -> None:
    root = Authority()
    p12 = tmp_path / "trust.p12"
    entry = pkcs12.PKCS12Certificate(root.certificate, b"ca")
    p12.write_bytes(pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(b"changeit")))
    pem = tmp_path / "ca.crt"
    pem.write_text(root.pem)
    found = [
        read_material(tls_config(truststore_location=pem)),
        read_material(tls_config(truststore_certificates=root.pem)),
        read_material(
            tls_config(truststore_location=p12, truststore_type=StoreType.PKCS12, truststore_password="changeit")
        ),
    ]
    assert len({one.trusted for one in found}) == 1
    assert read_material(tls_config()).trusted == ()


def test_what_a_file_lacks_is_said_with_its_cure(tmp_path: Path) -> None:
    root = Authority()
    leaf = root.issue()
    crt, key = leaf.write(tmp_path)
    jks, empty, large = tmp_path / "store.jks", tmp_path / "empty.pem", tmp_path / "large"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2" + bytes(20))
    empty.write_text("")
    large.write_bytes(bytes(FILE_BYTES_MAX + 1))
    pair = {"keystore_chain": str(crt), "keystore_key": str(key)}
    said = {
        "keytool -importkeystore -srckeystore": tls_config(keystore_location=jks),
        "no certificate in it": tls_config(**pair | {"keystore_chain": str(empty)}),
        "no private key in it": tls_config(**pair | {"keystore_key": str(crt)}),
        "cannot be read: No such file": tls_config(**pair | {"keystore_key": str(tmp_path / "none")}),
        "larger than": tls_config(**pair | {"keystore_key": str(large)}),
        "set ssl.key.password": tls_config(keystore_chain=leaf.pem, keystore_key=leaf.key_pem(password="x" * 8)),
        "ssl.key.password is wrong": tls_config(
            keystore_chain=leaf.pem, keystore_key=leaf.key_pem(password="x" * 8), key_password="wrong"
        ),
        "this is PEM: set ssl.keystore.type=PEM": tls_config(keystore_location=crt, keystore_type=StoreType.PKCS12),
        "look at ssl.truststore.password": tls_config(
            **pair, truststore_location=large.with_name("t"), truststore_type=StoreType.PKCS12
        ),
        "set ssl.truststore.location": tls_config(**pair, client_auth=ClientAuth.REQUIRED),
        "set ssl.keystore.location": tls_config(),
    }
    large.with_name("t").write_bytes(leaf.pkcs12("secret"))
    for text, config in said.items():
        assert text in why_not(config), text
    assert str(jks) in why_not(tls_config(keystore_location=jks))


def test_one_flipped_bit_of_a_file_is_refused_or_harmless(tmp_path: Path) -> None:
    """Never another error, and never another key."""
    leaf = Authority().issue()
    crt, key = leaf.write(tmp_path)
    good = read_material(tls_config(keystore_chain=str(crt), keystore_key=str(key)))
    for path in (crt, key):
        text = path.read_bytes()
        for place in range(0, len(text), 11):
            path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])
            made, _, _ = store(tls_config(keystore_chain=str(crt), keystore_key=str(key)))
            try:
                made.load()
            except TlsRefused:
                continue
            assert made.status().subject
        path.write_bytes(text)
    assert read_material(tls_config(keystore_chain=str(crt), keystore_key=str(key))) == good


def test_a_set_that_clients_would_refuse_is_refused_before(tmp_path: Path) -> None:
    root = Authority()
    middle = Authority("between", root)
    leaf, other = middle.issue(), root.issue("other")
    late, early = root.issue(begins=-3 * DAY, ends=-2 * DAY), root.issue(begins=DAY)
    chain = leaf.pem.split("-----END CERTIFICATE-----\n")[:2]
    backwards = "".join(part + "-----END CERTIFICATE-----\n" for part in reversed(chain))
    key = leaf.key_pem()
    said = {
        "the private key does not fit the certificate of CN=server": tls_config(
            keystore_chain=leaf.pem, keystore_key=other.key_pem()
        ),
        "the chain is in the wrong order: put the certificate of CN=server first": tls_config(
            keystore_chain=backwards, keystore_key=key
        ),
        "an intermediate is missing: CN=server was not issued by CN=Test CA": tls_config(
            keystore_chain=Issued(leaf.certificate, leaf.key).pem + root.pem, keystore_key=key
        ),
        "an intermediate is missing: none of the trusted certificates has issued CN=server": tls_config(
            keystore_chain=Issued(leaf.certificate, leaf.key).pem, keystore_key=key, truststore_certificates=root.pem
        ),
        "the certificate of CN=server expired 2 days ago: renew it": tls_config(
            keystore_chain=late.pem, keystore_key=late.key_pem()
        ),
        "the certificate of CN=server is not valid for another 8": tls_config(
            keystore_chain=early.pem, keystore_key=early.key_pem()
        ),
    }
    for text, config in said.items():
        assert text in why_not(config), text
    why = why_not(files(leaf, tmp_path), hosts=("localhost", "broker-1.example"))
    assert "is for localhost, 127.0.0.1, not for broker-1.example" in why
    assert str(tmp_path / "tls.crt") in why
    wrong_order = Issued(leaf.certificate, leaf.key, (root.certificate, middle.certificate)).pem
    assert "behind CN=server must come" in why_not(tls_config(keystore_chain=wrong_order, keystore_key=key))


def test_files_that_change_are_used_when_they_are_whole(tmp_path: Path) -> None:
    root = Authority()
    first, second = root.issue("first"), root.issue("second")
    made, loop, events = store(files(first, tmp_path))
    made.load()
    made.start()
    before = made.server

    def look() -> None:
        loop.world.run_for(limits.TLS_LOOK_MS + 1)

    look()
    assert events == []
    assert made.server is before
    # Half of a swap: certificate and key are two files, and whoever copies them writes one after the other.
    (tmp_path / "tls.crt").write_text(second.pem)
    look()
    look()
    assert [event.kind for event in events] == [TLS_REFUSED], "once, however often it looks"
    assert "the private key does not fit" in str(made.status().problem)
    assert made.server is before
    stat = os.stat(tmp_path / "tls.key")
    (tmp_path / "tls.key").write_text(second.key_pem())
    os.utime(tmp_path / "tls.key", ns=(stat.st_atime_ns, stat.st_mtime_ns))  # found by content, not by time
    look()
    assert events[-1].kind is TLS_LOADED
    assert events[-1].fields["subject"] == "CN=second"
    assert made.server is not before
    status = made.status()
    assert (status.problem, status.loaded, status.refused) == (None, 2, 1)
    (tmp_path / "tls.key").unlink()
    look()
    assert made.status().subject == "CN=second"
    assert "No such file" in str(made.status().problem)
    second.write(tmp_path)
    look()
    assert made.status().problem is None
    made.stop()
    first.write(tmp_path)
    loop.world.run_for(10 * limits.TLS_LOOK_MS)
    assert made.status().subject == "CN=second", "nothing is looked at after the end"


def test_versions_and_cipher_suites_are_those_of_the_settings() -> None:
    leaf = Authority().issue()
    pair = {"keystore_chain": leaf.pem, "keystore_key": leaf.key_pem()}
    made, _, _ = store(tls_config(**pair))
    made.load()
    assert made.server.minimum_version is ssl.TLSVersion.TLSv1_2
    never = ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    assert made.server.options & never == never
    made, _, _ = store(
        tls_config(**pair, protocols=("TLSv1.2",), cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",))
    )
    made.load()
    assert made.server.maximum_version is ssl.TLSVersion.TLSv1_2
    names = [one["name"] for one in made.server.get_ciphers() if one["protocol"] == "TLSv1.2"]
    assert names == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    assert openssl_name("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == "ECDHE-RSA-CHACHA20-POLY1305"
    assert openssl_name("TLS_RSA_WITH_AES_128_GCM_SHA256") == "AES128-GCM-SHA256"
    made, _, _ = store(tls_config(**pair, cipher_suites=("TLS_AES_128_GCM_SHA256",)))
    made.load()
    assert made.server.minimum_version is ssl.TLSVersion.TLSv1_3
    assert "OpenSSL does not take it" in why_not(tls_config(**pair, cipher_suites=("TLS_NONSENSE",)))
