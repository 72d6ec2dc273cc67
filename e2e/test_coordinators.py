"""Coordinators that are restarted, broken, healed and bereft, while real clients commit.

The claims are about what never happened in between, so they rest on records, not on looks: a watch of the pods, the
acknowledged commits of real clients, and what each coordinator said of itself just before it was told to stop.
"""

import importlib.metadata
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import pytest
from muster_operator.naming import ADMIN_PORT
from muster_operator.plugin.coordinators import TOKEN_FILE

from e2e.audit import Audit
from e2e.commit_load import committing
from e2e.fleet import Cluster, Group, condition, is_ready, until
from e2e.node.client import Client, Refused
from e2e.node.session import Description
from e2e.watching import watching

pytestmark = pytest.mark.timeout(420)

ROLLED_S = 300.0
SAMPLE_S = 0.1
CONFIG_KEY = "offsets.retention.minutes"
READ_SETTINGS = "print(open('/etc/muster/server.properties').read())"
"""For the image's Python: there is no `cat` in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    asked_s: float
    at_s: float
    """When it was asked, and when the answer came, since the epoch, as the audit log has it."""
    leaderships: int
    phase: str
    """Of its drain."""
    leads_controller: bool


@dataclass(slots=True, kw_only=True)
class Heard:
    """What each coordinator said of itself, again and again."""

    said: dict[str, list[Words]] = field(default_factory=dict)

    def before(self, pod: str, at_s: float) -> list[Words]:
        """What it said before `at_s`, the last words last."""
        earlier = [words for words in self.said.get(pod, []) if words.at_s < at_s]
        assert earlier, f"{pod} was never heard before it was stopped"
        return earlier

    def farewell(self, pod: str, at_s: float) -> list[Words]:
        """What it was asked after `at_s` and still answered. The next pod of that name begins with "idle"."""
        later = (words for words in self.said[pod] if words.asked_s > at_s)
        return list(takewhile(lambda words: words.phase != "idle", later))


@contextmanager
def listening(cluster: Cluster) -> Iterator[Heard]:
    """Asks every coordinator all the time."""
    found, ended = Heard(), threading.Event()

    def ask(ordinal: int) -> None:
        while not ended.wait(SAMPLE_S):
            asked_s = time.time()
            status, body = cluster.admin(ordinal, "/v1/status")
            if status == 200:
                words = Words(
                    asked_s=asked_s,
                    at_s=time.time(),
                    leaderships=body["leaderships"],
                    phase=body["drain"]["phase"],
                    leads_controller=body["controller"]["leader"] == ordinal,
                )
                found.said.setdefault(f"{cluster.name}-{ordinal}", []).append(words)

    cluster.token()
    threads = [threading.Thread(target=ask, args=(ordinal,), daemon=True) for ordinal in range(cluster.replicas)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        ended.set()
        for thread in threads:
            thread.join(10)


def uids(pods: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def by_plugin(cluster: Cluster) -> str:
    """Answers what the settings of every new pod hold."""
    cluster.client.plugin("restart", f"cc/{cluster.name}", "--no-wait")
    return "node.id="


def by_config(cluster: Cluster) -> str:
    """As `by_plugin`."""
    minutes = int(cluster.read()["spec"].get("config", {}).get(CONFIG_KEY, 10_080)) + 1
    patch(cluster, f'{{"config":{{"{CONFIG_KEY}":{minutes}}}}}')
    return f"{CONFIG_KEY}={minutes}"


def patch(cluster: Cluster, spec: str) -> None:
    """Merge into its spec."""
    cluster.client.kubectl("patch", "cc", cluster.name, "--type=merge", f'--patch={{"spec":{spec}}}')


@pytest.mark.parametrize("roll", [by_plugin, by_config], ids=["plugin", "config"])
def test_restart_of_all_under_commit_load(
    shared: Cluster,
    group: Callable[..., Group],
    node: Description,
    roll: Callable[[Cluster], str],
    request: pytest.FixtureRequest,
) -> None:
    mine = group(replicas=2)
    before = shared.pods()
    generation = mine.stable(2)
    audit = Audit.now(node)
    prefix = f"load-{request.node.callspec.id}"
    with (
        committing(shared, prefix) as load,
        listening(shared) as heard,
        watching(shared.client, shared.selector) as pods,
    ):
        setting = roll(shared)
        mine.produce(100)

        def all_new() -> bool:
            now = pods.now()
            return len(now) == 3 and all(
                is_ready(pod) and pod["metadata"]["uid"] != before[name]["metadata"]["uid"] for name, pod in now.items()
            )

        until("three new coordinators", all_new, ROLLED_S)
        shared.ready()
        mine.produce(100)
        load.check()
    assert pods.unavailable_max(3) == 1
    evicted = audit.evictions(shared.client.namespace)
    assert sorted(evicted) == sorted(pods.stopped()) == sorted(before)
    for name, at_s in evicted.items():
        # The end of its drain and its eviction may both lie between two questions: then the next answer tells.
        last, farewell = heard.before(name, at_s)[-1], heard.farewell(name, at_s)
        told = [(words.leaderships, words.phase) for words in (last, *farewell[:1])]
        assert (0, "drained") in told, f"{name} went with {told}"
    chosen = {
        name: [one for one in heard.before(name, at_s) if one.phase == "idle"][-1] for name, at_s in evicted.items()
    }
    print("evicted in this order:", {name: f"led {words.leaderships} when chosen" for name, words in chosen.items()})
    *others, _ = chosen
    assert not [name for name in others if chosen[name].leads_controller], "the controller group's leader goes last"
    for name in before:
        assert setting in shared.client.kubectl("exec", name, "--", "python3", "-c", READ_SETTINGS)
    assert mine.stable(2) == generation
    mine.all_seen()
    reasons = [one["reason"] for one in events_of(shared)]
    assert {"DrainingPod", "EvictingPod"} <= set(reasons)


def events_of(cluster: Cluster) -> list[dict[str, Any]]:
    """The operator's Events about the cluster."""
    found: list[dict[str, Any]] = cluster.client.read(
        "events", f"--field-selector=involvedObject.kind=CoordinatorCluster,involvedObject.name={cluster.name}"
    )["items"]
    return found


def test_a_bad_image_stops_after_one_pod_and_heals_on_revert(shared: Cluster) -> None:
    before = uids(shared.pods())
    with committing(shared, "load-image") as load, watching(shared.client, shared.selector) as pods:
        patch(shared, '{"image":"muster.test/muster:never-built"}')
        try:

            def halted() -> dict[str, Any] | None:
                found = dict(condition(shared.read(), "Degraded"))
                return found if found.get("reason") == "NewRevisionUnhealthy" else None

            said = until("halt of the restart", halted, 180)
            assert said["status"] == "True"
            (bad,) = [name for name, uid in uids(shared.pods()).items() if before[name] != uid]
            assert bad in said["message"]
            assert condition(shared.read(), "Progressing").get("reason") == "NewRevisionUnhealthy"
            assert condition(shared.read(), "QuorumAvailable").get("status") == "True"
            warnings = [one for one in events_of(shared) if one["reason"] == "NewRevisionUnhealthy"]
            assert warnings
            assert {one["type"] for one in warnings} == {"Warning"}
        finally:
            patch(shared, '{"image":null}')
        shared.ready()
        load.check()
    assert list(pods.stopped()) == [bad], "no other pod was touched"
    assert pods.unavailable_max(3) == 1
    after = uids(shared.pods())
    assert {name for name in after if after[name] != before[name]} == {bad}


def test_a_coordinator_and_its_volume_survive_the_deletion_of_its_pod(shared: Cluster) -> None:
    """By hand and without warning: no drain, only the grace that every pod has. Commits go on."""
    victim = f"{shared.name}-1"
    claim = shared.client.read("pvc", f"data-{victim}")
    before = shared.pods()[victim]["metadata"]["uid"]
    incarnation = shared.admin(1, "/v1/status")[1]["incarnation"]
    with committing(shared, "load-delete") as load:
        shared.client.kubectl("delete", "pod", victim, "--wait=false")

        def back() -> bool:
            pod = shared.pods().get(victim)
            return pod is not None and pod["metadata"]["uid"] != before and is_ready(pod)

        until(f"another {victim}", back, 120)
        shared.ready()
        load.check()
    after = shared.client.read("pvc", f"data-{victim}")
    assert after["metadata"]["uid"] == claim["metadata"]["uid"]
    assert after["spec"]["volumeName"] == claim["spec"]["volumeName"]
    status = shared.admin(1, "/v1/status")[1]
    assert status["incarnation"] == incarnation + 1, "the same data folder, started once more"
    assert status["cluster_id"] is not None


def test_the_status_says_whether_any_node_may_be_lost(shared: Cluster) -> None:
    shared.ready()
    nodes = {pod["spec"]["nodeName"] for pod in shared.pods().values()}
    found = condition(shared.read(), "SurvivesNodeLoss")
    assert found["reason"] == ("VotersSpread" if len(nodes) == len(shared.pods()) else "VotersOnOneNode")
    assert found["status"] == ("True" if found["reason"] == "VotersSpread" else "False")


def test_fewer_replicas_than_the_replication_factor_are_refused(shared: Cluster) -> None:
    before = uids(shared.pods())
    patch(shared, '{"replicas":1}')
    try:

        def refused() -> dict[str, Any] | None:
            found = dict(condition(shared.read(), "ScalingRefused"))
            return found if found.get("status") == "True" else None

        said = until("a condition that refuses", refused, 30)
        assert said["reason"] == "ReplicationFactorFixed"
        assert "3 coordinators stay" in said["message"]
        assert "ReplicationFactorFixed" in [one["reason"] for one in events_of(shared)]
        assert shared.client.read("statefulset", shared.name)["spec"]["replicas"] == 3
    finally:
        patch(shared, '{"replicas":3}')
    until("end of the refusal", lambda: condition(shared.read(), "ScalingRefused").get("status") == "False", 30)
    assert uids(shared.pods()) == before


def test_an_emptied_volume_is_not_silently_formed_again_and_can_be_replaced(
    operator: Client, namespace: Client
) -> None:
    """A coordinator that lost its data stays out and says so; the other two go on, with their data. Where the operator
    is told to leave that to people, it only says so, and by the runbook the coordinator is given its place again. It
    holds what it has to when another one goes away."""
    cluster = Cluster.create(namespace, offsetsPartitions=3, replaceLostReplicas=False).ready()
    with committing(cluster, "load-empty") as load:
        cluster_id = cluster.admin(0, "/v1/status")[1]["cluster_id"]
        before = cluster.pods()["main-2"]["metadata"]["uid"]
        namespace.kubectl("delete", "pvc", "data-main-2", "--wait=false")
        namespace.kubectl("delete", "pod", "main-2", "--wait=false")

        def started_empty() -> str | None:
            pod = cluster.pods().get("main-2")
            if pod is None or pod["metadata"]["uid"] == before:
                return None
            status, body = cluster.admin(2, "/v1/status")
            said = "; ".join(body["not_ready"]) if status == 200 else ""
            return said if "stays out" in said else None

        why = until("a coordinator that has lost its data and says so", started_empty, 120)
        print("what it says:", why)
        assert not is_ready(cluster.pods()["main-2"])
        for ordinal in (0, 1):
            status = cluster.admin(ordinal, "/v1/status")[1]
            assert status["cluster_id"] == cluster_id
            assert status["ready"]
        assert condition(cluster.read(), "Ready").get("status") != "True"
        gone = next(one for one in cluster.admin(0, "/v1/status")[1]["brokers"] if one["broker"] == 2)["replica_uuid"]
        told = until("it is told", lambda: told_lost(cluster), 30)
        assert f"muster.dev/replace-folder={gone}" in told["message"]
        assert condition(cluster.read(), "Degraded")["reason"] == "VolumeLost"
        replace(cluster, 2, gone)
        cluster.ready()
        until("all groups have taken it in", lambda: taken_in(cluster), 60)
        before = cluster.pods()["main-0"]["metadata"]["uid"]
        namespace.kubectl("delete", "pod", "main-0", "--wait=false")
        until("another main-0", lambda: _uid(cluster, "main-0") not in (before, ""), 60)
        cluster.ready()
        load.check()


def _uid(cluster: Cluster, pod: str) -> str:
    found = cluster.pods().get(pod)
    return "" if found is None else str(found["metadata"]["uid"])


def told_lost(cluster: Cluster) -> Mapping[str, Any] | None:
    found = condition(cluster.read(), "VolumeLost")
    return found if found.get("status") == "True" else None


def replace(cluster: Cluster, lost: int, folder: str) -> None:
    """The command of the runbook, in a coordinator's pod; asked again while there is no leader."""
    words = ["muster", "cluster", "replace", str(lost), "--folder", folder, f"--admin=localhost:{ADMIN_PORT}"]

    def done() -> bool:
        try:
            cluster.client.kubectl("exec", f"{cluster.name}-0", "--", *words, f"--token-file={TOKEN_FILE}")
        except Refused as error:
            print("not yet:", error)
            return False
        return True

    until(f"{folder} is declared gone", done, 60, every=1)


def taken_in(cluster: Cluster) -> bool:
    """Nobody leads a group that lacks a member; and somebody leads each, so this is of all."""
    said = [cluster.admin(ordinal, "/v1/status") for ordinal in range(3)]
    rows = [row for n in range(3) for row in cluster.admin(n, "/v1/partitions")[1]["partitions"]]
    led = {row["group"] for row in rows if row["role"] == "leader"}
    return led == {row["group"] for row in rows} and all(
        status == 200 and body["groups_to_change"] == 0 for status, body in said
    )


def test_the_release_is_in_the_status_and_a_downgrade_is_refused_before_a_pod_is_touched(shared: Cluster) -> None:
    """The image that is refused does not exist: one pull of it would be seen."""
    status = shared.read()["status"]
    assert status["version"] == importlib.metadata.version("muster")
    assert status["featureLevel"] == int(shared.admin(0, "/v1/status")[1]["feature_level"])
    uids = {name: pod["metadata"]["uid"] for name, pod in shared.pods().items()}
    patch = {"spec": {"image": "registry.example.com/muster:0.0.9"}}
    shared.client.kubectl("patch", "cc", shared.name, "--type=merge", f"--patch={json.dumps(patch)}")
    try:
        until("refusal", lambda: condition(shared.read(), "Degraded").get("reason") == "DowngradeRefused", 60)
        assert condition(shared.read(), "Ready")["status"] == "True"
        template = shared.client.read("statefulset", shared.name)["spec"]["template"]
        assert template["spec"]["containers"][0]["image"] != patch["spec"]["image"]
    finally:
        back = {"spec": {"image": None}}
        shared.client.kubectl("patch", "cc", shared.name, "--type=merge", f"--patch={json.dumps(back)}")
    shared.ready()
    until("no refusal", lambda: condition(shared.read(), "Degraded")["status"] == "False", 60)
    assert {name: pod["metadata"]["uid"] for name, pod in shared.pods().items()} == uids
