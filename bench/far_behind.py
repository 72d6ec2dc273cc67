"""Scenario: a follower is far behind, its peers reach it only over a slow link, and its partition is being written to.

The follower is killed, the others are written to, and it restarts with its peers' ports replaced by those of a
`SlowLink`, which also listens on its own former port. Writing continues at a fixed rate. The follower is level once the
partition's leader knows it to have all but a few entries, for some time.
"""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from muster_coordinator.cli.dev_layout import PEER_PORTS
from muster_coordinator.properties import format_properties, parse_properties

from bench.errors import RunFailed
from bench.slow_link import Budget, SlowLink
from tests.cluster import MusterCluster, wait_until

TOPIC = "behind"
STAY_S = 3
"""How long the follower must stay level."""
VALUE_BYTES = 10_000
TICK_S = 0.01
MISSED_TIMEOUT_S = 600


class Caught(NamedTuple):
    """Result of the catch-up."""

    seconds: float
    missed_bytes: int
    """Bytes written before it started."""
    written_bytes: int
    """Bytes acknowledged between its start and being level."""
    fetched_bytes: int
    """Bytes that went over the link to it."""
    installed: int
    """Snapshots that it installed."""

    @property
    def of_lacked(self) -> float:
        return self.fetched_bytes / (self.missed_bytes + self.written_bytes)


class Writer(threading.Thread):
    """Produces to the partition: first a given number of bytes at full speed, then at a fixed rate until `stop`."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="writer", daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "batch.size": 50_000, "log_level": 0}
        )
        self._stop_now = threading.Event()
        self.rate = 0.0
        self.good_bytes = 0
        self.failed: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.good_bytes += VALUE_BYTES
        else:
            self.failed = error

    def write(self, size_bytes: int) -> None:
        """Runs in the caller's thread, before `start`."""
        value = bytes(VALUE_BYTES)
        goal = self.good_bytes + size_bytes
        asked = self.good_bytes
        deadline_s = time.monotonic() + MISSED_TIMEOUT_S
        while self.good_bytes < goal:
            while asked < min(goal, self.good_bytes + 32_000_000):
                self._producer.produce(TOPIC, value, on_delivery=self.delivered)
                asked += VALUE_BYTES
            self._producer.poll(TICK_S)
            if self.failed is not None or time.monotonic() > deadline_s:
                raise RunFailed(f"the partition could not be written: {self.failed}")

    def run(self) -> None:
        value, began_s, asked = bytes(VALUE_BYTES), time.monotonic(), 0
        while not self._stop_now.is_set():
            while asked < (time.monotonic() - began_s) * self.rate:
                try:
                    self._producer.produce(TOPIC, value, on_delivery=self.delivered)
                except BufferError:
                    break
                asked += VALUE_BYTES
            self._producer.poll(TICK_S)
        self._producer.flush(10)

    def stop(self) -> None:
        self._stop_now.set()
        self.join(30)


def partition(cluster: MusterCluster, replica: int) -> dict[str, Any]:
    """The Raft group of the topic's only partition as this replica sees it."""
    rows = cluster.admin(replica, "/v1/partitions")[1]["partitions"]
    return next(row for row in rows if row["topic"] == TOPIC)


def lag(cluster: MusterCluster, follower: int) -> int | None:
    """Entries that the leader does not know the follower to have; None while there is no leader."""
    others = [replica for replica in range(cluster.replicas) if replica != follower]
    for row in (partition(cluster, replica) for replica in others):
        if row["role"] == "leader":
            return int(row["last_index"]) - int(row["match"].get(str(follower), 0))
    return None


def catch_up(
    cluster: MusterCluster,
    *,
    missed_bytes: int,
    write_rate: float,
    link_rate: float,
    level_entries: int,
    within_s: float,
    say: Callable[[str], None] = lambda _: None,
) -> Caught:
    """`cluster`: running, with the topic. Raises RunFailed if the follower is not level in time."""
    wait_until("the partition is led", lambda: partition(cluster, 0)["leader"] is not None, 20)
    leader = int(partition(cluster, 0)["leader"])
    follower = (leader + 1) % cluster.replicas
    bootstrap = ",".join(f"127.0.0.1:{cluster.client_port(n)}" for n in range(cluster.replicas) if n != follower)
    writer, link = Writer(bootstrap), SlowLink(Budget(link_rate), Budget(link_rate))
    backwards = SlowLink(link.back, link.there)
    try:
        writer.write(VALUE_BYTES)
        cluster.kill(follower)
        writer.write(missed_bytes)
        say(f"  {missed_bytes / 1e6:.0f} MB are written")
        _behind(cluster, follower, link, backwards)
        writer.rate, before = write_rate, writer.good_bytes
        writer.start()
        began_s = time.monotonic()
        cluster.start_replica(follower, wait_ready=False)
        told_s = began_s

        def level() -> bool:
            nonlocal told_s
            left = lag(cluster, follower)
            if time.monotonic() - told_s >= 20:
                told_s = time.monotonic()
                say(f"  {told_s - began_s:.0f} s: {left} entries behind, {link.there.taken / 1e6:.0f} MB over the link")
            return left is not None and left <= level_entries

        wait_until("the follower is level", level, within_s, 0.25)
        caught = Caught(
            time.monotonic() - began_s,
            missed_bytes,
            writer.good_bytes - before,
            link.there.taken,
            _installed(cluster, follower),
        )
        time.sleep(STAY_S)
        if not level():
            raise RunFailed("it was level, and fell behind again")
        return caught
    finally:
        if writer.is_alive():
            writer.stop()
        link.close()
        backwards.close()


def _installed(cluster: MusterCluster, follower: int) -> int:
    name = "muster_transfers_installed_total "
    return next(
        int(float(line[len(name) :])) for line in cluster.metrics(follower).splitlines() if line.startswith(name)
    )


def _behind(cluster: MusterCluster, follower: int, link: SlowLink, backwards: SlowLink) -> None:
    """Put the link between the follower and its peers in both directions: the follower listens on another port and
    dials the link."""
    path = cluster.folder / f"replica-{follower}" / "server.properties"
    values = dict(parse_properties(path.read_text("utf-8")))
    peer = cluster.port + PEER_PORTS
    with socket.create_server(("127.0.0.1", 0)) as free:
        hidden = free.getsockname()[1]
    values["muster.peer.listener"] = f"127.0.0.1:{hidden}"
    link.forward(hidden, listen=peer + follower)
    voters = [
        f"{n}@127.0.0.1:{peer + n if n == follower else backwards.forward(peer + n)}" for n in range(cluster.replicas)
    ]
    values["controller.quorum.voters"] = ",".join(voters)
    path.write_text(format_properties(values, "Behind a slow link."), "utf-8")
