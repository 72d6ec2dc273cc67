"""Workloads that the operator did not make: observed, scaled, restarted, and in every other way their owner's."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.fleet import Cluster, Group, condition, is_ready, throughout, until
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.theirs import Theirs, owned_leaves

pytestmark = pytest.mark.timeout(500)

OPERATOR = "muster-operator"
RESTARTED_AT = "spec.template.metadata.annotations.muster.dev/restarted-at"
QUIET_S = 30.0
CALM_S = 120.0


@pytest.fixture
def theirs(shared: Cluster, node: Description) -> Iterator[Callable[..., Theirs]]:
    made: list[Theirs] = []

    def make(kind: str, name: str, *, client: Client | None = None, **more: Any) -> Theirs:
        one = Theirs(
            cluster=shared, client=client or shared.client, image=node.demo_image, name=name, kind=kind, **more
        )
        made.append(one.topics())
        return one

    yield make
    for one in made:
        one.delete()


def test_a_deployment_is_scaled_and_restarted_and_stays_its_owners(theirs: Callable[..., Theirs]) -> None:
    mine = theirs("Deployment", "their-deployment").create(3)
    mine.refer()
    mine.stable(3)
    mine.ready_text("3/3")
    assert owned_leaves(mine.live(), OPERATOR) == set(), "without `replicas` it is left alone"
    assert condition(mine.read(), "StaticMembership")["reason"] == "NamesNotStable"
    assert {one["pod"] for one in mine.read()["status"]["members"]} == set(mine.pods())
    for replicas in (5, 2):
        mine.client.kubectl("scale", f"cg/{mine.name}", f"--replicas={replicas}")
        mine.ready_text(f"{replicas}/{replicas}", 120)
        mine.stable(replicas)
        assert mine.live()["spec"]["replicas"] == replicas
    assert owned_leaves(mine.live(), OPERATOR) == {"spec.replicas"}
    before = set(mine.pods())
    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/restarted-at=now")
    until("other pods", lambda: len(mine.pods()) == 2 and not before & set(mine.pods()), 120)
    until("word of the restart", lambda: mine.read()["status"].get("restartedAt") == "now", 60)
    assert owned_leaves(mine.live(), OPERATOR) == {"spec.replicas", RESTARTED_AT}
    assert "ownerReferences" not in mine.live()["metadata"]
    mine.client.kubectl("patch", f"cg/{mine.name}", "--type=json", '--patch=[{"op":"remove","path":"/spec/replicas"}]')
    mine.client.kubectl("scale", f"deployment/{mine.name}", "--replicas=3")
    mine.ready_text("3/3", 120)
    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/paused=true")
    until("pause", lambda: condition(mine.read(), "Paused").get("status") == "True", 30)
    mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=1")
    ends = time.monotonic() + QUIET_S

    def kept() -> None:
        assert mine.live()["spec"]["replicas"] == 3, "a paused object scales nothing"

    throughout(ends, kept)
    mine.client.kubectl("delete", f"cg/{mine.name}")

    def stays() -> None:
        assert mine.live()["spec"]["replicas"] == 3, "the ConsumerGroup is gone, and its workload is not"

    throughout(time.monotonic() + QUIET_S, stays)


def test_members_of_a_statefulset_leave_with_it_and_namesakes_stay(
    theirs: Callable[..., Theirs], namespace: Client
) -> None:
    """3→1→3 and the deletion, for two minutes; `-3` and `-4` run in another namespace, in the same group."""
    mine = theirs("StatefulSet", "their-statefulset").create(3)
    namesakes = theirs("StatefulSet", mine.name, client=namespace, first_ordinal=3).create(2)
    mine.refer(replicas=3)
    mine.stable(5)
    mine.ready_text("3/3")
    strangers = {f"{mine.name}-3", f"{mine.name}-4"}

    def members() -> dict[str, str]:
        """Instance id → member id, of the namesakes."""
        found = mine.cluster.group(mine.name).get("members", ())
        return {one["instance"]: one["member"] for one in found if one.get("instance") in strangers}

    before = members()
    assert set(before) == strangers
    started = time.monotonic()
    mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=1")
    gone = until("end of two pods", lambda: len(mine.pods()) == 1 and time.monotonic(), 60)
    mine.stable(3, seconds=20)
    print(f"two members left {time.monotonic() - gone:.1f} s after their pods, of a session of 45 s")
    mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=3")
    mine.stable(5)
    mine.client.kubectl("delete", f"cg/{mine.name}")

    def there() -> None:
        assert members() == before, "a namesake was removed, or had to join anew"

    throughout(started + CALM_S, there)
    assert len(namesakes.pods()) == 2


def test_what_cannot_be_referred_to_is_said(
    theirs: Callable[..., Theirs], group: Callable[..., Group], node: Description
) -> None:
    made = group(replicas=1)
    other = theirs("StatefulSet", "refers-to-nothing")
    other.refer(replicas=0)

    def reason() -> str:
        return str(condition(other.read(), "Degraded").get("reason"))

    until("word of what is missing", lambda: reason() == "WorkloadNotFound", 60)
    other.client.kubectl("delete", f"cg/{other.name}")
    ref = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": made.name}
    other.refer(replicas=0, workloadRef=ref)
    until("word of whose it is", lambda: reason() == "WorkloadTaken", 60)
    assert made.client.read("statefulset", made.name)["spec"]["replicas"] == 1


def test_a_pause_holds_a_roll_that_is_under_way(group: Callable[..., Group]) -> None:
    mine = group(replicas=3, session_s=45, rollout={"minReadySeconds": 15})

    def available() -> bool:
        """Kubernetes replaces pods that are not available yet all at once."""
        return mine.client.read("statefulset", mine.name)["status"].get("availableReplicas") == 3

    until("every pod Ready for 15 s", available, 90)
    before = {name: pod["metadata"]["uid"] for name, pod in mine.pods().items()}

    def replaced() -> set[str]:
        return {name for name, pod in mine.pods().items() if pod["metadata"]["uid"] != before.get(name)}

    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/restarted-at=now")
    until("first pod of the roll", lambda: replaced() == {f"{mine.name}-2"}, 60)
    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/paused=true")
    until("word of the hold", lambda: "held" in condition(mine.read(), "Paused").get("message", ""), 30)
    until("every pod", lambda: len(mine.pods()) == 3 and all(map(is_ready, mine.pods().values())), 60)
    held = replaced()
    assert f"{mine.name}-0" not in held

    def kept() -> None:
        assert replaced() == held, "a pod was replaced during the pause"

    throughout(time.monotonic() + QUIET_S + 15, kept)
    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/paused-")
    until("the rest of the roll", lambda: replaced() == set(before), 180)
    until("the partition back", lambda: partition(mine) == 0, 60)
    assert "muster.dev/held-partition" not in mine.client.read("statefulset", mine.name)["metadata"]["annotations"]


def partition(mine: Group) -> int:
    spec = mine.client.read("statefulset", mine.name)["spec"]
    return int(spec["updateStrategy"].get("rollingUpdate", {}).get("partition", 0))


CHECKED = (
    "import os, runpy; "
    "[os.stat(path) for path in ('/shared/first', '/identity/token', '/identity/labels', '/scratch', '/state')]; "
    "open('/state/starts', 'a').write('x'); open('/scratch/starts', 'a').write('x'); "
    "runpy.run_path('/program/consumer.py', run_name='__main__')"
)
IDLE = (
    "import signal, threading; done = threading.Event(); "
    "signal.signal(signal.SIGTERM, lambda *_: done.set()); done.wait()"
)


@pytest.fixture
def furnished(shared: Cluster, node: Description) -> Iterator[Group]:
    """A group of two whose template has all that a node can give: all but a CSI driver's volume."""
    python = {"image": node.demo_image, "imagePullPolicy": "Never"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    one = Group(cluster=shared, image=node.demo_image, name="furnished", session_s=45)
    mounts = {"shared": "/shared", "identity": "/identity", "scratch": "/scratch", "state": "/state"}
    manifest = one.manifest(2)["spec"]["template"]
    one.spec = {
        "template": {
            **manifest,
            "command": ["python3", "-c", CHECKED],
            "securityContext": {
                "runAsNonRoot": True, "fsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "lifecycle": {"postStart": {"exec": {"command": ["python3", "-c", "open('/shared/hook', 'w')"]}},
                          "preStop": {"sleep": {"seconds": 1}}},
            "initContainers": [
                {"name": "first", **python, "command": ["python3", "-c", "open('/shared/first', 'w')"],
                 "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]},
                {"name": "beside", **python, "restartPolicy": "Always", "command": ["python3", "-c", IDLE]},
            ],
            "sidecars": [{"name": "logs", **python, "command": ["python3", "-c", IDLE]}],
            "volumes": [
                *manifest["volumes"],
                {"name": "shared", "emptyDir": {}},
                {"name": "identity", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                ]}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
            ],
            "volumeMounts": [
                *manifest["volumeMounts"], *({"name": name, "mountPath": path} for name, path in mounts.items())
            ],
            "volumeClaimTemplates": [{"name": "state", "size": "1Gi"}],
            "volumeClaimRetention": "Delete",
        }
    }  # fmt: skip
    yield one.create(2)
    one.delete()


def test_everything_that_a_template_takes_runs(furnished: Group) -> None:
    """Claims come back with their pod, scratch does not, and both are gone with the object."""
    furnished.stable(2, 180)
    until("READY 2/2", lambda: furnished.read()["status"]["readyText"] == "2/2", 60)
    pod = f"{furnished.name}-1"

    def starts(folder: str) -> str:
        words = ("exec", pod, "--container=consumer", "--")
        return furnished.client.kubectl(*words, "python3", "-c", f"print(open('/{folder}/starts').read())").strip()

    names = [one["name"] for one in furnished.pods()[pod]["status"]["containerStatuses"]]
    assert sorted(names) == ["consumer", "logs"]
    assert (starts("state"), starts("scratch")) == ("x", "x")
    uid = furnished.pods()[pod]["metadata"]["uid"]
    furnished.client.kubectl("delete", "pod", pod)

    def back() -> bool:
        found = furnished.pods().get(pod)
        return found is not None and found["metadata"]["uid"] != uid and is_ready(found)

    until("the pod again", back, 120)
    assert (starts("state"), starts("scratch")) == ("xx", "x")
    furnished.delete()

    def claims() -> list[str]:
        found = furnished.client.read("pvc")["items"]
        return [one["metadata"]["name"] for one in found if furnished.name in one["metadata"]["name"]]

    until("end of the claims", lambda: not claims(), 60)
