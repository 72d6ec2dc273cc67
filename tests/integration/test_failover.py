"""Forty coordinators killed under load, ten in each moment of a group's life; then all replicas at once.

The subject is a group of raw members, because a test must decide what has been sent and what has been answered at the
moment of the kill. Around it a mixed group of real clients, commit loads, producers and readers go on all the while.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.replica.partitions.surface import partition_of

from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import (
    CommitLoad,
    ConsoleReader,
    JavaProducerLoad,
    LibrdkafkaProducerLoad,
    OffsetsTopicReader,
    records_of,
)
from tests.raw_client import Disconnected
from tests.raw_group import NONE, REBALANCE, RETRIABLE, UNKNOWN_MEMBER, RawMember, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(600)]

KILLS_PER_MOMENT = int(os.environ.get("MUSTER_FAILOVER_KILLS", "10"))
PARTITIONS = 50
SETTLE_S = 30
"""A client's patience. Long, because machines stall; how fast fail-over is, is measured by the bench."""


def steady(member: RawMember, step: Callable[[], Any], seconds: float = SETTLE_S) -> Any:
    """`step` as a client does it: again, at the coordinator of the moment, while the answer is lost or retriable."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = step()
            code = answer if isinstance(answer, int) else int(answer.error_code)
        except Disconnected:
            code = None
        if code is not None and code not in RETRIABLE:
            return answer
        member.drop_connection()
        assert time.monotonic() < deadline, f"no answer within {seconds} s; last {code}"
        time.sleep(0.02)


class Subject:
    """Three raw members, and what must never happen to their group."""

    def __init__(self, cluster: MusterCluster, group: str) -> None:
        self.cluster, self.group = cluster, group
        self.members = [self.new() for _ in range(3)]
        self.generations: dict[int, frozenset[str]] = {}
        self.gone: set[str] = set()
        self.last = -1

    def new(self) -> RawMember:
        return RawMember(self.cluster.bootstrap, self.group, session_ms=45_000, rebalance_ms=10_000)

    @property
    def leader(self) -> RawMember:
        return next(m for m in self.members if m.is_leader)

    def kill(self) -> int:
        broker, _, _ = find_coordinator(self.cluster.bootstrap, self.group)
        self.cluster.kill(broker)
        return broker

    def rejoin(self) -> None:
        """Everybody joins, and again when a heartbeat says so, until all are in one generation."""
        deadline = time.monotonic() + 2 * SETTLE_S

        def together() -> bool:
            return len({m.generation for m in self.members}) == 1 and sum(m.is_leader for m in self.members) == 1

        def one(member: RawMember) -> None:
            steady(member, member.join, 2 * SETTLE_S)
            while not together():
                assert time.monotonic() < deadline, [(m.member, m.generation, m.leader) for m in self.members]
                code = steady(member, member.heartbeat)
                assert code in (NONE, REBALANCE), f"a live member was told {code}"
                if code == REBALANCE:
                    steady(member, member.join, 2 * SETTLE_S)
                time.sleep(0.05)

        for member in self.members:
            member.generation = -1
        self._each(one)
        self.note()

    def note(self) -> None:
        leader = self.leader
        generation, people = leader.generation, frozenset(leader.members)
        assert self.generations.setdefault(generation, people) == people, f"generation {generation} has two member sets"
        assert generation > self.last or self.generations[generation] == people
        self.last = max(self.last, generation)
        assert not people & self.gone, "a member that had left is back"
        assert people == {m.member for m in self.members}

    def plan(self) -> dict[str, bytes]:
        return {m.member: f"plan-{self.leader.generation}-{n}".encode() for n, m in enumerate(self.members)}

    def sync(self, plan: dict[str, bytes]) -> None:
        generation = self.leader.generation
        leader = self.leader

        def one(member: RawMember) -> None:
            answer = steady(member, lambda: member.sync(plan if member is leader else None))
            assert int(answer.error_code) == NONE, f"sync answered {answer.error_code!r}"
            assert member.assignment == plan[member.member], "not the leader's bytes"

        self._each(one)
        assert leader.generation == generation

    def alive_in(self, generation: int) -> None:
        for member in self.members:
            assert member.generation == generation
            assert steady(member, member.heartbeat) == NONE, "the generation was not kept"

    def _each(self, call: Callable[[RawMember], Any]) -> None:
        errors: list[BaseException] = []

        def run(member: RawMember) -> None:
            try:
                call(member)
            except BaseException as error:  # noqa: BLE001 - raised below, on the test's thread
                errors.append(error)

        threads = [threading.Thread(target=run, args=(m,)) for m in self.members]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    # --- the four moments

    def killed_while_stable(self) -> int:
        generation = self.leader.generation
        dead = self.kill()
        self.alive_in(generation)
        return dead

    def killed_while_preparing(self) -> int:
        """One leaves (answered), one re-joins and is parked; the third has not heard of it yet."""
        old = self.leader.generation
        leaver = next(m for m in self.members if not m.is_leader)
        answer = steady(leaver, leaver.leave)
        assert all(int(m.error_code) in (NONE, UNKNOWN_MEMBER) for m in answer.members)
        self.gone.add(leaver.member)
        leaver.drop_connection()
        self.members.remove(leaver)
        parked = self.members[0]
        parked.send_join()
        wait_until("the rebalance has begun", lambda: self._told(self.members[1]), 5)
        dead = self.kill()
        self.members.append(self.new())
        self.rejoin()
        assert self.leader.generation > old
        self.sync(self.plan())
        return dead

    def _told(self, member: RawMember) -> bool:
        code = member.heartbeat()
        assert code in (NONE, REBALANCE), code
        return code == REBALANCE

    def killed_before_sync(self) -> int:
        """All have their JoinGroup answers; nobody has sent SyncGroup. The next coordinator goes on with it."""
        self.rejoin()
        generation, plan = self.leader.generation, self.plan()
        dead = self.kill()
        for member in self.members:
            member.drop_connection()
        self.sync(plan)
        self.alive_in(generation)
        return dead

    def killed_during_sync(self) -> int:
        """The leader's plan is on its way; nobody knows whether it is in the log."""
        self.rejoin()
        generation, plan = self.leader.generation, self.plan()
        for member in self.members:
            member.connect()
        for member in self.members:
            member.send_sync(plan if member is self.leader else None)
        dead = self.kill()
        for member in self.members:
            member.drop_connection()
        self.sync(plan)
        self.alive_in(generation)
        return dead

    def dispose(self) -> None:
        for member in self.members:
            member.drop_connection()


@pytest.fixture
def surroundings(cluster: MusterCluster, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Everything that goes on around the kills."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics(
        [NewTopic("load", 3, -1), NewTopic("idem", 2, -1)], operation_timeout=20
    ).values():
        future.result(20)
    with ExitStack() as stack:
        members = []
        for client in ("librdkafka", "java", "aiokafka"):
            member = Member(
                client,
                bootstrap=cluster.bootstrap,
                group="mixed",
                topics=["load"],
                assignors=["range"],
                session_ms=45_000,
                poll_ms=60_000,
                auto_commit_ms=500,
                reset="earliest",
            )
            stack.callback(member.dispose)
            members.append(member)
        members[0].wait("one partition each", lambda _: all(len(m.assigned) == 1 for m in members), 60)
        commits = [CommitLoad(cluster.bootstrap, f"load-{n}", "load") for n in range(6)]
        reader = OffsetsTopicReader(cluster.bootstrap, PARTITIONS)
        producer = LibrdkafkaProducerLoad(cluster.bootstrap, "idem", 0)
        for load in (*commits, reader, producer):
            load.start()
            stack.callback(load.ended.set)
        java = JavaProducerLoad(cluster.bootstrap, "idem", 1)
        stack.callback(java.dispose)
        console = ConsoleReader(cluster.bootstrap, tmp_path / "console.txt")
        stack.callback(console.dispose)
        yield {
            "members": members,
            "commits": commits,
            "reader": reader,
            "producer": producer,
            "java": java,
            "console": console,
        }


def test_forty_kills_and_one_of_all(cluster: MusterCluster, surroundings: dict[str, Any]) -> None:
    members: list[Member] = surroundings["members"]
    mixed = generation_of(cluster, "mixed")
    subject = Subject(cluster, "subject")
    subject.rejoin()
    subject.sync(subject.plan())
    moments = (
        subject.killed_while_stable,
        subject.killed_while_preparing,
        subject.killed_before_sync,
        subject.killed_during_sync,
    )
    for moment, _ in itertools.product(moments, range(KILLS_PER_MOMENT)):
        dead = moment()
        cluster.start_replica(dead)
        wait_until("it follows all groups again", lambda dead=dead: caught_up(cluster, dead), 30)  # type: ignore[misc]

    generation = subject.leader.generation
    for replica in range(3):
        cluster.kill(replica)
    for replica in range(3):
        cluster.start_replica(replica, wait_ready=False)
    for replica in range(3):
        cluster.wait_ready(replica)
    subject.alive_in(generation)
    subject.dispose()

    for load in (*surroundings["commits"], surroundings["producer"], surroundings["java"]):
        load.finish()
    for load in surroundings["commits"]:
        load.verify()
    check_records(cluster, surroundings)
    check_offsets_topic(cluster, surroundings)
    assert generation_of(cluster, "mixed") == mixed, "a stable group of real clients was rebalanced"
    for member in members:
        errors = [e for e in member.events if e["e"] == "error" and "OUT_OF_RANGE" in str(e["error"]).upper()]
        assert not errors
        assert len(member.assigned) == 1


def caught_up(cluster: MusterCluster, replica: int) -> bool:
    """The replica knows a leader of every group and has applied what that leader had committed."""
    return cluster.probe(replica, "/readyz") == 200


def check_records(cluster: MusterCluster, surroundings: dict[str, Any]) -> None:
    for partition, sent in ((0, surroundings["producer"].sent), (1, surroundings["java"].sent)):
        assert sent > 0
        assert records_of(cluster.bootstrap, "idem", partition) == [str(n) for n in range(sent)], "each once, in order"


def check_offsets_topic(cluster: MusterCluster, surroundings: dict[str, Any]) -> None:
    reader: OffsetsTopicReader = surroundings["reader"]
    busy = partition_of("load-0", PARTITIONS)
    wait_until("the reader is at the end", lambda: reader.failure or reader.next[busy] > 0, 10)
    reader.finish()
    console: ConsoleReader = surroundings["console"]
    wait_until("the console has printed", lambda: len(console.seen().get(busy, ())) >= reader.next[busy], 30, 0.5)
    console.dispose()
    assert console.verify() > 0


def generation_of(cluster: MusterCluster, group: str) -> int:
    """A machine that stood still for seconds has no leaders for a moment."""

    def told() -> int | None:
        for replica in range(3):
            code, body = cluster.admin(replica, f"/v1/groups/{group}")
            if code == 200:
                return int(body["generation"])
        return None

    return int(wait_until(f"a coordinator of {group}", told, 10))
