"""The operator dies at any time, has a twin, or is away: what becomes of the fleet, and what it costs the API server.

A crash at *every* request is `test_operator_crashes`; an idle fleet is `test_operator_process`. Here the process is
killed for real, on a real node, while real pods start and stop.
"""

import itertools
import json
import os
import re
import signal
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from e2e.audit import Audit
from e2e.commit_load import committing
from e2e.cut import process_of
from e2e.fleet import Cluster, Group, condition, is_ready, until
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.watching import PodWatch, watching

pytestmark = pytest.mark.timeout(600)

DEPLOYMENT = "deployment/muster-operator"
LEASE = "muster-operator"
LABELS = "app.kubernetes.io/component=operator"
TAKEOVER_S = 20.0
CHILDREN = "statefulsets,services,configmaps,poddisruptionbudgets,networkpolicies,serviceaccounts"
VARYING = frozenset({"clusterIP", "clusterIPs", "nodePort", "muster.dev/restarted-at", "muster.dev/manifest-hash"})
HASH = r'(-config-|"muster.dev/config-hash": ")[0-9a-z]+'
"""Of a text with the namespace in it."""
BAND_HELD_S = 60.0
AT_ONCE_S = 3.0


def operator_pods(operator: Client) -> dict[str, dict[str, Any]]:
    found = operator.read("pods", f"--selector={LABELS}")["items"]
    return {one["metadata"]["name"]: one for one in found}


def holder(operator: Client) -> str:
    """Who acts: the name of its pod. A process that was restarted in its pod goes on under the same name."""
    return str(operator.read("lease", LEASE)["spec"].get("holderIdentity") or "")


def killed(pod: str) -> float:
    """SIGKILL of the process in that pod; when it was dead, since the epoch."""
    os.kill(process_of(pod), signal.SIGKILL)
    return time.time()


def taken_over(operator: Client, killed_s: float, seconds: float = 60.0) -> str:
    """Wait until a process has renewed the Lease since, which the dead one does not; the name of its pod."""

    def renewed() -> str:
        spec = operator.read("lease", LEASE)["spec"]
        renewed_s = datetime.fromisoformat(spec["renewTime"]).timestamp()
        return str(spec["holderIdentity"] or "") if renewed_s > killed_s else ""

    return until("operator that acts", renewed, seconds)


def discard(operator: Client, pod: str) -> None:
    """The pod goes, without any grace; a new one gets another name."""
    operator.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")


def successor_of(operator: Client, pod: str) -> str:
    """Wait until another pod's process acts; its name."""
    return until(f"successor of {pod}", lambda: (now := holder(operator)) != pod and now, 60) or ""


def children(client: Client, instance: str) -> dict[str, str]:
    """What an object of ours has made: kind and name → the whole, without what differs from run to run."""
    found = {}
    for one in client.read(CHILDREN, f"--selector=app.kubernetes.io/instance={instance}")["items"]:
        meta = {key: one["metadata"].get(key) or {} for key in ("name", "labels", "annotations")}
        body = {key: value for key, value in one.items() if key not in ("metadata", "status")}
        text = json.dumps(without({"metadata": meta, **body}), sort_keys=True, indent=1)
        for word, stands_for in ((client.namespace, "NAMESPACE"), (instance, "NAME")):
            text = re.sub(rf"\b{word}\b", stands_for, text)
        text = re.sub(HASH, r"\1HASH", text)
        text = re.sub(r'("cluster-id": )"[A-Za-z0-9_-]{22}"', r'\1"ID"', text)
        found[f"{one['kind']} {json.loads(text)['metadata']['name']}"] = text
    return found


def without(value: Any) -> Any:
    """The same, without the members that VARYING names."""
    if isinstance(value, dict):
        return {key: without(one) for key, one in value.items() if key not in VARYING}
    return [without(one) for one in value] if isinstance(value, list) else value


def test_killed_while_a_cluster_is_made_and_while_it_is_restarted(
    operator: Client, shared: Cluster, node: Description, namespace: Client
) -> None:
    """Killed at the first child, in a drain, and while a pod is away: what an undisturbed operator makes is what there
    is in the end, nothing is restarted twice, and no commit is lost."""
    leader = holder(operator)
    cluster = Cluster.create(namespace, **shared.read()["spec"])
    until("first child", lambda: children(namespace, cluster.name), 30, every=0.1)
    leader = taken_over(operator, killed(leader))
    cluster.ready()
    assert children(namespace, cluster.name) == children(shared.client, shared.name)

    audit = Audit.now(node)
    with committing(cluster, "load-kills") as load, watching(namespace, cluster.selector) as pods:
        namespace.plugin("restart", f"cc/{cluster.name}", "--no-wait")
        until("a drain", lambda: any(is_draining(cluster, ordinal) for ordinal in range(3)), 60, every=0.1)
        leader = taken_over(operator, killed(leader))
        until("the second pod that stops", lambda: len(pods.stopped()) == 2, 120, every=0.1)
        discard(operator, leader)
        leader = successor_of(operator, leader)
        until("the third pod that stops", lambda: len(pods.stopped()) == 3, 120)
        until("three coordinators", lambda: three_ready(pods), 120)
        cluster.ready()
        load.check()
    assert pods.unavailable_max(3) == 1
    assert sorted(pods.gone()) == sorted(audit.evictions(namespace.namespace)) == ["main-0", "main-1", "main-2"]
    assert len([one for one in pods.events if one.type == "DELETED"]) == 3, "each was restarted once"
    assert children(namespace, cluster.name) == children(shared.client, shared.name)


def is_draining(cluster: Cluster, ordinal: int) -> bool:
    status, body = cluster.admin(ordinal, "/v1/status")
    return status == 200 and body["drain"]["phase"] != "idle"


def three_ready(watch: PodWatch) -> bool:
    pods = watch.now()
    return len(pods) == 3 and all(is_ready(pod) for pod in pods.values())


def test_killed_while_a_group_is_scaled(operator: Client, group: Callable[..., Group]) -> None:
    """The successor removes the members whose pods went while nobody looked, long before their sessions end."""
    mine = group(replicas=3, session_s=60)
    undisturbed = {name: text.replace('"replicas": 3', '"replicas": 2') for name, text in of_group(mine).items()}
    leader = holder(operator)
    mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=5")
    until("a fourth pod", lambda: len(mine.pods()) > 3, 60)
    leader = taken_over(operator, killed(leader))
    mine.stable(5)
    with watching(mine.client, mine.selector) as pods:
        mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=2")
        until("an order to stop", pods.stopped, 60, every=0.05)
        discard(operator, leader)
        gone_s = max(until("end of three pods", lambda: len(pods.gone()) == 3 and pods.gone(), 60).values())
        _, owned_s = mine.stable_at(2)
    assert owned_s - gone_s < 45, "below the session timeout of 60 s"
    assert of_group(mine) == undisturbed
    mine.produce(200)
    mine.all_seen()


def of_group(mine: Group) -> dict[str, str]:
    return children(mine.client, mine.name)


def test_of_two_one_acts_and_the_other_takes_over(
    operator: Client, node: Description, group: Callable[..., Group]
) -> None:
    operator.kubectl("scale", DEPLOYMENT, "--replicas=2")
    try:
        operator.kubectl("rollout", "status", DEPLOYMENT, "--timeout=90s", timeout_s=100)
        audit = Audit.now(node)
        mine = group(replicas=1)
        first = holder(operator)
        assert {one.by for one in audit.writes()} == {first}
        audit = Audit.now(node)
        killed_s = killed(first)
        discard(operator, first)
        successor = successor_of(operator, first)
        took_s = time.time() - killed_s
        print(f"takeover {took_s:.1f} s after the kill")
        assert took_s <= TAKEOVER_S
        mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=2")
        mine.stable(2)
        assert {one.by for one in audit.writes()} == {successor}
    finally:
        operator.kubectl("scale", DEPLOYMENT, "--replicas=1")
        until("one operator", lambda: len(operator_pods(operator)) == 1, 60)
        until("its Lease", lambda: holder(operator) in operator_pods(operator), 60)


def test_lag_alone_is_written_when_its_band_has_held_and_news_at_once(
    operator: Client, node: Description, shared: Cluster
) -> None:
    """A group that only grows: committed once, nobody consumes, records come in all the while."""
    name, client = "cadence", shared.client
    shared.create_topic(name, 1)
    committed = Consumer({"bootstrap.servers": shared.bootstrap, "group.id": name, "enable.auto.commit": False})
    committed.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
    committed.close()
    spec = {"clusterRef": {"name": shared.name}, "groupId": name, "topics": [name]}
    body = {"apiVersion": "muster.dev/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": name}, "spec": spec}
    client.apply(body)
    try:
        until("a status with lag", lambda: client.read("cg", name).get("status", {}).get("lag") is not None, 30)
        audit = Audit.now(node)

        def writes() -> list[float]:
            return [one.at_s for one in audit.writes() if one.resource == "consumergroups/status" and one.name == name]

        records = itertools.count()

        def two_writes() -> bool:
            shared.produce(name, [str(next(records)) for _ in range(5)])
            return len(writes()) >= 2

        until("two writes of the status", two_writes, 420, every=0.5)
        gaps = [later - earlier for earlier, later in itertools.pairwise(writes())]
        print(f"lag alone was written after {[round(gap, 1) for gap in gaps]} s")
        assert min(gaps) > BAND_HELD_S - 1
        asked_s = time.time()
        client.kubectl("patch", "cg", name, "--type=merge", '--patch={"spec":{"paused":true}}')
        until("another write", lambda: writes()[-1] > asked_s, AT_ONCE_S + 5)
        news_s = writes()[-1]
        print(f"news was written {news_s - asked_s:.1f} s after it was made, {news_s - writes()[-2]:.1f} s after lag")
        assert news_s - asked_s < AT_ONCE_S
        assert condition(client.read("cg", name), "Paused").get("status") == "True"
    finally:
        client.kubectl("delete", "cg", name)


def test_consumers_roll_while_no_operator_runs(operator: Client, group: Callable[..., Group]) -> None:
    """Pods and their ids are Kubernetes' own: without the operator a roll costs no rebalance either."""
    mine = group()
    before, pods = mine.stable(3), mine.pods()
    operator.kubectl("scale", DEPLOYMENT, "--replicas=0")
    try:
        until("end of the operator", lambda: not operator_pods(operator), 60)
        mine.client.kubectl("rollout", "restart", f"statefulset/{mine.name}")
        mine.replaced(pods)
        rolled = mine.pods()
        mine.produce(200)
        mine.all_seen()
        assert mine.stable(3) == before
        mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=2")
    finally:
        operator.kubectl("scale", DEPLOYMENT, "--replicas=1")
    operator.kubectl("rollout", "status", DEPLOYMENT, "--timeout=90s", timeout_s=100)
    after = mine.stable(2)
    print(f"{mine.name}: generation {before} before the roll and after it, {after} after the scale-down that waited")
    assert after == before + 1
    uid = {name: pod["metadata"]["uid"] for name, pod in mine.pods().items()}
    assert uid == {name: rolled[name]["metadata"]["uid"] for name in uid}, "the roll is not undone or done again"
    until("calm", lambda: condition(mine.read(), "Progressing").get("status") == "False", 60)
