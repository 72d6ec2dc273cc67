"""Kafka Connect and MirrorMaker 2 as processes of their own, from Maven Central, against any bootstrap address.

`Worker` is one worker of a distributed Connect cluster: started, killed and stopped as often as one likes, and asked
over its REST interface. `Mirror` is the dedicated driver of MirrorMaker 2 (`connect-mirror-maker.sh`). Both write their
log beside their configuration.
"""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import java_tools, orphans
from tests.cluster import wait_until
from tests.kafka_broker import free_ports

CONNECT = (
    f"org.apache.kafka:connect-file:{java_tools.KAFKA_VERSION}",
    f"org.apache.kafka:connect-mirror:{java_tools.KAFKA_VERSION}",
)
HEAP_MIB = 256
READY_S_MAX = 240
STOP_S_MAX = 120
REST_S_MAX = 95
"""The worker's own limit is 90."""

_LOG4J = """
Configuration:
  status: error
  Appenders:
    File: {{ name: F, fileName: "{log}", PatternLayout: {{ pattern: "[%d] %p %m (%c)%n" }} }}
  Loggers:
    Root: {{ level: INFO, AppenderRef: {{ ref: F }} }}
"""


class JavaProcess:
    """A JVM that runs one of Kafka's classes with a file of properties."""

    def __init__(self, folder: Path, name: str, main_class: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._config = folder / f"{name}.properties"
        self._log4j = folder / f"{name}-log4j2.yaml"
        self._main = main_class
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), "utf-8")
        self._log4j.write_text(_LOG4J.format(log=self.log), "utf-8")

    def start(self) -> None:
        assert self._process is None, f"{self.name} runs already"
        kafka = java_tools.classpath(*java_tools.KAFKA_ALL)
        class_path = os.pathsep.join((kafka, java_tools.classpath(*CONNECT)))
        head = java_tools.jvm(class_path, HEAP_MIB, f"-Dlog4j2.configurationFile={self._log4j}")
        with self.log.with_suffix(".out").open("ab") as out:
            self._process = subprocess.Popen(
                [*head, self._main, str(self._config)], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        orphans.watch(self._process.pid)

    def kill(self) -> None:
        """SIGKILL. Harmless when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """SIGTERM, and its end. Harmless when it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        finally:
            self.kill()

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def told(self) -> str:
        """The end of what it wrote."""
        files = (self.log.with_suffix(".out"), self.log)
        return "\n".join(f"--- {file}\n{file.read_text('utf-8')[-6_000:]}" for file in files if file.exists())


class Worker(JavaProcess):
    """One worker of a distributed Connect cluster."""

    def __init__(self, folder: Path, number: int, bootstrap: str, properties: Mapping[str, str]) -> None:
        (port,) = free_ports(1)
        self.id = f"127.0.0.1:{port}"
        own = {"bootstrap.servers": bootstrap, "listeners": f"http://{self.id}"}
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(folder, f"worker-{number}", main, {**own, **properties})

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """(HTTP status, body). Raises OSError when nobody listens."""
        request = urllib.request.Request(
            f"http://{self.id}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=REST_S_MAX) as answer:
                text = answer.read()
                return int(answer.status), json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def answers(self) -> bool:
        assert self.runs(), f"{self.name} ended:\n{self.told()}"
        try:
            return self.ask("GET", "/connectors")[0] == 200
        except OSError:
            return False

    def wait_ready(self) -> None:
        try:
            wait_until(f"{self.name} answers", self.answers, READY_S_MAX, 0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None


class Mirror(JavaProcess):
    """MirrorMaker 2, both directions in one process."""

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        super().__init__(folder, "mirror-maker", "org.apache.kafka.connect.mirror.MirrorMaker", properties)
