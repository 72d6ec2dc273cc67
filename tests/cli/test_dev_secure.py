"""What `muster dev --secure` writes: settings that a replica accepts, secrets that only their owner reads and that are
in no other file, a CA that stays."""

import datetime as dt
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12
from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.dev import _close
from muster_coordinator.cli.dev_clients import PASSWORD_OF_TRUSTSTORE
from muster_coordinator.cli.dev_layout import DevLayout
from muster_coordinator.links.peer_auth import Method
from muster_coordinator.runtime.tls_authority import RENEWED_BEFORE_DAYS, SERVER_DAYS, lasts
from muster_coordinator.runtime.tls_files import read_material
from muster_coordinator.security.certificates import problem_of
from muster_coordinator.security.protocol import SecurityProtocol
from muster_coordinator.settings import ConfigError, load_settings

from tests.certificates import now

OPEN = {"ca.crt", "server.crt", "truststore.p12", "clients.txt"}


def closed(folder: Path, replicas: int = 3, at: dt.datetime | None = None) -> DevLayout:
    layout = DevLayout(folder, replicas, 10_000)
    layout.secure.make(at or now())
    layout.write(7, {})
    layout.secure.write_clients(layout.bootstrap, layout.token_file)
    return layout


def test_every_replica_is_closed_and_one_that_joins_too(tmp_path: Path) -> None:
    layout = closed(tmp_path)
    layout.add(3, "c" * 22)
    for replica in range(4):
        settings = load_settings(layout.config_file(replica))
        (listener,) = settings.listeners
        assert settings.security_protocol(listener.name) is SecurityProtocol.SASL_SSL
        assert settings.peer_methods == {Method.TLS}
        assert settings.admin_tls
        assert settings.authorizer
        assert settings.super_users == {"User:admin"}
        assert not settings.allow_if_no_acl
        found = read_material(settings.tls(listener.name))
        for host in ("127.0.0.1", "localhost"):
            seconds = int(now().timestamp())
            assert problem_of(found.chain, found.key, hosts=[host], now_s=seconds, issuers=found.trusted) is None
    assert DevLayout.of_folder(tmp_path) == layout


def test_secrets_are_their_owners_and_in_no_file_that_others_read(tmp_path: Path) -> None:
    layout = closed(tmp_path)
    passwords = [layout.secure.password(user) for user in ("admin", "app")]
    assert len({*passwords}) == 2
    assert min(map(len, passwords)) >= 32
    holders = set()
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        mode, data = stat.S_IMODE(path.stat().st_mode), path.read_bytes()
        if any(password.encode() in data for password in passwords) or b"PRIVATE KEY" in data:
            assert mode == 0o600, path
            holders.add(path.name)
        if path.parent == layout.secure.folder:
            assert (mode == 0o644) == (path.name in OPEN), path
    assert holders == {
        "ca.key", "server.key", "admin.password", "app.password", "admin.properties", "app.properties",
        "app-java.properties", "app-librdkafka.properties",
    }  # fmt: skip
    assert stat.S_IMODE(layout.secure.folder.stat().st_mode) == 0o700


def test_the_next_start_keeps_all_but_a_certificate_that_does_not_last(tmp_path: Path) -> None:
    layout = closed(tmp_path)
    kept = ["ca.crt", "ca.key", "admin.password", "app.password", "truststore.p12"]

    def content(names: list[str]) -> list[bytes]:
        return [layout.secure.file(name).read_bytes() for name in names]

    before, server = content(kept), content(["server.crt", "server.key"])
    closed(tmp_path, at=now() + dt.timedelta(days=SERVER_DAYS - RENEWED_BEFORE_DAYS - 1))
    assert (content(kept), content(["server.crt", "server.key"])) == (before, server)
    late = now() + dt.timedelta(days=SERVER_DAYS - RENEWED_BEFORE_DAYS + 1)
    closed(tmp_path, at=late)
    assert content(kept) == before
    after = content(["server.crt", "server.key"])
    assert (after[0] == server[0], after[1] == server[1]) == (False, False)
    assert lasts(after[0], late)
    authority = x509.load_pem_x509_certificate(before[0])
    x509.load_pem_x509_certificate(after[0]).verify_directly_issued_by(authority)


def test_a_folder_that_was_left_half_made_is_made_whole(tmp_path: Path) -> None:
    """The process ended before the CA's certificate, which comes last, was there."""
    layout = closed(tmp_path)
    layout.secure.file("ca.crt").unlink()
    (layout.secure.folder / ".ca.crt.new").write_text("half")
    password = layout.secure.password("app")
    layout = closed(tmp_path)
    assert layout.secure.password("app") == password
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(layout.secure.file("server.crt"), layout.secure.file("server.key"))
    server = x509.load_pem_x509_certificate(layout.secure.file("server.crt").read_bytes())
    server.verify_directly_issued_by(x509.load_pem_x509_certificate(layout.secure.file("ca.crt").read_bytes()))


def test_the_truststore_has_the_authority_and_no_key(tmp_path: Path) -> None:
    layout = closed(tmp_path)
    store = pkcs12.load_pkcs12(layout.secure.file("truststore.p12").read_bytes(), PASSWORD_OF_TRUSTSTORE.encode())
    assert store.key is None
    authority = x509.load_pem_x509_certificate(layout.secure.file("ca.crt").read_bytes())
    assert [one.certificate for one in store.additional_certs] == [authority]


def test_the_commands_take_the_files_that_are_made_for_them(tmp_path: Path) -> None:
    layout = closed(tmp_path)
    for user in ("admin", "app"):
        found = read_client_properties(layout.secure.file(f"{user}.properties"))
        assert found == {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.plain.username": user,
            "sasl.plain.password": layout.secure.password(user), "ssl.cafile": str(layout.secure.file("ca.crt")),
        }  # fmt: skip


def test_a_cluster_that_was_begun_open_is_not_closed_and_fresh_takes_what_was_made(tmp_path: Path) -> None:
    layout = DevLayout(tmp_path, 1, 10_000)
    layout.write(7, {})
    with pytest.raises(ConfigError, match="begun without --secure"):
        _close(layout)
    assert not layout.secure.folder.exists()
    layout.remove()
    _close(layout)
    layout = closed(tmp_path, replicas=1)
    _close(layout)
    (tmp_path / "secure" / "notes").write_text("mine")
    layout.remove()
    assert [path.name for path in (tmp_path / "secure").iterdir()] == ["notes"]
    layout.write(7, {})
    assert load_settings(layout.config_file(0)).authorizer == ""


def test_a_damaged_authority_is_said(tmp_path: Path) -> None:
    layout = closed(tmp_path)
    layout.secure.file("ca.key").write_text("canary")
    with pytest.raises(ConfigError, match=r"secure: .*--fresh makes everything anew") as error:
        _close(layout)
    assert "canary" not in str(error.value)
