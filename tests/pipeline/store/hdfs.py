"""A real HDFS for tests: a name node and a data node of Hadoop's own, from Maven Central, with their files on disk.

`Server` can be killed and started again, and has all that it had. `fronted` stands before its name node and passes
bytes on as they are, until it kills the server on one side of a renaming: delta-rs makes a version of a table by
writing a file and renaming it, which only one of two can. Blocks go to the data node past it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import java_tools, orphans
from tests.cluster import port_block, wait_until

COORDINATES = ("org.apache.hadoop:hadoop-client-minicluster:3.5.0", java_tools.SLF4J_SILENT)
SOURCE = Path(__file__).parent / "java" / "HdfsServer.java"
USER = "muster-tests"
HEAP_MIB = 512
START_S_MAX = 120
READ_BYTES_MAX = 65_536


class Server:
    """HDFS on loopback, on a port that the kernel gives to nobody who connects while it is away."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "hdfs"
        self.told = folder / "hdfs.log"
        self._class_path = java_tools.compile_java([SOURCE], java_tools.classpath(*COORDINATES))
        self._ports = port_block(1)
        self.port = self._ports.base
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it takes writes. One that ran before has ended, or does now."""
        self.kill()
        is_new = not self.root.exists()
        command = [
            *java_tools.jvm(self._class_path, HEAP_MIB),
            "HdfsServer",
            str(self.root),
            str(self.port),
            str(is_new),
        ]
        with self.told.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.told.parent,
                env={**os.environ, "HADOOP_USER_NAME": USER},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        orphans.watch(self._process.pid)
        wait_until("HDFS takes writes", self._is_ready, START_S_MAX)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.told.read_text()[-2000:]
        return "ready\n" in self.told.read_text()

    def kill(self) -> None:
        """SIGKILL; its folder stays."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def close(self) -> None:
        self.kill()
        self._ports.close()


@contextmanager
def fronted(server: Server, killed_at: str, *, is_after: bool) -> Iterator["Front"]:
    """A port that leads to the name node, until a version of a table is made: `killed_at` is the end of the path of its
    log entry. It ends the server before the name node hears of it, or, `is_after`, when it has answered and before the
    client hears. A process of its own, because delta-rs asks for files while it holds Python's lock."""
    words = [str(server.port), str(server.pid), killed_at, str(int(is_after))]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.store.hdfs", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    orphans.watch(process.pid)
    try:
        assert process.stdout is not None
        yield Front(int(process.stdout.readline()), process)
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True, slots=True)
class Front:
    port: int
    process: subprocess.Popen[str]

    def has_killed(self) -> bool:
        """It ends when it has."""
        return self.process.wait(10) == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """What the process does that stands in front. Each connection has two threads."""

    port: int
    pid: int
    wanted: bytes
    is_after: bool

    def serve(self, listening: socket.socket) -> None:
        while True:
            client, _ = listening.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            is_due = threading.Event()
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(*ends, is_due, ends[0] is client), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_due: threading.Event, is_asking: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(READ_BYTES_MAX):
                if is_asking and b"rename" in data and self.wanted in data:
                    if not self.is_after:
                        self._kill()
                    is_due.set()
                if not is_asking and is_due.is_set():
                    self._kill()
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _kill(self) -> None:
        """The server, and every connection."""
        os.kill(self.pid, signal.SIGKILL)
        os._exit(0)


def _main() -> None:
    port, pid, wanted, is_after = sys.argv[1:]
    way = _Way(port=int(port), pid=int(pid), wanted=wanted.encode(), is_after=is_after == "1")
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    way.serve(listening)


if __name__ == "__main__":
    _main()
