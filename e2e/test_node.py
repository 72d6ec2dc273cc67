"""The node is real: what later tests take for granted about pods, volumes, names and Services, shown once.

Everything that a fake would get wrong first: an image of ours runs as its own user under the restricted Pod Security
level, a volume follows a pod's name, names resolve from inside pods, a NodePort answers a machine outside the cluster,
the eviction API holds the disruption budget, and a killed process is started again.
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e import workload
from e2e.node import daemon, network, volumes
from e2e.node.client import Client, Refused
from e2e.node.session import Description

pytestmark = pytest.mark.timeout(180)

READY_S = 60.0
SETTLE_S = 30.0


def ready(namespace: Client, pod: str) -> bool:
    try:
        status = namespace.read("pod", pod)["status"]
    except Refused:
        return False
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", []))


def ask(url: str) -> tuple[str, int, str] | None:
    """(pod, starts, caller) from `url`, None while it does not answer."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            pod, starts, caller = answer.read().decode().split()
    except OSError:
        return None
    return pod, int(starts), caller


def eventually(what: str, question: Callable[[], bool], timeout_s: float = SETTLE_S) -> None:
    """A new Service may refuse for a moment: its rules are written after its object."""
    daemon.until(what, question, timeout_s)


@pytest.fixture
def probe(namespace: Client, node: Description) -> Client:
    """Two Ready pods of the workload."""
    namespace.kubectl("label", "namespace", namespace.namespace, "pod-security.kubernetes.io/enforce=restricted")
    namespace.apply(*workload.objects(node.muster_image, replicas=2))
    namespace.kubectl("rollout", "status", "statefulset/probe", f"--timeout={READY_S:.0f}s", timeout_s=READY_S + 5)
    return namespace


def test_our_image_runs_as_its_own_user_under_the_restricted_level(probe: Client) -> None:
    assert "started as 10001" in probe.kubectl("logs", "probe-0")


def test_the_level_is_enforced(probe: Client, node: Description) -> None:
    with pytest.raises(Refused, match="violates PodSecurity"):
        probe.kubectl("run", "root", f"--image={node.muster_image}", "--image-pull-policy=Never")


def test_names_of_pods_resolve_inside_the_cluster(probe: Client) -> None:
    name = f"probe-1.peers.{probe.namespace}.svc.cluster.local"
    program = (
        f"import urllib.request as u; print(u.urlopen('http://{name}:{workload.PORT}', timeout=3).read().decode())"
    )

    def answered() -> bool:
        try:
            said = probe.kubectl("exec", "probe-0", "--", "python3", "-c", program)
        except Refused:
            return False
        return said.startswith("probe-1 ")

    eventually("answer of probe-1 to probe-0 by name", answered)


def test_names_resolve_for_the_test_itself(probe: Client) -> None:
    url = f"http://probe-0.peers.{probe.namespace}.svc.cluster.local:{workload.PORT}"
    eventually("answer by name", lambda: (ask(url) or ("", 0, ""))[0] == "probe-0")


def test_a_node_port_answers_a_machine_outside_the_cluster(probe: Client, node: Description) -> None:
    port = probe.read("service", "front")["spec"]["ports"][0]["nodePort"]
    pod_address = probe.read("pod", "probe-0")["status"]["podIP"]

    def from_outside(url: str) -> str:
        program = f"import urllib.request as u; print(u.urlopen('{url}', timeout=2).read().decode())"
        argv = network.outside([sys.executable, "-c", program])
        return subprocess.run(argv, capture_output=True, text=True, timeout=15, check=False).stdout

    for address in node.nodes.values():
        eventually(f"answer of {address}", lambda at=address: "probe-" in from_outside(f"http://{at}:{port}"))  # type: ignore[misc]
    assert from_outside(f"http://{pod_address}:{workload.PORT}") == "", "pods must not be reachable from outside"


def test_a_service_spreads_over_its_pods(probe: Client) -> None:
    address = probe.read("service", "front")["spec"]["clusterIP"]
    seen: set[str] = set()

    def both() -> bool:
        answer = ask(f"http://{address}:{workload.PORT}")
        seen.add(answer[0] if answer else "")
        return {"probe-0", "probe-1"} <= seen

    eventually("answers from both pods", both)


def test_a_deleted_pod_comes_back_with_its_name_and_volume(probe: Client) -> None:
    before = probe.read("pod", "probe-0")
    claim = probe.read("pvc", "data-probe-0")["spec"]["volumeName"]
    probe.kubectl("delete", "pod", "probe-0", timeout_s=30)
    eventually("probe-0 back", lambda: ready(probe, "probe-0"), READY_S)
    after = probe.read("pod", "probe-0")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert probe.read("pvc", "data-probe-0")["spec"]["volumeName"] == claim
    answer = ask(f"http://{after['status']['podIP']}:{workload.PORT}")
    assert answer is not None
    assert answer[:2] == ("probe-0", 2), "the second start on the same volume"


def test_eviction_keeps_the_disruption_budget(probe: Client) -> None:
    def evict(pod: str) -> str:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        path = f"/api/v1/namespaces/{probe.namespace}/pods/{pod}/eviction"
        return probe.kubectl("create", f"--raw={path}", "--filename=-", given=json.dumps(eviction))

    eventually("a budget with room", lambda: probe.read("pdb", "probe")["status"].get("disruptionsAllowed", 0) == 1)
    evict("probe-0")
    with pytest.raises(Refused, match="disruption budget"):
        evict("probe-1")
    eventually("probe-0 back", lambda: ready(probe, "probe-0"), READY_S)


def test_a_killed_process_is_started_again(probe: Client) -> None:
    with pytest.raises(Refused):  # the process takes its exec session along
        probe.kubectl(
            "exec", "probe-0", "--", "python3", "-c", "import os; os.kill(1, 15); import time; time.sleep(20)"
        )

    def restarted() -> bool:
        statuses = probe.read("pod", "probe-0")["status"].get("containerStatuses", [])
        return bool(statuses) and statuses[0]["restartCount"] == 1 and ready(probe, "probe-0")

    eventually("probe-0 restarted", restarted, READY_S)


def test_a_released_volume_is_emptied_and_offered_again(probe: Client, node: Description) -> None:
    name = probe.read("pvc", "data-probe-1")["spec"]["volumeName"]
    folder = Path(probe.read("persistentvolume", name)["spec"]["local"]["path"])
    assert (folder / "starts").exists()
    probe.kubectl("delete", "statefulset", "probe")
    probe.kubectl("wait", "--for=delete", "pod/probe-0", "pod/probe-1", "--timeout=30s")
    probe.kubectl("delete", "pvc", "--all")

    def phase() -> str:
        return str(probe.read("persistentvolume", name)["status"]["phase"])

    eventually("release of the volume", lambda: phase() == "Released")
    assert volumes.recycle(node.client(), node.state / "volumes.lock") >= 1
    eventually("volume on offer", lambda: phase() == "Available")
    assert list(folder.iterdir()) == []
