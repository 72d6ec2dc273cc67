"""Three real Kafka brokers (KRaft) on loopback, with default settings except addresses and replication factors.

Settings: `bench/kafka/broker.properties`. The jars come from Maven Central (`tests.java_tools`). The JVM gets the
options of Kafka's own start script, including its default heap of 1 GiB. Nothing is tuned in either direction.
"""

import contextlib
import os
import signal
import string
import subprocess
import time
import weakref
from pathlib import Path

import pytest

from bench.errors import SideMissing
from bench.tls import TLS_LISTENER, TlsFiles
from tests import java_tools, orphans
from tests.cluster import port_block
from tests.kafka_broker import answers_api_versions

BROKERS = 3
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
TOOL_TIMEOUT_S = 60.0
JVM_AS_SHIPPED = (
    "-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
"""KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS of bin/kafka-run-class.sh."""

_SETTINGS = Path(__file__).parent / "kafka"


class KafkaCluster:
    """Can be started and stopped any number of times; the data stay in the folder. Broker ids are 0, 1, 2."""

    def __init__(self, folder: Path, *, offsets_partitions: int = 50, tls: TlsFiles | None = None) -> None:
        self.folder = folder
        self._tls = tls
        self._offsets_partitions = offsets_partitions
        # Below the ephemeral range: no client's own port may occupy it when a broker restarts. Claimed for as long as
        # this object lives: a cluster of another test would answer at the port of a broker that is down.
        block = port_block(BROKERS)
        weakref.finalize(self, block.close)
        base = block.base
        self.ports = [base + node for node in range(BROKERS)]
        self._controller_ports = [base + 100 + node for node in range(BROKERS)]
        self.tls_ports = [base + 200 + node for node in range(BROKERS)]
        """Where nothing listens without TLS."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._class_path = ""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        self._class_path = self._class_path or find_class_path()
        for node in range(BROKERS):
            self._format(node)
        for node in range(BROKERS):
            self.start_broker(node, wait=False)
        for node in range(BROKERS):
            self.wait_answering(node)

    def start_broker(self, node: int, *, wait: bool = True) -> None:
        with (self._broker(node) / "broker.out").open("ab") as out:
            command = self._java(node, JVM_AS_SHIPPED, "kafka.Kafka", str(self._config(node)))
            process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        orphans.watch(process.pid)
        self._processes[node] = process
        if wait:
            self.wait_answering(node)

    def wait_answering(self, node: int) -> None:
        process = self._processes[node]
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers_api_versions(self.ports[node]):
            assert process.poll() is None, f"broker {node} ended at start; its log: {self._broker(node)}"
            assert time.monotonic() < deadline, f"broker {node} does not answer after {START_TIMEOUT_S:.0f} s"
            time.sleep(0.05)

    def pid(self, node: int) -> int:
        return self._processes[node].pid

    def signal(self, node: int, number: signal.Signals) -> None:
        os.kill(self.pid(node), number)
        if number == signal.SIGKILL:
            self._processes.pop(node).wait()

    def wait_ended(self, node: int) -> None:
        self._processes.pop(node).wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()
        self._processes.clear()

    # -- one broker's files ----------------------------------------------------------------------------------------

    def _broker(self, node: int) -> Path:
        return self.folder / f"broker-{node}"

    def _config(self, node: int) -> Path:
        return self._broker(node) / "server.properties"

    def settings(self, node: int) -> str:
        """The text of a broker's server.properties."""
        data = self._broker(node) / "data"
        voters = ",".join(f"{n}@127.0.0.1:{self._controller_ports[n]}" for n in range(BROKERS))
        values: dict[str, object] = {
            "node": node,
            "port": self.ports[node],
            "controller_port": self._controller_ports[node],
        }
        values["offsets_partitions"] = self._offsets_partitions
        template = string.Template((_SETTINGS / "broker.properties").read_text())
        values |= {"tls_listener": "", "tls_protocol": "", "tls_settings": ""}
        if self._tls is not None:
            values["tls_listener"] = f",{TLS_LISTENER}://127.0.0.1:{self.tls_ports[node]}"
            values["tls_protocol"] = f",{TLS_LISTENER}:SSL"
            values["tls_settings"] = f"ssl.keystore.type=PEM\nssl.keystore.location={self._tls.both}\n"
        # The comment at its top contains the placeholder itself, which is not a field: hence safe_substitute.
        return template.safe_substitute(values, voters=voters, data=data)

    def _format(self, node: int) -> None:
        data = self._broker(node) / "data"
        if (data / "meta.properties").exists():
            return
        data.mkdir(parents=True, exist_ok=True)
        self._config(node).write_text(self.settings(node))
        tool = self._java(node, ("-Xmx128m",), "kafka.tools.StorageTool", "format", "-c", str(self._config(node)))
        done = subprocess.run(
            [*tool, "-t", "MusterBenchmarkKafkaAA"], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"formatting broker {node} failed:\n{done.stdout}\n{done.stderr}"

    def _java(self, node: int, options: tuple[str, ...], main_class: str, *arguments: str) -> list[str]:
        log = f"-Dbench.log={self._broker(node) / 'broker.log'}"
        log4j = f"-Dlog4j2.configurationFile={_SETTINGS / 'log4j2.yaml'}"
        return [java_tools.java_command(), *options, log, log4j, "-cp", self._class_path, main_class, *arguments]


def find_class_path() -> str:
    """Kafka's jars. Raises SideMissing where there is no Java, or they can be neither found nor fetched."""
    try:
        return java_tools.classpath(*java_tools.KAFKA_ALL)
    except (pytest.skip.Exception, pytest.fail.Exception) as outcome:
        raise SideMissing(f"no Kafka beside Muster: {outcome}") from None
