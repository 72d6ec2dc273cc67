"""Coordinators and consumers on three nodes, of which one is drained, frozen or lost.

One node cannot show any of this: where the pods of a cluster are put, what happens to them when a node is taken out of
service in good order, and that neither a silent node nor a dead one is ever taken for members that have left. Members
are gone when their session times out, and by nothing else.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from e2e.audit import Audit
from e2e.commit_load import CommitLoad, Librdkafka, committing
from e2e.fleet import OPERATOR_NAMESPACE, Cluster, Group, condition, is_ready, throughout, until
from e2e.kind import machines
from e2e.kind.configuration import CONTROL_PLANE
from e2e.node.client import Client, Refused
from e2e.node.session import Description
from e2e.test_lost_volumes import REPLACED_S, recorded, whole_again
from e2e.watching import watching

pytestmark = pytest.mark.timeout(540)

RESTART_S = 45
"""Kafka's default session timeout: a pod that is replaced is back before it on a busy machine, too."""
FROZEN_S = 12.0
LOSS_SESSION_S = 75
"""Longer than Kubernetes takes to call a lost node NotReady (50 s)."""
LATE_S = 15.0
"""How much later than the session timeout an expulsion may be seen: the next coordinator starts sessions anew."""
HEALED_S = 180.0
COMMITS_ON = 10
"""Commits that each client must have had acknowledged since it was last asked."""


def nodes_of(pods: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Pod name → node, without those that have none."""
    return {name: pod["spec"]["nodeName"] for name, pod in pods.items() if "nodeName" in pod["spec"]}


def on(node: str, pods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [name for name, at in nodes_of(pods).items() if at == node]


def workers(nodes: Description) -> list[str]:
    return [name for name in nodes.nodes if name != CONTROL_PLANE]


def node_is(nodes: Description, name: str, status: str) -> bool:
    """Whether the API's Ready condition of a node has `status`: True, False, or Unknown when it is not heard."""
    return condition(nodes.client().read("node", name), "Ready").get("status") == status


@pytest.fixture
def spread(shared: Cluster, nodes: Description) -> Iterator[dict[str, str]]:
    """Node → its coordinator; afterwards every node is on, in service and Ready again."""
    shared.ready()
    yield {node: pod for pod, node in nodes_of(shared.pods()).items()}
    for name in nodes.nodes:
        match machines.status(name):
            case "paused":
                machines.unpause(name)
            case "exited":
                machines.start(name)
        nodes.client().kubectl("uncordon", name)
        until(f"Ready node {name}", lambda name=name: node_is(nodes, name, "True"), HEALED_S)  # type: ignore[misc]
    shared.ready(HEALED_S)


def acknowledged(load: CommitLoad) -> dict[str, int]:
    return {one.group: sum(one.acknowledged.values()) for one in load.loads}


def until_more_commits(load: CommitLoad, groups: set[str], seconds: float) -> None:
    """Wait until each of `groups` has had COMMITS_ON more commits acknowledged than it has now."""
    before = acknowledged(load)

    def more() -> bool:
        now = acknowledged(load)
        return all(now[group] >= before[group] + COMMITS_ON for group in groups)

    until(f"commits of {', '.join(sorted(groups))}", more, seconds)


def test_a_coordinator_a_node_with_its_volume(spread: dict[str, str], shared: Cluster, nodes: Description) -> None:
    assert spread.keys() == nodes.nodes.keys()
    for node, pod in spread.items():
        claim = shared.client.read("pvc", f"data-{pod}")["spec"]["volumeName"]
        required = shared.client.read("persistentvolume", claim)["spec"]["nodeAffinity"]["required"]
        (term,) = required["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]


def evict(shared: Cluster, pod: str) -> None:
    """Ask for it; `Refused` when a budget forbids it."""
    eviction = f'{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{pod}"}}}}'
    path = f"/api/v1/namespaces/{shared.client.namespace}/pods/{pod}/eviction"
    shared.client.kubectl("create", f"--raw={path}", "--filename=-", given=eviction)


def test_a_drained_node(
    spread: dict[str, str], shared: Cluster, group: Callable[..., Group], nodes: Description
) -> None:
    """Consumers move and stay members; the coordinator waits for its volume's node; the other two serve."""
    mine = group(replicas=3, session_s=RESTART_S)
    generation = mine.stable(3)
    node = next(name for name in workers(nodes) if on(name, mine.pods()))
    coordinator, moved = spread[node], on(node, mine.pods())
    with committing(shared, "load-drain") as load, watching(shared.client, shared.selector) as pods:
        limits = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s")
        print(nodes.client().kubectl("drain", node, *limits, timeout_s=160))
        assert on(node, mine.pods()) == []

        def elsewhere() -> bool:
            now = mine.pods()
            return all(name in now and is_ready(now[name]) for name in moved)

        until(f"{', '.join(moved)} on other nodes", elsewhere, 60)

        def pending() -> dict[str, Any] | None:
            pod = shared.pods().get(coordinator)
            scheduled = condition(pod, "PodScheduled") if pod is not None else {}
            return dict(scheduled) if scheduled.get("reason") == "Unschedulable" else None

        said = until(f"{coordinator} that waits for its node", pending, 60)
        assert said["status"] == "False"
        print(f"{coordinator}: {said['message']}")
        for other in spread.values():
            if other != coordinator:
                with pytest.raises(Refused, match="disruption budget"):
                    evict(shared, other)
        assert condition(shared.read(), "QuorumAvailable").get("status") == "True"
        until_more_commits(load, {one.group for one in load.loads}, 60)
        mine.produce(100)
        nodes.client().kubectl("uncordon", node)
        shared.ready(HEALED_S)
        load.check()
    assert pods.unavailable_max(3) == 1
    assert nodes_of(shared.pods())[coordinator] == node
    assert mine.stable(3) == generation, "static members that moved"
    mine.all_seen()


def test_a_node_frozen_for_less_than_the_session_timeout(
    spread: dict[str, str], shared: Cluster, group: Callable[..., Group], nodes: Description
) -> None:
    """Nothing is declared gone: no member, no pod, no node. The frozen members go on where they were."""
    mine = group(replicas=3, session_s=RESTART_S)
    generation = mine.stable(3)
    node = next(name for name in workers(nodes) if on(name, mine.pods()))
    frozen, before = on(node, mine.pods()), mine.pods()
    audit = Audit.now(nodes)
    with committing(shared, "load-freeze") as load, watching(mine.client, mine.selector) as consumers:
        machines.pause(node)
        began_s = time.monotonic()
        try:
            looks = 0
            while time.monotonic() < began_s + FROZEN_S:
                truth = mine.truth()
                assert {one["instance"] for one in truth["members"]} == set(before), "somebody was taken for gone"
                assert truth["generation"] == generation
                looks += 1
        finally:
            machines.unpause(node)
        frozen_s = time.monotonic() - began_s
        assert frozen_s < RESTART_S, "the machine was too busy for this test"
        print(f"{node} with {spread[node]} and {', '.join(frozen)} was frozen for {frozen_s:.1f} s; {looks} looks")
        until_more_commits(load, {one.group for one in load.loads}, 60)
        mine.produce(100)
        assert mine.stable(3) == generation
        shared.ready()
        load.check()
    assert consumers.stopped() == {}
    assert audit.evictions(shared.client.namespace) == {}
    mine.all_seen()
    assert {name: one["metadata"]["uid"] for name, one in mine.pods().items()} == {
        name: one["metadata"]["uid"] for name, one in before.items()
    }


def coordinator_of(shared: Cluster, group_id: str) -> str:
    """The pod that coordinates a group now."""
    return f"{shared.name}-{shared.coordinator(group_id)}"


def test_a_lost_node(spread: dict[str, str], shared: Cluster, group: Callable[..., Group], nodes: Description) -> None:
    """The others serve; its member is gone at its session timeout and not before; with power it all comes back."""
    mine = group(replicas=3, session_s=LOSS_SESSION_S)
    generation = mine.stable(3)
    leader = coordinator_of(shared, mine.name)
    # A member whose own coordinator dies without a word needs a client's time-out to notice, which is another matter.
    node = next(name for name in workers(nodes) if on(name, mine.pods()) and spread[name] != leader)
    (lost,) = on(node, mine.pods())
    with committing(shared, "load-loss", (Librdkafka,) * 6, {"socket.timeout.ms": 6_000}) as load:
        untouched = {one.group for one in load.loads if coordinator_of(shared, one.group) != spread[node]}
        machines.kill(node)
        killed_s = time.monotonic()
        mine.produce(100)
        until_more_commits(load, untouched, 30)
        until("NotReady", lambda: node_is(nodes, node, "Unknown"), LOSS_SESSION_S - 10)
        notready_s = time.monotonic() - killed_s
        until_more_commits(load, {one.group for one in load.loads}, 30)

        def still_in() -> None:
            truth = mine.truth()
            assert lost in {one["instance"] for one in truth["members"]}, "taken for gone before its session timed out"
            assert truth["generation"] == generation

        throughout(killed_s + LOSS_SESSION_S - 5, still_in)
        assert "deletionTimestamp" not in mine.pods()[lost]["metadata"]
        until("expulsion", lambda: len(mine.truth()["members"]) == 2, 5 + LATE_S)
        gone_s = time.monotonic() - killed_s
        mine.stable(2)
        assert condition(shared.read(), "QuorumAvailable").get("status") == "True"
        mine.produce(100)
        mine.all_seen()
        print(f"{node} lost: NotReady after {notready_s:.0f} s, {lost} expelled after {gone_s:.0f} s")
        machines.start(node)
        until("Ready node", lambda: node_is(nodes, node, "True"), HEALED_S)
        assert machines.address(node) == nodes.nodes[node]
        shared.ready(HEALED_S)
        mine.stable(3, seconds=HEALED_S)
        until_more_commits(load, {one.group for one in load.loads}, 30)
        load.nothing_lost()
        failures = {one.group: one.failures for one in load.loads}
        print(f"untouched: {', '.join(sorted(untouched))}; failures {failures}")
        assert [failure for name in untouched for failure in failures[name]] == []
    mine.all_seen()


@pytest.mark.timeout(900)
def test_a_node_lost_with_its_volume(
    spread: dict[str, str], operator: Client, namespace: Client, nodes: Description
) -> None:
    """The machine stays away and its claim is deleted: the coordinator comes back on another node by itself, with full
    redundancy, while six real clients commit. Clients of the other coordinators see no failure; nothing is lost. The
    Node stays, tainted as unreachable, and keeps no place free."""
    cluster = Cluster.create(namespace, offsetsPartitions=3).ready()
    at = nodes_of(cluster.pods())
    there = nodes.client(OPERATOR_NAMESPACE).read("pods")["items"]
    busy = set(nodes_of({one["metadata"]["name"]: one for one in there}).values())
    node = min((name for name in workers(nodes) if name in at.values()), key=lambda name: name in busy)
    (pod,) = on(node, cluster.pods())
    lost = recorded(cluster, pod)
    with committing(cluster, "load-node", (Librdkafka,) * 6, {"socket.timeout.ms": 6_000}) as load:
        untouched = {one.group for one in load.loads if coordinator_of(cluster, one.group) != pod}
        assert untouched
        machines.kill(node)
        until("NotReady", lambda: node_is(nodes, node, "Unknown"), HEALED_S)
        namespace.kubectl("delete", "pvc", f"data-{pod}", "--wait=false")
        namespace.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        whole_again(cluster, pod, lost)
        cluster.ready(REPLACED_S)
        assert nodes_of(cluster.pods())[pod] != node
        until_more_commits(load, {one.group for one in load.loads}, 60)
        load.nothing_lost()
        failures = {one.group: one.failures for one in load.loads}
        print(f"untouched: {', '.join(sorted(untouched))}; failures {failures}")
        assert [failure for name in untouched for failure in failures[name]] == []
        alone = len(set(nodes_of(cluster.pods()).values())) == 3
        expected = ("True", "VotersSpread") if alone else ("False", "VotersOnOneNode")

        def told() -> bool:
            found = condition(cluster.read(), "SurvivesNodeLoss")
            return (found["status"], found["reason"]) == expected

        until(f"SurvivesNodeLoss {expected}", told, 60)
