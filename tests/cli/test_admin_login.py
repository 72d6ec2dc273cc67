"""`muster cluster …` over TLS: what `--config` says, and a sentence for each way in which both sides do not fit."""

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.cli.admin_client import ask_admin
from muster_coordinator.cli.admin_login import AdminLogin, dev_access, login_of
from muster_coordinator.cli.client_properties import of_connection, read_client_properties
from muster_coordinator.cli.cluster import access
from muster_coordinator.cli.exits import CliError, Exit
from typing_extensions import override

from tests.certificates import Authority

ROOT = Authority()
SERVER = ROOT.issue("server", ("127.0.0.1",))
TOKEN = "canary-token"
TIMEOUT_S = 20.0


class Answers(http.server.BaseHTTPRequestHandler):
    """Says who asked, as an admin API would know it."""

    def do_GET(self) -> None:
        shown = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        who = {"token": self.headers.get("Authorization"), "certificate": bool(shown)}
        known = who["token"] == f"Bearer {TOKEN}" or shown
        body = json.dumps(who if known else {"error": "unauthorized", "message": "no"}).encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(http.server.HTTPServer):
    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what some tests are about."""


@contextmanager
def serving(context: ssl.SSLContext | None) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Answers)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def encrypted(folder: Path, *, asks: bool = False, issued: Any = SERVER) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issued.write(folder / "server"))
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=ROOT.pem)
    return context


def config(folder: Path, *lines: str) -> Path:
    (folder / "ca.crt").write_text(ROOT.pem)
    (folder / "token").write_text(TOKEN + "\n")
    path = folder / "client.properties"
    trusts = ["ssl.truststore.type=PEM", f"ssl.truststore.location={folder / 'ca.crt'}"]
    named = {line.partition("=")[0] for line in lines}
    path.write_text("\n".join([*(line for line in trusts if line.partition("=")[0] not in named), *lines]))
    return path


def with_token(folder: Path) -> str:
    return f"muster.admin.token.file={folder / 'token'}"


def shown(folder: Path, password: str = "") -> list[str]:
    issued = ROOT.issue("me", ())
    (folder / "me.pem").write_text(issued.pem + issued.key_pem(password=password))
    return ["ssl.keystore.type=PEM", f"ssl.keystore.location={folder / 'me.pem'}"]


def sentence(address: str, login: AdminLogin) -> str:
    with pytest.raises(CliError) as error:
        ask_admin(address, "/v1/status", login, TIMEOUT_S)
    assert "canary" not in str(error.value)
    return str(error.value)


def test_a_token_goes_over_tls_to_who_is_verified(tmp_path: Path) -> None:
    login = login_of(config(tmp_path, "security.protocol=SASL_SSL", with_token(tmp_path)), AdminLogin())
    with serving(encrypted(tmp_path)) as address:
        assert ask_admin(address, "/v1/status", login, TIMEOUT_S) == {"token": f"Bearer {TOKEN}", "certificate": False}
    with serving(encrypted(tmp_path, issued=Authority("Another").issue("x", ("127.0.0.1",)))) as address:
        assert "has a certificate that is not trusted" in sentence(address, login)
    with serving(encrypted(tmp_path, issued=ROOT.issue("x", ("elsewhere",)))) as address:
        assert "has a certificate that is not trusted" in sentence(address, login), "the name is verified as well"


def test_a_certificate_is_shown_and_its_absence_is_said(tmp_path: Path) -> None:
    login = login_of(config(tmp_path, "security.protocol=SSL", *shown(tmp_path)), AdminLogin())
    assert login.complete
    without = login_of(config(tmp_path, "security.protocol=SSL", with_token(tmp_path)), AdminLogin())
    with serving(encrypted(tmp_path, asks=True)) as address:
        assert ask_admin(address, "/v1/status", login, TIMEOUT_S) == {"token": None, "certificate": True}
        assert "asks for a client certificate" in sentence(address, without)
    locked = config(tmp_path, "security.protocol=SSL", *shown(tmp_path, "canary-password"))
    with pytest.raises(CliError, match="no certificate with its key"):
        login_of(locked, AdminLogin())
    locked.write_text(locked.read_text() + "\nssl.key.password=canary-password")
    assert login_of(locked, AdminLogin()).shows_certificate


def test_https_and_http_that_meet_are_told_apart(tmp_path: Path) -> None:
    over_tls = login_of(config(tmp_path, "security.protocol=SSL", with_token(tmp_path)), AdminLogin())
    with serving(None) as address:
        assert "does not speak TLS: write muster.admin.tls=false" in sentence(address, over_tls)
        plain = login_of(
            config(tmp_path, "security.protocol=SSL", "muster.admin.tls=false", with_token(tmp_path)), over_tls
        )
        assert ask_admin(address, "/v1/status", plain, TIMEOUT_S)["token"] == f"Bearer {TOKEN}"
        assert "rejects the token" in sentence(address, AdminLogin("wrong"))
    with serving(encrypted(tmp_path)) as address:
        assert "if its admin API is https, give --config" in sentence(address, AdminLogin(TOKEN))


def test_a_folder_of_dev_says_it_all(tmp_path: Path) -> None:
    replica = tmp_path / "replica-0"
    replica.mkdir()
    config(tmp_path)
    (tmp_path / "admin-token").write_text(TOKEN)
    text = "muster.admin.listener=127.0.0.1:1\n"
    (replica / "server.properties").write_text(text)
    assert dev_access(tmp_path) == (["127.0.0.1:1"], AdminLogin(TOKEN))
    more = f"muster.admin.tls=true\nssl.truststore.location={tmp_path / 'ca.crt'}\n"
    (replica / "server.properties").write_text(text + more)
    _, login = dev_access(tmp_path)
    with serving(encrypted(tmp_path)) as address:
        assert ask_admin(address, "/v1/status", login, TIMEOUT_S)["token"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["muster.admin.tls=canary"], "muster.admin.tls must be true or false"),
        (["muster.admin.token=canary"], "unknown key muster.admin.token;"),
        (["security.protocol=SSL", "ssl.keystore.location=/x", "ssl.keystore.type=JKS"], "these commands read PEM"),
        (["security.protocol=SSL", "ssl.truststore.location=/nowhere"], "/nowhere: no certificates to trust"),
        (["muster.admin.token.file=/nowhere"], "cannot read the token file /nowhere"),
        (["x=${env:MUSTER_NOT_SET_ANYWHERE}"], "is not set"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(CliError) as error:
        login_of(config(tmp_path, *lines), AdminLogin())
    assert error.value.code is Exit.USAGE
    assert said in str(error.value)
    assert "canary" not in str(error.value)


def test_who_shows_nothing_is_told_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"--token-file .* or a --config with") as error:
        access("127.0.0.1:1", None, None, config(tmp_path))
    assert error.value.code is Exit.USAGE
    (tmp_path / "other").write_text("other")
    _, login = access("127.0.0.1:1", tmp_path / "other", None, config(tmp_path, with_token(tmp_path)))
    assert login.token == "other", "the option goes before the file"


def test_one_file_serves_the_commands_of_both_ports(tmp_path: Path) -> None:
    """A command of Kafka's protocol passes over what is the admin API's; how to connect is for every kind of client."""
    found = read_client_properties(config(tmp_path, with_token(tmp_path), "muster.admin.tls=true", "client.id=x"))
    assert found == {"ssl.cafile": str(tmp_path / "ca.crt"), "client.id": "x"}
    assert of_connection(found) == {"ssl.cafile": str(tmp_path / "ca.crt")}
