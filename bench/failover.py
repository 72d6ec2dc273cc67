"""Fail-over: from SIGKILL of a group's coordinator to librdkafka's first successful commit, with default client
settings.

A consumer commits one offset after the other; the replica that coordinates its group is killed, later restarted, and
killed again. A sample is the time from the signal to the end of the first commit that succeeded after it.
"""

import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.dev_layout import WAL_FILE_BYTES

from bench.figures import Figure
from tests.cluster import MusterCluster, wait_until
from tests.raw_group import find_coordinator

TITLE = "Fail-over: SIGKILL of the coordinator to librdkafka's first good commit (its default settings)"
KILLS = 10
SETTLE_S = 2.0
POLL_S = 0.01
GRACE_S = 0.1
GROUP, TOPIC = "bench", "bench"


class Committer(threading.Thread):
    """Commits 1, 2, 3, ... one at a time and polls continuously; records the start and end time of each success."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="committer", daemon=True)
        settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False}
        self.consumer = Consumer({**settings, "on_commit": self.on_commit})
        self.ended = threading.Event()
        self.good_s: list[tuple[float, float]] = []
        self.asked_s = 0.0
        self.outstanding = False

    def on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self.outstanding = False
        if error is None and not any(partition.error for partition in partitions):
            self.good_s.append((self.asked_s, time.monotonic()))

    def run(self) -> None:
        offset = 0
        self.consumer.subscribe([TOPIC])
        while not self.ended.is_set():
            self.consumer.poll(POLL_S)
            if not self.outstanding and self.consumer.assignment():
                offset += 1
                self.outstanding = True
                self.asked_s = time.monotonic()
                self.consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=True)
        self.consumer.close()

    def first_after(self, moment_s: float) -> float | None:
        """End of the first success that cannot come from the dead coordinator: an answer within `GRACE_S` was already
        sent when the process died or froze, and no other replica takes over that fast."""
        return next((good for _, good in self.good_s if good > moment_s + GRACE_S), None)


def run() -> list[Figure]:
    samples = []
    settings = {"muster.wal.file.bytes": str(WAL_FILE_BYTES)}
    with tempfile.TemporaryDirectory() as folder, MusterCluster(Path(folder) / "data", settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, -1)])[TOPIC].result(20)
        committer = Committer(cluster.bootstrap)
        committer.start()
        wait_until("commits flow", lambda: committer.good_s, 30)
        for _ in range(KILLS):
            time.sleep(SETTLE_S)
            broker, _, _ = find_coordinator(cluster.bootstrap, GROUP)
            killed = time.monotonic()
            cluster.kill(broker)
            good = wait_until("a good commit", lambda killed=killed: committer.first_after(killed), 30, 0.01)
            samples.append(good - killed)
            cluster.start_replica(broker)
        committer.ended.set()
        committer.join(30)
    return [Figure(name="first good commit", unit="s", samples=samples, median_max=1.2, worst_max=3.0)]
