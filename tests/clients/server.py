"""What the client tests run against: three Muster processes, or a real Kafka broker to check the tests themselves.

    MUSTER_TEST_AGAINST=kafka pytest tests/clients      # the same expectations, against the original

Several pytest workers share one server: the first starts it, the last stops it (a counter under a file lock).
"""

import fcntl
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.cluster import STOP_SECONDS_MAX, wait_until
from tests.live_files import live_paths, live_sizes

ADMIN_TIMEOUT_S = 20
_keepers: list[subprocess.Popen[bytes]] = []
"""Held so that a keeper started here is not reported as forgotten; it ends by signal, maybe after this process."""


class Server:
    """Bootstrap address, topics to work with, and what can be asked from outside."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.bootstrap: str = info["bootstrap"]
        self.is_muster: bool = info["is_muster"]
        self._folder = Path(info["folder"])
        self._port = int(info.get("port", 0))
        self.replicas = int(info.get("replicas", 1))
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def brokers(self) -> list[int]:
        """Their ids."""
        return sorted(self._admin.list_topics(timeout=ADMIN_TIMEOUT_S).brokers)

    def segments(self, topic: str) -> list[Path]:
        """Files of a topic's records, of all replicas."""
        return [file for file, size in live_sizes(live_paths(self._folder, f"**/{topic}-*/*.log")).items() if size]

    def unique(self, stem: str) -> str:
        return f"{stem}-{uuid.uuid4().hex[:8]}"

    def create(self, name: str, partitions: int, **configs: str) -> str:
        wanted = NewTopic(name, partitions, replication_factor=-1, config=configs)
        self._admin.create_topics([wanted], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)
        self.wait_topic(name, partitions)
        return name

    def wait_topic(self, name: str, partitions: int) -> None:
        def there() -> bool:
            topic = self._admin.list_topics(timeout=5).topics.get(name)
            return (
                topic is not None
                and len(topic.partitions) == partitions
                and all(p.leader >= 0 for p in topic.partitions.values())
            )

        wait_until(f"topic {name} has {partitions} led partitions", there, ADMIN_TIMEOUT_S, 0.1)

    def grow(self, name: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(ADMIN_TIMEOUT_S)
        self.wait_topic(name, partitions)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name], operation_timeout=ADMIN_TIMEOUT_S)[name].result(ADMIN_TIMEOUT_S)
        wait_until(
            f"{name} is gone", lambda: name not in self._admin.list_topics(timeout=5).topics, ADMIN_TIMEOUT_S, 0.1
        )

    def fill(self, topic: str, partitions: int, per_partition: int, start: int = 0) -> None:
        """Records `p:n` with key `p`, n counting from `start` in each partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        failed: list[str] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(str(error))

        for n in range(start, start + per_partition):
            for p in range(partitions):
                producer.produce(topic, f"{p}:{n}", str(p), partition=p, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(30) == 0
        assert not failed, failed[:3]

    @contextmanager
    def trickle(self, topic: str, partitions: int, every_s: float = 0.05) -> Iterator[None]:
        """A record to every partition all the while, so that gaps in consumption show."""
        import threading

        stop = threading.Event()

        def run() -> None:
            producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
            n = 0
            while not stop.wait(every_s):
                for p in range(partitions):
                    producer.produce(topic, f"{p}:t{n}", str(p), partition=p)
                producer.poll(0)
                n += 1
            producer.flush(10)

        thread = threading.Thread(target=run, name="trickle")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def generation(self, group: str) -> int | None:
        """From any replica's admin port, following 421; None against Kafka, which does not tell."""
        if not self.is_muster:
            return None
        return int(self.describe(group)["generation"])

    def describe(self, group: str) -> dict[str, Any]:
        import urllib.error
        import urllib.parse
        import urllib.request

        token = (self._folder / "admin-token").read_text().strip()
        for replica in range(self.replicas):
            url = f"http://127.0.0.1:{self._port + 300 + replica}/v1/groups/{urllib.parse.quote(group, safe='')}"
            try:
                request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
                with urllib.request.urlopen(request, timeout=5) as answer:
                    body: dict[str, Any] = json.loads(answer.read())
                    return body
            except urllib.error.HTTPError as error:
                error.close()
        raise AssertionError(f"no replica coordinates {group}")


@contextmanager
def shared_server(folder: Path) -> Iterator[Server]:
    """One server for all workers of a pytest run; `folder` is common to them."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "server.json"
    with _locked(folder):
        info = json.loads(state.read_text()) if state.exists() else {"users": 0}
        if info["users"] == 0:
            info = _start(folder)
        info["users"] += 1
        state.write_text(json.dumps(info))
    try:
        yield Server(info)
    finally:
        with _locked(folder):
            info = json.loads(state.read_text())
            info["users"] -= 1
            state.write_text(json.dumps(info))
            if info["users"] == 0:
                _stop(info)


def _start(folder: Path) -> dict[str, Any]:
    """The server lives in a keeper process, because the worker that starts it may end before the others."""
    report = folder / f"keeper-{os.getpid()}-{time.monotonic_ns()}.json"
    with (folder / "keeper.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.server", str(folder), str(report)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def told() -> bool:
        if keeper.poll() is not None:
            raise AssertionError(f"the server did not start:\n{(folder / 'keeper.log').read_text()[-4000:]}")
        return report.exists()

    wait_until("the server is up", told, 120)
    info: dict[str, Any] = json.loads(report.read_text())
    _keepers.append(keeper)
    return {**info, "users": 0, "keeper": keeper.pid}


def _stop(info: dict[str, Any]) -> None:
    import signal

    os.kill(info["keeper"], signal.SIGTERM)
    for keeper in _keepers:
        if keeper.pid == info["keeper"]:
            keeper.wait(STOP_SECONDS_MAX)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def keep(folder: Path, report: Path) -> None:
    """Run the server until SIGTERM."""
    import signal

    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    if os.environ.get("MUSTER_TEST_AGAINST") == "kafka":
        from tests.kafka_broker import KafkaBroker

        with KafkaBroker(folder / "kafka", {"group.initial.rebalance.delay.ms": "3000"}) as broker:
            _tell(report, {"bootstrap": broker.bootstrap, "is_muster": False, "folder": str(folder)})
            while not ended:
                signal.pause()
        return
    from tests.cluster import MusterCluster

    with MusterCluster(folder / "muster") as cluster:
        about = {"folder": str(cluster.folder), "port": cluster.port, "replicas": cluster.replicas}
        _tell(report, {"bootstrap": cluster.bootstrap, "is_muster": True, **about})
        while not ended:
            signal.pause()


def _tell(report: Path, info: dict[str, Any]) -> None:
    partial = report.with_suffix(".partial")
    partial.write_text(json.dumps(info))
    partial.rename(report)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
