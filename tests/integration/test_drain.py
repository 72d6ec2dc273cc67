"""A replica is drained under load: leaderships move, nobody is rebalanced, nobody waits long."""

import math
import signal
import threading
import time
from pathlib import Path

import pytest
from muster_coordinator.replica.partitions.surface import partition_of

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_many_raft_groups import PARTITIONS, create_topic, leaders
from tests.raw_client import Disconnected, RawClient
from tests.raw_group import NONE, NOT_COORDINATOR, RawMember, commit, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.quiet, pytest.mark.timeout(180)]

GROUPS = 24
PAUSE_P99_S = 0.150
EVERY_S = 0.05
QUIET_S = 2.0


class Follower(threading.Thread):
    """Commits for one group and follows its coordinator at once; notes every answer and every pause."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(name=group, daemon=True)
        self.bootstrap, self.group = bootstrap, group
        self.ended = threading.Event()
        self.codes: set[int] = set()
        self.pauses: list[tuple[float, float]] = []
        """(asked at, answered at) of every commit that was taken in the end."""
        self.good = 0
        self.disconnects = 0

    def run(self) -> None:
        clients: dict[int, RawClient] = {}
        port = find_coordinator(self.bootstrap, self.group)[2]
        while not self.ended.wait(EVERY_S):
            begun = time.monotonic()
            while not self.ended.is_set():
                try:
                    client = clients.get(port) or clients.setdefault(port, RawClient("127.0.0.1", port, timeout_s=10))
                    code = commit(client, self.group, "drained", {0: self.good})[0]
                    self.codes.add(code)
                except Disconnected:
                    self.disconnects += 1
                    clients.pop(port, None)
                    code = NOT_COORDINATOR
                if code == NONE:
                    self.good += 1
                    self.pauses.append((begun, time.monotonic()))
                    break
                port = find_coordinator(self.bootstrap, self.group)[2]
        for client in clients.values():
            client.close()

    def longest(self, since: float, until: float) -> float:
        """Of the commits that were under way in this time."""
        return max((end - begun for begun, end in self.pauses if end > since and begun < until), default=0.0)


def followers_of(cluster: MusterCluster, replica: int) -> list[Follower]:
    """Groups on partitions that `replica` leads now."""
    led = [p for p, (leader, _) in leaders(cluster, replica).items() if leader == replica]
    names = []
    for partition in led[:GROUPS]:
        names.append(next(f"f{n}" for n in range(10_000) if partition_of(f"f{n}", PARTITIONS) == partition))
    elsewhere = ",".join(f"127.0.0.1:{cluster.client_port(n)}" for n in range(3) if n != replica)
    return [Follower(elsewhere, name) for name in names]


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def quiet(followers: list[Follower]) -> float:
    """Let the commits flow; when the time began in which nothing else happens."""
    for one in followers:
        one.start()
    wait_until("commits flow", lambda: all(one.good > 2 for one in followers), 20)
    began = time.monotonic()
    time.sleep(QUIET_S)
    return began


def check(followers: list[Follower], quiet_since: float, drain_since: float) -> None:
    """What the drain adds to the longest wait of each group, which on a busy machine is long without it, too."""
    for one in followers:
        one.ended.set()
    for one in followers:
        one.join(30)
        assert one.codes <= {NONE, NOT_COORDINATOR}, f"{one.group} was told {one.codes}"
        assert one.good > 0
    before = percentile([one.longest(quiet_since, drain_since) for one in followers], 0.99)
    during = [one.longest(drain_since, math.inf) for one in followers]
    told = f"pauses per group: {sorted(round(p, 3) for p in during)[-5:]}, without a drain {before:.3f}"
    assert percentile(during, 0.99) <= PAUSE_P99_S + before, told


def test_drain_and_undrain_by_the_admin_port(cluster: MusterCluster) -> None:
    create_topic(cluster, "drained")
    member = RawMember(cluster.bootstrap, "stable", session_ms=45_000)
    member.join()
    member.sync({member.member: b"kept"})
    replica = find_coordinator(cluster.bootstrap, "stable")[0]
    followers = followers_of(cluster, replica)
    quiet_since = quiet(followers)
    drain_since = time.monotonic()
    code, body = cluster.admin(replica, "/v1/drain", post={})
    assert code in (200, 202), body
    wait_until("it is drained", lambda: cluster.status(replica)["drain"]["phase"] == "drained", 30)
    wait_until("it leads nothing", lambda: cluster.status(replica)["leaderships"] == 0, 10)
    assert cluster.status(replica)["draining"]
    time.sleep(0.5)
    check(followers, quiet_since, drain_since)
    member.drop_connection()
    assert member.heartbeat() == NONE, "the generation changed"
    member.drop_connection()
    assert cluster.admin(replica, "/v1/undrain", post={})[0] == 200
    wait_until("the mark is gone", lambda: not cluster.status(replica)["draining"], 10)


def test_sigterm_drains_and_a_restart_leads_again(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "term") as cluster:
        create_topic(cluster, "drained")
        replica = 1
        followers = followers_of(cluster, replica)
        quiet_since = quiet(followers)
        drain_since = time.monotonic()
        cluster.kill(replica, signal.SIGTERM)
        wait_until("it is gone", lambda: cluster.probe(replica, "/livez") == 0, 30)
        time.sleep(0.5)
        check(followers, quiet_since, drain_since)
        cluster.start_replica(replica)
        wait_until(
            "it has its leaderships back", lambda: cluster.status(replica)["leaderships"] >= PARTITIONS // 3, 60, 0.5
        )


def test_a_single_replica_stops_at_once(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "one", replicas=1) as cluster:
        begun = time.monotonic()
        assert cluster.stop() == 0
        assert time.monotonic() - begun < 5
