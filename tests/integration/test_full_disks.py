"""Real file systems that are full, under real processes: leaderships move, nothing acknowledged is lost, nobody ends.

Each replica has a small tmpfs of its own, which a file fills; mounting needs root. Where `writes` fail one by one is
another matter: that is the simulated disk's (`tests/replica/maintenance/test_low_disk.py`,
`tests/storage/test_full_disk.py`).
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster, wait_until, watch_stays
from tests.integration.failover_load import records_of
from tests.machine_parts import give_up
from tests.raw_client import Disconnected, RawClient
from tests.raw_group import NONE, commit, fetch, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

MIB = 1024 * 1024
VOLUME = 80 * MIB
LOW, GOOD = 12 * MIB, 18 * MIB
SETTINGS = {
    "muster.wal.file.bytes": str(MIB),
    "muster.wal.max.bytes": str(8 * MIB),
    "muster.disk.low.bytes": str(LOW),
    "muster.disk.good.bytes": str(GOOD),
    "muster.segment.flush.ms": "300",
    "muster.checkpoint.bytes": str(256 * 1024),
    "muster.leadership.takeback.ms": "1000",
    "log.segment.bytes": str(MIB),
}
MOVED_SECONDS_MAX = 5.0
"""A look at the disk takes up to a second, moving a handful of groups a tenth of that."""
TAKEBACK_SEEN_SECONDS = 3.0
"""Of `muster.leadership.takeback.ms` and a look each second, enough for one to be seen."""
GROUPS = [f"g{n}" for n in range(12)]
RETRIABLE = {15, 14, 16, 7}
PARTITIONS = 6


def missing() -> str:
    """What the test needs and this machine lacks; "" when nothing."""
    if os.geteuid() != 0:
        return "needs root, to mount small file systems"
    if shutil.which("mount") is None or shutil.which("umount") is None:
        return "no mount, umount on PATH"
    return ""


class Volumes:
    """A cluster on small file systems."""

    def __init__(self, folder: Path) -> None:
        self.cluster = MusterCluster(folder, partitions=PARTITIONS, settings=SETTINGS)
        self.pids: list[int] = []

    def path(self, replica: int) -> Path:
        return self.cluster.folder / f"replica-{replica}" / "data"

    def mount(self) -> None:
        for replica in range(3):
            self.path(replica).mkdir(parents=True)
            tried = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={VOLUME}", "tmpfs", str(self.path(replica))],
                check=False,
                capture_output=True,
                text=True,
            )
            if tried.returncode:
                give_up("tmpfs", tried.stderr.strip())

    def umount(self) -> None:
        for replica in range(3):
            subprocess.run(["umount", "-l", str(self.path(replica))], check=False, capture_output=True)

    def free(self, replica: int) -> int:
        state = os.statvfs(self.path(replica))
        return state.f_bavail * state.f_frsize

    def fill(self, replica: int, leave: int = 0) -> None:
        """Another program of the machine takes all but so many bytes, at once."""
        with (self.path(replica) / "filler").open("wb", buffering=0) as file:
            for piece in (bytes(MIB), bytes(4_096)):
                while self.free(replica) - len(piece) >= leave:
                    try:
                        file.write(piece)
                    except OSError:
                        break  # the replica was quicker

    def clean(self, replica: int) -> None:
        (self.path(replica) / "filler").unlink(missing_ok=True)

    def leads(self, replica: int) -> int:
        return int(self.cluster.status(replica)["leaderships"])

    def disk(self, replica: int) -> dict:
        return dict(self.cluster.status(replica)["disk"])

    def metric(self, replica: int, name: str) -> float:
        lines = self.cluster.metrics(replica).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def same_processes(self) -> bool:
        return [self.cluster.pid(replica) for replica in range(3)] == self.pids

    def logs(self, replica: int) -> str:
        return (self.cluster.folder / f"replica-{replica}" / "server.log").read_text(errors="replace")

    def ask(self, group: str, offset: int) -> int:
        """One commit of this group at its coordinator; the code."""
        try:
            with RawClient("127.0.0.1", find_coordinator(self.cluster.bootstrap, group)[2], timeout_s=10) as client:
                return commit(client, group, "t", {0: offset})[0]
        except Disconnected:
            return 7

    def read(self, group: str) -> tuple[int, int]:
        """(offset, code)"""
        with RawClient("127.0.0.1", find_coordinator(self.cluster.bootstrap, group)[2], timeout_s=10) as client:
            offset, _, code = fetch(client, group, "t", [0])[0]
        return offset, code


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[Volumes]:
    reason = missing()
    if reason:
        give_up("tmpfs", reason)
    it = Volumes(tmp_path / "cluster")
    it.mount()
    try:
        it.cluster.start(fresh=False)
        admin = AdminClient({"bootstrap.servers": it.cluster.bootstrap})
        admin.create_topics([NewTopic("t", 1, -1)], operation_timeout=20)["t"].result(20)
        wait_until("each leads something", lambda: all(it.leads(replica) for replica in range(3)), 30)
        it.pids = [it.cluster.pid(replica) for replica in range(3)]
        yield it
    finally:
        it.cluster.close()
        it.umount()


def committed(consumer: Consumer, offset: int) -> bool:
    """False: refused with an error to try again."""
    try:
        consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    except KafkaException as error:
        assert error.args[0].code() in RETRIABLE, error
        return False
    return True


def stored(consumer: Consumer) -> list[int]:
    """What is committed; [] while the group's coordinator moves: some seconds long after the disk has room."""
    try:
        return [found.offset for found in consumer.committed([TopicPartition("t", 0)], timeout=10)]
    except KafkaException as error:
        assert error.args[0].code() in RETRIABLE, error
        return []


def test_one_full_disk_moves_its_groups_and_commits_of_a_real_client_go_on(volumes: Volumes) -> None:
    it = volumes
    consumers = {group: Consumer({"bootstrap.servers": it.cluster.bootstrap, "group.id": group}) for group in GROUPS}

    def commits(offset: int, seconds: float) -> float:
        """Every group commits once, as often as it takes; the longest wait."""
        longest = 0.0
        for group, consumer in consumers.items():
            began = time.monotonic()
            wait_until(f"a commit of {group}", lambda one=consumer: committed(one, offset), seconds)
            longest = max(longest, time.monotonic() - began)
        return longest

    commits(1, 20)
    it.fill(0)
    filled = time.monotonic()
    assert commits(2, MOVED_SECONDS_MAX + 5) < MOVED_SECONDS_MAX
    wait_until("it leads nothing", lambda: it.leads(0) == 0, MOVED_SECONDS_MAX - (time.monotonic() - filled))
    for offset in range(3, 30):
        commits(offset, 5)
    assert it.cluster.probe(0, "/readyz") == 200
    assert it.disk(0)["low"]
    assert it.disk(0)["full"]
    assert it.metric(0, "muster_disk_low ") == 1
    assert it.logs(0).count('"disk full"') == 1
    assert str(it.path(0)) in it.logs(0)
    watch_stays("nothing is given back to it", lambda: it.leads(0) == 0, TAKEBACK_SEEN_SECONDS)

    it.clean(0)
    wait_until("it leads again", lambda: it.leads(0) > 0, 30)
    assert commits(100, 10) < 5
    assert not it.disk(0)["low"]
    assert it.logs(0).count('"disk has room again"') == 1
    for consumer in consumers.values():
        assert wait_until("its coordinator answers", lambda one=consumer: stored(one), 20) == [100]
        consumer.close()
    assert it.same_processes()


def test_three_full_disks_refuse_with_an_error_to_try_again_and_need_nothing_but_room(volumes: Volumes) -> None:
    it = volumes
    for group in GROUPS:
        wait_until(f"a commit of {group}", lambda group=group: it.ask(group, 1) == NONE, 20)
    for replica in range(3):
        it.fill(replica)
    wait_until("all are full", lambda: all(it.disk(replica)["full"] for replica in range(3)), 10)
    codes = {it.ask(group, 2) for group in GROUPS}
    assert codes <= RETRIABLE, codes
    for group in GROUPS:
        offset, code = it.read(group)
        assert code == NONE
        assert offset in (1, 2)  # the second was perhaps taken before anybody looked
    watch_stays(
        "all are ready",
        lambda: [it.cluster.probe(replica, "/readyz") for replica in range(3)] == [200] * 3,
        TAKEBACK_SEEN_SECONDS,
    )
    for replica in range(3):
        it.clean(replica)
    began = time.monotonic()
    for group in GROUPS:
        wait_until(f"a commit of {group}", lambda group=group: it.ask(group, 3) == NONE, 15)
    assert time.monotonic() - began < 15
    assert {it.read(group) for group in GROUPS} == {(3, NONE)}
    assert it.same_processes()


@pytest.mark.paced
def test_producers_that_fill_the_disks_are_refused_before_anything_breaks_and_deletion_makes_room(
    volumes: Volumes,
) -> None:
    it = volumes
    admin = AdminClient({"bootstrap.servers": it.cluster.bootstrap})
    admin.create_topics([NewTopic("big", 3, -1)], operation_timeout=20)["big"].result(20)
    for replica in range(3):
        it.fill(replica, LOW + 16 * MIB)
    producer = Producer(
        {"bootstrap.servers": it.cluster.bootstrap, "enable.idempotence": True, "message.timeout.ms": 20_000}
    )
    delivered: list[tuple[int, str]] = []
    failed: list[object] = []

    def told(error: object, message: object) -> None:
        if error is None:
            delivered.append((message.partition(), message.value().decode()))  # type: ignore[attr-defined]
        else:
            failed.append(error)

    for n in range(40_000):
        while True:
            try:
                producer.produce("big", f"{n:06d}" + "x" * 1_000, partition=n % 3, on_delivery=told)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(40)
    assert failed, "the disks were large enough for everything"
    assert delivered
    # Data is refused as soon as a majority cannot store it: a third with a page more to spare may not be low then.
    assert sum(it.disk(replica)["low"] for replica in range(3)) >= 2
    assert all(it.free(replica) > 0 for replica in range(3))
    assert it.same_processes()
    for partition in range(3):
        wanted = [value for where, value in delivered if where == partition]
        found = records_of(it.cluster.bootstrap, "big", partition)
        assert found[: len(wanted)] == wanted

    deleted = admin.delete_records([TopicPartition("big", partition, -1) for partition in range(3)])
    for one in deleted.values():
        one.result(20)
    wait_until("there is room", lambda: not any(it.disk(replica)["low"] for replica in range(3)), 60)
    wait_until("a commit", lambda: it.ask("g", 3) == NONE, 15)
    assert it.same_processes()
