"""Three replicas replaced one at a time by today's release, and back, while clients go on.

Nothing that was acknowledged is lost, and nobody in a stable group is rebalanced.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import CommitLoad, LibrdkafkaProducerLoad, Load, records_of
from tests.releases.life import Life, more_life
from tests.releases.oracle import Oracle, check
from tests.releases.release import Release
from tests.releases.running import levels, replace, start

MIXED_S = 60 if os.environ.get("MUSTER_ROLLING") == "whole" else 0
"""How long both releases serve beside each other at least, with clients attached (`make rolling`, in the nightly)."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300 + 2 * MIXED_S)]

COMMITTERS = 4
AHEAD_COMMITS = 80
INSTALLED, SENT = "muster_transfers_installed_total", "muster_transfer_sent_bytes_total"


class Clients:
    """A static group of librdkafka, commits, an idempotent producer."""

    def __init__(self, bootstrap: str, stack: ExitStack) -> None:
        self.members = []
        for n in range(2):
            member = Member(
                "librdkafka",
                bootstrap=bootstrap,
                group="rolled",
                instance=f"rolled-{n}",
                topics=["rolled"],
                session_ms=45_000,
                poll_ms=120_000,
                auto_commit_ms=200,
            )
            stack.callback(member.dispose)
            self.members.append(member)
        self.members[0].wait("one partition each", lambda _: all(len(m.assigned) == 1 for m in self.members), 60)
        self.commits = [CommitLoad(bootstrap, f"rolled-{n}", "rolled") for n in range(COMMITTERS)]
        self.producer = LibrdkafkaProducerLoad(bootstrap, "rolled", 0)
        self.loads: list[Load] = [*self.commits, self.producer]
        for load in self.loads:
            load.start()
            stack.callback(load.ended.set)

    def told(self) -> list[tuple[str, int, str]]:
        """Every assignment and its end, with generation and member id."""
        return [
            (str(e["e"]), int(e.get("generation", -1)), str(e.get("member", "")))
            for member in self.members
            for e in member.events
            if e["e"] in ("assigned", "revoked", "lost", "error")
        ]

    def go_on_for(self, seconds: float) -> None:
        """Each of them gets something done now, and again until the time is over."""
        until_s = time.monotonic() + seconds
        self.go_on()
        while time.monotonic() < until_s:
            time.sleep(1)
            self.go_on()

    def go_on(self) -> None:
        """Each of them gets something done now."""
        before = [load.acknowledged for load in self.commits]
        records = [len(member.records) for member in self.members]
        wait_until(
            "all commits go on",
            lambda: all(
                load.acknowledged > was or load.failure for load, was in zip(self.commits, before, strict=True)
            ),
            20,
        )
        wait_until("records arrive", lambda: sum(len(m.records) for m in self.members) > sum(records), 20)


@pytest.fixture
def rolled(cluster: MusterCluster, old: Release, known: Oracle) -> Iterator[Clients]:
    """The release of before on its folders, and clients of it."""
    start(cluster, old)
    Life(cluster.bootstrap, known).create("rolled", 2)
    with ExitStack() as stack:
        yield Clients(cluster.bootstrap, stack)


def test_a_roll_and_its_way_back_lose_nothing_and_rebalance_nobody(
    cluster: MusterCluster, old: Release, known: Oracle, rolled: Clients
) -> None:
    told = rolled.told()
    life = Life(cluster.bootstrap, known)

    def run_ahead() -> None:
        life.run_ahead("ahead", "rolled", AHEAD_COMMITS)

    replace(cluster, 0, None, run_ahead)
    wait_until("a snapshot of the release before is installed", lambda: metric(cluster, 0, INSTALLED) > 0, 20)
    more_life(cluster.bootstrap, known, 1)
    rolled.go_on_for(MIXED_S)
    for replica in (1, 2):
        rolled.go_on()
        replace(cluster, replica, None)
    check(cluster.bootstrap, known)
    assert levels(cluster) == {old.level}

    sent_bytes = {replica: metric(cluster, replica, SENT) for replica in (0, 2)}
    replace(cluster, 1, old, run_ahead)
    wait_until(
        "a snapshot goes to the release before",
        lambda: sum(metric(cluster, replica, SENT) - was for replica, was in sent_bytes.items()) > 0,
        20,
    )
    more_life(cluster.bootstrap, known, 2)
    for replica in (2, 0):
        rolled.go_on()
        replace(cluster, replica, old)
    rolled.go_on()
    check(cluster.bootstrap, known)
    assert levels(cluster) == {old.level}
    for load in rolled.loads:
        load.finish()
    for load in rolled.commits:
        load.verify()
    sent = rolled.producer.sent
    assert records_of(cluster.bootstrap, "rolled", 0) == [str(n) for n in range(sent)], "each once, in order"
    assert rolled.told() == told, "the static group was rebalanced"
    assert [member.ended() for member in rolled.members] == [None, None]


def metric(cluster: MusterCluster, replica: int, name: str) -> float:
    """Of today's release, since the replica's start."""
    found = re.search(rf"^{name} ([0-9.e+]+)$", cluster.metrics(replica), re.MULTILINE)
    assert found is not None
    return float(found[1])
