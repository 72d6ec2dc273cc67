"""A real Redis for tests: Debian's `redis-server`, on a port of its own on loopback, and connections that speak RESP2.

They are the tests' own, because these cut them in the middle of an answer, which a client library would mend.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster import port_block, wait_until
from tests.machine_parts import debian_packages, give_up

START_S_MAX = 30.0
ANSWER_S_MAX = 30.0


NOT_ALLOWED = re.compile(r"NOPERM|can't run this command|has no permissions")
"""What servers of different releases say of a right that is missing."""


class RedisError(Exception):
    """An error that Redis answered."""


class Connection:
    """One connection; `ask` sends a command and reads its answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)
        self._in = self.socket.makefile("rb")

    def ask(self, *arguments: bytes | str | int) -> Any:
        self.send(*arguments)
        return self.read()

    def send(self, *arguments: bytes | str | int) -> None:
        encoded = [one if isinstance(one, bytes) else str(one).encode() for one in arguments]
        pieces = [b"*%d\r\n" % len(encoded)]
        for one in encoded:
            pieces += (b"$%d\r\n" % len(one), one, b"\r\n")
        self.socket.sendall(b"".join(pieces))

    def read(self) -> Any:
        line = self._in.readline()
        if not line:
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        assert kind == b"$", line
        if rest == b"-1":
            return None
        data = self._in.read(int(rest) + 2)
        return data[:-2]

    def close(self) -> None:
        self._in.close()
        self.socket.close()


class RedisServer:
    """A server with an append-only file that is synced at each write, so that what it answered survives SIGKILL; or
    one that keeps nothing.

    It is started again on its port, so this is none of those that the kernel gives to whoever connects meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        tls: tuple[Path, Path, Path] | None = None,
        *,
        keeps: bool = True,
        more: tuple[str, ...] = (),
    ) -> None:
        """`tls`: its certificate, its key, and the CA of clients, who then need a certificate at `tls_port`. `more`:
        further arguments of the program."""
        self.folder = folder
        self.more = more
        self._keeps = keeps
        self._program = program()
        self._ports = port_block(2)
        self.port, self.tls_port = self._ports.base, self._ports.base + 1
        self._tls: list[str] = []
        if tls is not None:
            files = dict(zip(("cert", "key", "ca-cert"), map(str, tls), strict=True))
            self._tls = [word for name, path in files.items() for word in (f"--tls-{name}-file", path)]
            self._tls += ["--tls-port", str(self.tls_port)]
        self._process: subprocess.Popen[bytes] | None = None
        self._connections: list[Connection] = []

    def __enter__(self) -> "RedisServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Killed for good: its ports may be taken by others."""
        self.kill()
        self._ports.close()

    def start(self) -> None:
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder),
                    "--appendonly", "yes" if self._keeps else "no", "--appendfsync", "always", "--save", "", *self._tls,
                    *self.more,
                ],
                stdout=log,
                stderr=log,
            )  # fmt: skip
        wait_until("Redis answers", self._answers, START_S_MAX)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "redis.log").read_text()
        try:
            return bool(self.connect().ask("PING") == b"PONG")
        except (OSError, RedisError):  # it does not listen yet, or is LOADING
            return False

    def kill(self) -> None:
        """SIGKILL; its connections are gone, too."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def version(self) -> tuple[int, ...]:
        """Of Redis; a Valkey says of which Redis it came."""
        info = self.connect().ask("INFO", "server").decode()
        said = next(line for line in info.splitlines() if line.startswith("redis_version:"))
        return tuple(map(int, said.removeprefix("redis_version:").split(".")))

    def connect(self) -> Connection:
        made = Connection(self.port)
        self._connections.append(made)
        return made


OTHER = "MUSTER_REDIS_SERVER"
"""Variable: the program of another server that speaks as Redis does (`make valkey`)."""


def program() -> str:
    """The server's program; the test is skipped, or fails where parts are required, if it is missing."""
    if other := os.environ.get(OTHER):
        return other
    if shutil.which("redis-server") is None:
        debian_packages("redis", "redis-server")
    found = shutil.which("redis-server")
    if found is None:
        give_up("redis", "no redis-server on this machine (Debian: apt install redis-server)")
    assert found is not None
    return found
