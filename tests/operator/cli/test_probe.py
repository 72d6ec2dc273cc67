"""`muster probe`: 0 for 2xx, 1 for everything else that an endpoint can do, 2 for no address."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from muster_operator.cli import register
from typer import Typer
from typer.testing import CliRunner


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = int(self.path.strip("/"))
        body = b"not ready: no peers\n" if status >= 400 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        return None


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(url: str) -> tuple[int, str]:
    app = Typer()
    register(app)
    done = CliRunner().invoke(app, ["probe", url, "--timeout-seconds", "2"])
    return done.exit_code, done.output


def test_well(address: str) -> None:
    assert run(f"{address}/200") == (0, "ok\n")


def test_not_well_says_what_it_said(address: str) -> None:
    code, output = run(f"{address}/503")
    assert code == 1
    assert "503 not ready: no peers" in output


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        code, output = run(f"http://127.0.0.1:{taken.getsockname()[1]}/readyz")
    assert code == 1
    assert "refused" in output.lower()


def test_no_address() -> None:
    assert run("file:///etc/hostname")[0] == 2
