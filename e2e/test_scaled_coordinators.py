"""`kubectl scale` of a cluster while real clients commit: brokers join, hand over what they hold, and leave.

That nobody noticed is shown by what the clients were answered, by the generations of their groups, and by what is
stored at the end; that nobody was taken away who held anything, by the words of the coordinators.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from e2e.commit_load import KafkaPython, Librdkafka, committing
from e2e.fleet import Cluster, condition, is_ready, until
from e2e.node.client import Client
from e2e.test_coordinators import uids

pytestmark = pytest.mark.timeout(900)

SCALED_S = 240.0
FOUNDERS = 3
MOST = 5


def scale(cluster: Cluster, replicas: int) -> None:
    cluster.client.kubectl("scale", f"cc/{cluster.name}", f"--replicas={replicas}")


def scaled(cluster: Cluster, replicas: int) -> None:
    """So many pods, all Ready, each a broker; the operator says so, and nothing else is left."""

    def holds() -> bool:
        pods, status = cluster.pods(), cluster.read().get("status", {})
        if len(pods) != replicas or not all(is_ready(pod) for pod in pods.values()):
            return False
        return status.get("brokers") == status.get("replicas") == replicas

    until(f"{replicas} coordinators", holds, SCALED_S, every=1.0)
    cluster.ready()
    assert condition(cluster.read(), "ScalingRefused")["status"] == "False"
    names = [f"data-{cluster.name}-{ordinal}" for ordinal in range(replicas)]

    def claims() -> bool:
        found = cluster.client.read("persistentvolumeclaims", f"--selector={cluster.selector}")["items"]
        return sorted(one["metadata"]["name"] for one in found) == names

    until("claims of no other coordinators", claims, 60)


def holders(cluster: Cluster) -> Mapping[int, int]:
    """Broker → replicas of Raft groups, the controller's left out, as the groups' leaders have them."""
    found: dict[int, int] = {}
    for ordinal in range(MOST):
        for one in cluster.admin(ordinal, "/v1/partitions")[1].get("partitions", ()):
            for voter in one["voters"] if one["role"] == "leader" and one["group"] else ():
                found[voter] = found.get(voter, 0) + 1
    return found


def test_five_four_three_under_commit_load(operator: Client, namespace: Client) -> None:
    """0 failed commits, 0 generation changes; the pods of the founders are the same at the end, and the claims of those
    that left are gone."""
    spec: dict[str, Any] = {
        "offsetsPartitions": 6,
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}},
        "config": {"muster.balancer.quiet.ms": 3000, "muster.decommission.redirect.ms": 2000},
    }
    cluster = replace(Cluster.create(namespace, **spec), replicas=MOST).ready()
    before = uids(cluster.pods())
    assert len(before) == FOUNDERS
    with committing(cluster, "load-scale") as load:
        scale(cluster, MOST)
        scaled(cluster, MOST)
        until("replicas on every coordinator", lambda: set(holders(cluster)) == set(range(MOST)), SCALED_S, every=1.0)
        print("of five:", holders(cluster))
        for replicas in (4, FOUNDERS):
            scale(cluster, replicas)
            scaled(cluster, replicas)
            print(f"of {replicas}:", holders(cluster))
            assert set(holders(cluster)) == set(range(replicas))
        load.check()
    assert uids(cluster.pods()) == before, "nobody was restarted"
    reasons = {one["reason"] for one in namespace.read("events.events.k8s.io")["items"]}
    assert "QuorumLost" not in reasons


def raised(cluster: Cluster, factor: int) -> None:
    """By the operator's word, and every group's leader has so many voters, the controller's too."""
    until(
        f"{factor} replicas", lambda: cluster.read()["status"].get("replicationFactor") == factor, SCALED_S, every=1.0
    )
    cluster.ready()
    voters = {
        one["group"]: len(one["voters"])
        for ordinal in range(cluster.replicas)
        for one in cluster.admin(ordinal, "/v1/partitions")[1].get("partitions", ())
        if one["role"] == "leader"
    }
    assert 0 in voters, "the controller's"
    assert set(voters.values()) == {factor}, voters


WAITS_FOR_ITS_PLACE = (
    "was formed before, and this data folder is empty",
    "this replica was emptied and stays out",
)
"""What it says while nobody answers it (ADR 103), and once somebody does."""


def test_one_coordinator_grows_to_five_and_its_disk_is_lost(operator: Client, namespace: Client) -> None:
    """From one copy of real data to three and to five of everything, while clients commit; then the founder's volume
    and process go at once. No record and no acknowledged offset is lost."""
    spec: dict[str, Any] = {
        "offsetsPartitions": 3,
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}},
        "config": {"muster.balancer.quiet.ms": 3000},
    }
    cluster = replace(Cluster.create(namespace, replicas=1, **spec), replicas=MOST).ready()
    values = [f"record-{number}" for number in range(300)]
    cluster.create_topic("kept", 3)
    cluster.produce("kept", values)
    founder = uids(cluster.pods())
    with committing(cluster, "load-grow", (Librdkafka, Librdkafka, KafkaPython)) as load:
        for factor in (FOUNDERS, MOST):
            scale(cluster, factor)
            namespace.kubectl(
                "patch", "cc/main", "--type=merge", "--patch", f'{{"spec":{{"replicationFactor":{factor}}}}}'
            )
            scaled(cluster, factor)
            raised(cluster, factor)
            print(f"{factor} replicas:", cluster.read()["status"].get("replication"))
        assert founder.items() <= uids(cluster.pods()).items(), "nobody was restarted for it"
        load.check()
    namespace.kubectl("delete", "pvc", "data-main-0", "--wait=false")
    namespace.kubectl("delete", "pod", "main-0", "--grace-period=0", "--force")
    assert sorted(value for _, value in cluster.records("kept")) == sorted(values)
    load.nothing_lost()
    until("the founder's new folder", lambda: uids(cluster.pods()).keys() == {f"main-{n}" for n in range(MOST)}, 120)
    until("the founder is a part of it again", lambda: is_ready(cluster.pods()["main-0"]), SCALED_S, every=1.0)
    cluster.ready(SCALED_S)
    log = namespace.kubectl("logs", "main-0")
    assert any(waits in log for waits in WAITS_FOR_ITS_PLACE), log
    assert '"term": 1}' not in log, log
    assert sorted(value for _, value in cluster.records("kept")) == sorted(values)
