"""Every offsets partition is a Raft group: leaders spread, terms move one by one, FindCoordinator follows."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from muster_coordinator.replica.partitions.surface import partition_of

from tests.cluster import MusterCluster, wait_until
from tests.raw_client import RawClient, request
from tests.raw_group import FIND, NONE, commit, fetch, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PARTITIONS = 50


def leaders(cluster: MusterCluster, replica: int) -> dict[int, tuple[int | None, int]]:
    """Offsets partition → (leader, term) as `replica` sees it."""
    code, body = cluster.admin(replica, "/v1/partitions")
    assert code == 200
    return {p["partition"]: (p["leader"], p["term"]) for p in body["partitions"] if p["topic"] == "__consumer_offsets"}


def group_on(partition: int) -> str:
    return next(f"g{n}" for n in range(10_000) if partition_of(f"g{n}", PARTITIONS) == partition)


def coordinator_by(cluster: MusterCluster, replica: int, group: str) -> int | None:
    with RawClient("127.0.0.1", cluster.client_port(replica), timeout_s=5) as client:
        answer = client.call(request(FIND, 3, key=group, key_type=0))
    return int(answer.node_id) if int(answer.error_code) == NONE else None


def test_a_fresh_cluster_spreads_fifty_leaders_each_with_a_term_of_its_own(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "fresh") as cluster:
        seen = leaders(cluster, 0)
    assert sorted(seen) == list(range(PARTITIONS))
    assert sorted(Counter(leader for leader, _ in seen.values()).values()) == [16, 17, 17]
    assert {term for _, term in seen.values()} == {1}, "each was elected once, in a term of its own"


def test_one_step_down_moves_one_partition_and_no_other(cluster: MusterCluster) -> None:
    before = leaders(cluster, 0)
    moved = 7
    old = before[moved][0]
    assert old is not None
    stop = threading.Event()
    failures: list[str] = []
    commits = Counter[int]()

    def flow(partition: int) -> None:
        group = group_on(partition)
        _, host, port = find_coordinator(cluster.bootstrap, group)
        n = 0
        with RawClient(host, port, timeout_s=10) as client:
            while not stop.is_set():
                n += 1
                codes = commit(client, group, "flow", {0: n})
                if codes != {0: NONE}:
                    failures.append(f"partition {partition}: {codes}")
                    return
                commits[partition] += 1
                time.sleep(0.05)

    create_topic(cluster, "flow")
    others = [p for p in range(PARTITIONS) if p != moved]
    threads = [threading.Thread(target=flow, args=(p,)) for p in others]
    for thread in threads:
        thread.start()
    try:
        wait_until("all partitions commit", lambda: len(commits) == PARTITIONS - 1, 20)
        code, body = cluster.admin(old, "/v1/transfer", post={"partition": moved})
        assert code == 200, body
        counted = Counter(commits)
        for replica in range(3):
            wait_until(
                f"replica {replica} names the new leader",
                lambda replica=replica: coordinator_by(cluster, replica, group_on(moved)) == body["leader"],  # type: ignore[misc]
                1,
            )
        wait_until("commits went on everywhere", lambda: all(commits[p] > counted[p] for p in others), 10)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    after = leaders(cluster, 0)
    assert after[moved][0] == body["leader"] != old
    assert after[moved][1] > before[moved][1]
    assert {p: after[p] for p in others} == {p: before[p] for p in others}


def test_find_coordinator_names_the_raft_leader_from_every_replica(cluster: MusterCluster) -> None:
    seen = leaders(cluster, 1)
    for partition in range(PARTITIONS):
        for replica in range(3):
            assert coordinator_by(cluster, replica, group_on(partition)) == seen[partition][0]


def test_a_commit_is_read_back_from_its_coordinator_and_refused_elsewhere(cluster: MusterCluster) -> None:
    create_topic(cluster, "flow")
    group = group_on(3)
    broker, host, port = find_coordinator(cluster.bootstrap, group)
    with RawClient(host, port) as client:
        assert commit(client, group, "flow", {0: 41}, metadata="m") == {0: NONE}
        assert fetch(client, group, "flow", [0]) == {0: (41, "m", NONE)}
    other = next(n for n in range(3) if n != broker)
    with RawClient("127.0.0.1", cluster.client_port(other)) as client:
        assert commit(client, group, "flow", {0: 42}) == {0: 16}


def create_topic(cluster: MusterCluster, name: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    if name not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(name, 1, -1)], operation_timeout=20)[name].result(20)
    wait_until("the topic is led", lambda: name in admin.list_topics(timeout=5).topics, 20)
