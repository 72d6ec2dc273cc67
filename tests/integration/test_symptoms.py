"""docs/troubleshooting.md, symptom by symptom: each is made to happen by its cause, seen as it is described, and cured.

A real replica, real librdkafka consumers in processes of their own, and `muster` to look.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

SESSION_MS = 1_500
PARTITIONS = 6
SETTINGS = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
"""Sessions of a second or two, so that what takes a minute elsewhere is seen in seconds."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    folder = tmp_path_factory.mktemp("symptoms") / "data"
    with MusterCluster(folder, replicas=1, partitions=3, settings=SETTINGS) as it:
        yield it


def muster(cluster: MusterCluster, *words: str) -> list[dict[str, Any]]:
    """What a person would see, as JSON."""
    whole = [sys.executable, "-m", "muster_coordinator.cli.main", *words, "-b", cluster.bootstrap]
    done = subprocess.run([*whole, "-o", "json"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (words, done.stderr)
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def topic(cluster: MusterCluster, name: str, partitions: int = PARTITIONS) -> str:
    whole = [sys.executable, "-m", "muster_coordinator.cli.main", "topic", "create", name, "-b", cluster.bootstrap]
    subprocess.run([*whole, "--partitions", str(partitions)], check=True, capture_output=True, timeout=60)
    return name


def producer(cluster: MusterCluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})


def produce(sender: Producer, name: str, count: int, partitions: int = PARTITIONS) -> None:
    for n in range(count):
        sender.produce(name, value=b"record", partition=n % partitions)
    assert sender.flush(20) == 0


class Worker:
    """A `symptom_worker`, and what it has printed."""

    def __init__(self, cluster: MusterCluster, folder: Path, group: str, name: str, **order: Any) -> None:
        self.output = folder / f"{name}.out"
        client = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "session.timeout.ms": SESSION_MS}
        client |= {"heartbeat.interval.ms": 300, "max.poll.interval.ms": 300_000, **order.pop("client", {})}
        words = json.dumps({**order, "client": client})
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.symptom_worker", words], stdout=out
            )

    def lines(self, kind: str) -> list[str]:
        return [line for line in self.output.read_text().splitlines() if line.startswith(kind)]

    def done(self) -> list[tuple[int, int]]:
        """(partition, offset) of what it has worked on, in order."""
        return [(int(line.split()[1]), int(line.split()[2])) for line in self.lines("done")]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@contextmanager
def working(*workers: Worker) -> Iterator[None]:
    """They are gone at the end, whatever happens."""
    try:
        yield
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                worker.process.kill()
            worker.process.wait(20)


def view(cluster: MusterCluster, group: str) -> dict[str, Any]:
    """The group as its coordinator tells it; nothing while it is not there yet."""
    code, answer = cluster.admin(0, f"/v1/groups/{group}")
    return answer if code == 200 else {}


def generation(cluster: MusterCluster, group: str) -> int:
    return int(view(cluster, group).get("generation", -1))


def members(cluster: MusterCluster, group: str) -> int:
    """Of a stable group; 0 while it is not."""
    found = view(cluster, group)
    return len(found["members"]) if found.get("state") == "Stable" else 0


def lag(cluster: MusterCluster, group: str) -> int:
    return sum(int(row["lag"] or 0) for row in muster(cluster, "group", "lag", group))


def test_frequent_rebalances(cluster: MusterCluster, tmp_path: Path) -> None:
    """Work on a record takes longer than max.poll.interval.ms; the cure is to give it the time."""
    name = topic(cluster, "slow")
    produce(producer(cluster), name, 60)
    order = {"topic": name, "commit": "each", "work_s": 2.5}
    ill = Worker(cluster, tmp_path, "slow", "ill", **order, client={"max.poll.interval.ms": SESSION_MS})
    with working(ill):
        wait_until("it is thrown out, again and again", lambda: len(ill.lines("error _MAX_POLL_EXCEEDED")) >= 2, 30)
        assert ill.lines("refused UNKNOWN_MEMBER_ID"), "and what it has worked on cannot be committed any more"
        assert generation(cluster, "slow") >= 3
        ill.end()
    before = generation(cluster, "slow")
    cured = Worker(cluster, tmp_path, "slow", "cured", **order)
    with working(cured):
        wait_until("it has joined", lambda: generation(cluster, "slow") > before, 20)
        joined = generation(cluster, "slow")
        wait_until("two records are done", lambda: len(cured.done()) >= 2, 30)
        assert generation(cluster, "slow") == joined
        assert cured.lines("error") + cured.lines("refused") == []


def test_growing_lag(cluster: MusterCluster, tmp_path: Path) -> None:
    """Ten records a second come, a consumer does five; the cure is more consumers, up to the number of partitions."""
    name = topic(cluster, "busy")
    sender = producer(cluster)
    order = {"topic": name, "commit": "each", "work_s": 0.2}
    workers = [Worker(cluster, tmp_path, "busy", "first", **order)]
    with working(*workers):
        wait_until("it works", lambda: produce(sender, name, 12) is None and workers[0].done(), 20, every=1.0)
        first = lag(cluster, "busy")
        produce(sender, name, 30)
        wait_until("it works on", lambda: len(workers[0].done()) >= 6, 20)
        grown = lag(cluster, "busy")
        assert grown > first
    more = [Worker(cluster, tmp_path, "busy", f"more-{n}", **order) for n in range(PARTITIONS)]
    with working(*more):
        wait_until("all are in the group", lambda: members(cluster, "busy") == PARTITIONS, 30)
        produce(sender, name, 5 * PARTITIONS)
        wait_until("each has a part of it", lambda: all(worker.done() for worker in more), 20)
        wait_until("the lag is gone", lambda: lag(cluster, "busy") == 0, 30, every=0.2)


def test_duplicate_processing(cluster: MusterCluster, tmp_path: Path) -> None:
    """A consumer dies before it commits; commit after each record, and know what is done, and nothing is done twice."""
    name = topic(cluster, "twice", 1)
    produce(producer(cluster), name, 20, 1)
    lazy = {"topic": name, "commit": "auto", "client": {"auto.commit.interval.ms": 600_000}}
    first = Worker(cluster, tmp_path, "lazy", "lazy-1", **lazy, die_at=20)
    with working(first):
        wait_until("it has died", lambda: first.process.poll() is not None, 20)
    second = Worker(cluster, tmp_path, "lazy", "lazy-2", **lazy)
    with working(second):
        wait_until("both have done all", lambda: len(first.done() + second.done()) >= 40, 30)
        twice = [one for one, times in Counter(first.done() + second.done()).items() if times == 2]
        assert len(twice) == 20, "nothing was committed, so all of it came again"
    careful = {"topic": name, "commit": "each"}
    third = Worker(cluster, tmp_path, "careful", "careful-1", **careful, die_at=12)
    with working(third):
        wait_until("it has died", lambda: third.process.poll() is not None, 20)
    fourth = Worker(cluster, tmp_path, "careful", "careful-2", **careful)
    with working(fourth):
        wait_until("the other ends the work", lambda: (0, 19) in fourth.done(), 20)
        times = Counter(third.done() + fourth.done())
        assert {one for one, count in times.items() if count > 1} <= {(0, 11)}, "only what was under way comes again"
        assert set(times) == {(0, n) for n in range(20)}
        assert len({*third.done(), *fourth.done()}) == 20, "one that remembers offsets does each once"
