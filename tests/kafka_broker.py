"""One real Apache Kafka broker (KRaft, combined roles) on loopback, for tests that need the original.

    with KafkaBroker(tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        broker.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--list")

`start` formats the storage, starts the JVM and returns once the broker answers ApiVersions; a broker that dies or does
not answer in time fails the test with the end of its log. `properties` override the defaults, which make a single node
usable and fast to start: five offsets partitions, no initial rebalance delay. Data lie under `folder/data`, the log of
the JVM in `folder/broker.log`. The jars come from `tests.java_tools` (skip or fail without Java as told there).
"""

import base64
import contextlib
import signal
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import java_tools, orphans

START_TIMEOUT_S = 150.0
STOP_TIMEOUT_S = 30.0
TOOL_TIMEOUT_S = 60.0
HEAP_MIB = 256
_POLL_S = 0.05

_LOG4J = """
Configuration:
  status: error
  Appenders:
    File: {{ name: F, fileName: "{log}", PatternLayout: {{ pattern: "[%d] %p %m (%c)%n" }} }}
  Loggers:
    Root: {{ level: WARN, AppenderRef: {{ ref: F }} }}
    Logger:
      - {{ name: kafka, level: INFO }}
      - {{ name: org.apache.kafka, level: WARN }}
"""


class KafkaBroker:
    """A broker process; start and stop it any number of times, its data stay."""

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
        host: str = "localhost",
    ) -> None:
        """`listeners`: further ones at `host`, name -> security protocol; their ports are in `ports`. `jvm`: options of
        the broker's own."""
        listeners = listeners or {}
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.port, self.controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.cluster_id = _cluster_id()
        self._config = folder / "server.properties"
        self.ports = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        defaults = self._defaults(self.controller_port)
        for key in ("listeners", "advertised.listeners"):
            defaults[key] += "".join(f",{name}://{host}:{port}" for name, port in self.ports.items())
        protocols = "".join(f",{name}:{protocol}" for name, protocol in listeners.items())
        defaults["listener.security.protocol.map"] += protocols
        self._properties = {**defaults, **(properties or {})}
        self._jvm = tuple(jvm)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> Self:
        """Format the storage on the first call, start the JVM, wait until it answers."""
        assert self._process is None, "already running"
        self._class_path = java_tools.classpath(*java_tools.KAFKA_ALL)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log4j = self.folder / "log4j2.yaml"
        self._log4j.write_text(_LOG4J.format(log=self.log))
        self._config.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        if not (self.data / "meta.properties").exists():
            self._run("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(self._config))
        with (self.folder / "broker.out").open("ab") as out:
            command = self._java(HEAP_MIB, *self._jvm, "kafka.Kafka", str(self._config))
            self._process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        orphans.watch(self._process.pid)
        try:
            self._wait_until_answering()
        except BaseException:
            self.kill()
            raise
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None, "not running"
        return self._process.pid

    def stop(self) -> None:
        """Controlled shutdown; SIGKILL when it takes too long. Harmless when not running."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def tool(self, main_class: str, *arguments: str, stdin: str | None = None) -> str:
        """Run one of Kafka's console tools against this broker; its standard output. Fails on a non-zero exit."""
        return self._run(main_class, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)

    def partition_folder(self, topic: str, partition: int) -> Path:
        """Folder that holds the segments of a partition."""
        return self.data / f"{topic}-{partition}"

    def _defaults(self, controller_port: int) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "num.partitions": "1",
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "num.network.threads": "1",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": "8388608",
        }

    def _java(self, heap_mib: int, *arguments: str) -> list[str]:
        """`arguments`: more of the JVM's options, the main class, and what it is given."""
        return [
            *java_tools.jvm(self._class_path, heap_mib, f"-Dlog4j2.configurationFile={self._log4j}"), *arguments,
        ]  # fmt: skip

    def _run(self, main_class: str, *arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            self._java(128, main_class, *arguments),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{main_class} {arguments} failed:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _wait_until_answering(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, f"the broker ended at start:\n{self._log_end()}"
            if answers_api_versions(self.port):
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)
        raise AssertionError(f"the broker does not answer after {START_TIMEOUT_S:.0f} s:\n{self._log_end()}")

    def _log_end(self) -> str:
        parts = [
            path.read_text(errors="replace")[-3000:] for path in (self.folder / "broker.out", self.log) if path.exists()
        ]
        return "\n".join(parts)


def _cluster_id() -> str:
    """A uuid as Kafka writes it; never with a leading dash, which its tool would take for an option."""
    data = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes((data[0] & 0x7F,)) + data[1:]).decode().rstrip("=")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on just now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def answers_api_versions(port: int, timeout_s: float = 2.0) -> bool:
    """Whether an ApiVersions v0 request on this loopback port is answered with error code 0."""
    header = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(header)) + header)
            answer = connection.makefile("rb").read(10)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (1, 0)
