"""A real S3 API for tests: versitygw, a program of its own with its objects in a folder, and a way to it that can fail.

`Server` can be killed and started again, and has all that it had. `fronted` is a server behind a front that passes
requests on as they are (signatures stay good), until it kills the server on one side of a request and starts it again,
or leaves a header out. It is a process of its own, because delta-rs asks for files while it holds Python's lock.
"""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from typing_extensions import override

from tests import go_tools, orphans
from tests.cluster import port_block, wait_until

MODULE = Path(__file__).parent / "versitygw"
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "muster-tests", "never-in-a-log-5f1c"
START_S_MAX = 60
ANYBODY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": [f"arn:aws:s3:::{BUCKET}{end}"]}
        for end in ("", "/*")
    ],
}


BACK_AFTER_S = 0.5


class Server:
    """versitygw on loopback, on a port that the kernel gives to nobody who connects while it is away."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "objects"
        (self.root / BUCKET).mkdir(parents=True, exist_ok=True)
        self.told = folder / "versitygw.log"
        self._program = go_tools.built(MODULE, PACKAGE)
        self._ports = port_block(1)
        self.port = self._ports.base
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        command = [str(self._program), "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", str(self.root)]
        with self.told.open("ab") as log:
            self._process = subprocess.Popen(command, env={**os.environ, **keys}, stdout=log, stderr=log)
        orphans.watch(self._process.pid)
        wait_until("the S3 server answers", self._answers, START_S_MAX)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.told.read_text()[-2000:]
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL; its folder stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()
        self._ports.close()

    def open_to_anybody(self) -> None:
        """A policy of the bucket, so that requests need no signature."""
        os.setxattr(self.root / BUCKET, "user.policy", json.dumps(ANYBODY).encode())


def environment(port: int, **changed: str) -> dict[str, str]:
    """What a program needs to use the store."""
    told = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }  # fmt: skip
    return {**told, **changed}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is done to the server, or to requests to it."""

    killed_at: str = ""
    """The first PUT whose path contains this ends the server, for BACK_AFTER_S."""
    is_after: bool = False
    """The server has answered then, and the client does not hear of it."""
    left_out: str = ""
    """A header that the server does not get; its bucket is open to anybody then, as signatures hold headers too."""


@contextmanager
def fronted(folder: Path, fault: Fault) -> Iterator[int]:
    """A server of its own with that fault; the port of its front."""
    command = [sys.executable, "-m", "tests.pipeline.store.s3", str(folder), json.dumps(asdict(fault))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    orphans.watch(process.pid)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.communicate()


def puts(folder: Path) -> list[str]:
    """Paths of the PUT requests that a front of this folder has got, in order."""
    return (folder / "puts").read_text().splitlines()


class _Front:
    def __init__(self, folder: Path, fault: Fault) -> None:
        self.server = Server(folder)
        self._puts = folder / "puts"
        self._fault = fault
        self._due = bool(fault.killed_at)

    def passed(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> "_Answer":
        """Raises OSError, HTTPException when there is no answer."""
        if method == "PUT":
            with self._puts.open("a") as file:
                file.write(f"{path}\n")
        is_due = self._due and method == "PUT" and self._fault.killed_at in path
        self._due = self._due and not is_due
        if is_due and not self._fault.is_after:
            raise self._cut()
        answer = self._asked(method, path, headers, body)
        if is_due:
            raise self._cut()
        return answer

    def _cut(self) -> OSError:
        self.server.kill()
        threading.Timer(BACK_AFTER_S, self.server.start).start()
        return ConnectionResetError("the server was killed")

    def _asked(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> "_Answer":
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() != self._fault.left_out:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


_Answer = tuple[int, list[tuple[str, str]], bytes]


def _handler(front: _Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @override
        def log_message(self, format: str, *args: object) -> None:
            del format, args

        def passed_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                status, headers, data = front.passed(self.command, self.path, self.headers, body)
            except (OSError, http.client.HTTPException):
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            lengths = [value for name, value in headers if name.lower() == "content-length"]
            self.send_header("content-length", lengths[0] if self.command == "HEAD" and lengths else str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = passed_on  # noqa: N815

    return Handler


def _main() -> None:
    folder, fault = Path(sys.argv[1]), Fault(**json.loads(sys.argv[2]))
    front = _Front(folder, fault)
    front.server.start()
    if fault.left_out:
        front.server.open_to_anybody()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _handler(front))
    listening.daemon_threads = True
    threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
    sys.stdout.write(f"{listening.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    front.server.close()


if __name__ == "__main__":
    _main()
