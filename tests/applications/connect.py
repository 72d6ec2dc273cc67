"""Kafka Connect and MirrorMaker 2 as processes of their own, from Maven Central, against any bootstrap address.

`Worker` is one worker of a distributed Connect cluster, `Workers` the cluster: started, killed and stopped as often as
one likes, and asked over its REST interface; `plugin_path` gives it connectors of others. `Mirror` is the dedicated
driver of MirrorMaker 2 (`connect-mirror-maker.sh`). All write their log beside their configuration.
"""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

SETTLES_S_MAX = 600
"""A rebalance with dead workers, exactly once, beside JVMs that are more than the processors."""

DISTRIBUTED = {
    "group.id": "connect-cluster",
    "offset.storage.topic": "connect-offsets",
    "config.storage.topic": "connect-configs",
    "status.storage.topic": "connect-status",
    "exactly.once.source.support": "enabled",
    "consumer.isolation.level": "read_committed",
    "scheduled.rebalance.max.delay.ms": "5000",
    "offset.flush.interval.ms": "2000",
}

_LOG4J = """
Configuration:
  status: error
  Appenders:
    File: {{ name: F, fileName: "{log}", PatternLayout: {{ pattern: "[%d] %p %m (%c)%n" }} }}
  Loggers:
    Root: {{ level: INFO, AppenderRef: {{ ref: F }} }}
"""


def plugin_path(folder: Path, name: str, *coordinates: str) -> str:
    """The plugin path of a worker with one plugin of that name, loaded apart from Kafka's classes as Connect does."""
    jars = Path(java_tools.classpath(*coordinates).split(os.pathsep)[0]).parent
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / name).symlink_to(jars, target_is_directory=True)
    return str(plugins)


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


class Workers:
    """The Connect cluster; questions go to whichever worker runs."""

    def __init__(self, folder: Path, bootstrap: str, properties: Mapping[str, str], workers: int) -> None:
        self.all = [Worker(folder, number, bootstrap, {**DISTRIBUTED, **properties}) for number in range(workers)]

    def start(self) -> None:
        for one in self.all:
            one.start()
        for one in self.all:
            one.wait_ready()

    def close(self) -> None:
        for one in self.all:
            one.kill()

    def told(self) -> str:
        return "\n".join(one.told() for one in self.all)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The body of a good answer; while the workers rebalance (409) or elect, the question is asked again."""
        last: Any = None

        def answered() -> bool:
            nonlocal last
            for one in self.all:
                if one.runs():
                    try:
                        last = one.ask(method, path, body)
                    except OSError as error:
                        last = (0, str(error))
                        continue
                    if 200 <= last[0] < 300:
                        return True
            return False

        try:
            wait_until(f"{method} {path}", answered, SETTLES_S_MAX, 1)
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}\n{self.told()}") from None
        return last[1]

    def status(self, connector: str) -> Any:
        return self.ask("GET", f"/connectors/{connector}/status")

    def worker_of(self, connector: str) -> str:
        return str(self.status(connector)["tasks"][0]["worker_id"])

    def wait_running(self, connectors: tuple[str, ...]) -> None:
        running = {one.id for one in self.all if one.runs()}

        def all_run() -> bool:
            for connector in connectors:
                status = self.status(connector)
                parts = [status["connector"], *status["tasks"]]
                if len(parts) != 2 or any(p["state"] != "RUNNING" or p["worker_id"] not in running for p in parts):
                    return False
            return True

        try:
            wait_until(f"{connectors} run", all_run, SETTLES_S_MAX, 1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{[self.status(c) for c in connectors]}\n{self.told()}") from None


@contextmanager
def connect(folder: Path, bootstrap: str, properties: Mapping[str, str], workers: int = 3) -> Iterator[Workers]:
    cluster = Workers(folder, bootstrap, properties, workers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


class Mirror(JavaProcess):
    """MirrorMaker 2, both directions in one process."""

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        super().__init__(folder, "mirror-maker", "org.apache.kafka.connect.mirror.MirrorMaker", properties)
