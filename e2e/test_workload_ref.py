"""Workloads that the operator did not make: observed, scaled, restarted, and in every other way their owner's."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from muster_operator.api.consumer_template import ConsumerTemplate
from muster_operator.api.fields import camel

from e2e import furnished
from e2e.fleet import Cluster, Group, condition, is_ready, throughout, until
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.theirs import Theirs, owned_leaves, workloads

pytestmark = pytest.mark.timeout(500)

OPERATOR = "muster-operator"
RESTARTED_AT = "spec.template.metadata.annotations.muster.dev/restarted-at"
QUIET_S = 30.0
CALM_S = 120.0


@pytest.fixture
def theirs(shared: Cluster, node: Description) -> Iterator[Callable[..., Theirs]]:
    with workloads(shared, node) as make:
        yield make


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


@pytest.fixture
def group_with_everything(shared: Cluster, node: Description) -> Iterator[Group]:
    """A group of two whose template has every field."""
    one = Group(cluster=shared, image=node.demo_image, name=furnished.NAME, session_s=45)
    one.spec = {"template": furnished.template(one.manifest(2)["spec"]["template"], node.demo_image)}
    shared.client.apply(*furnished.objects())
    yield one.create(2)
    one.delete()
    for made in furnished.objects():
        shared.client.kubectl("delete", made["kind"], furnished.NAME, "--ignore-not-found")


def as_asked(pod: dict[str, Any]) -> None:
    """What shows nowhere but in the pod itself."""
    spec, metadata = pod["spec"], pod["metadata"]
    (consumer,) = [one for one in spec["containers"] if one["name"] == "consumer"]
    assert furnished.LABELS.items() <= metadata["labels"].items()
    assert furnished.ANNOTATIONS.items() <= metadata["annotations"].items()
    assert (spec["nodeSelector"], spec["serviceAccountName"]) == (furnished.NODES, furnished.NAME)
    assert (spec["priorityClassName"], spec["priority"]) == (furnished.NAME, furnished.PRIORITY)
    assert furnished.TOLERATION in spec["tolerations"]
    (preferred,) = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred == furnished.PREFERENCE
    (spread,) = spec["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spec["imagePullSecrets"] == [{"name": "of-a-registry"}]
    assert consumer["ports"] == [{"name": "metrics", "containerPort": 9_000, "protocol": "TCP"}]
    assert consumer["resources"]["limits"] == {"memory": "512Mi"}
    assert consumer["securityContext"]["readOnlyRootFilesystem"] is True
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert consumer[probe]["exec"] == furnished.STARTED["exec"]


def test_everything_that_a_template_takes_runs(group_with_everything: Group) -> None:
    """Claims come back with their pod, scratch does not, and both are gone with the object."""
    mine = group_with_everything
    assert set(mine.spec["template"]) == {camel(one.name) for one in dataclasses.fields(ConsumerTemplate)}
    mine.stable(2, 180)
    until("READY 2/2", lambda: mine.read()["status"]["readyText"] == "2/2", 60)
    for one in mine.pods().values():
        as_asked(one)
    pod = f"{mine.name}-1"

    def starts(folder: str) -> str:
        words = ("exec", pod, "--container=consumer", "--")
        return mine.client.kubectl(*words, "python3", "-c", f"print(open('/{folder}/starts').read())").strip()

    names = [one["name"] for one in mine.pods()[pod]["status"]["containerStatuses"]]
    assert sorted(names) == ["consumer", "logs"]
    assert (starts("state"), starts("scratch")) == ("x", "x")
    uid = mine.pods()[pod]["metadata"]["uid"]
    mine.client.kubectl("delete", "pod", pod)

    def back() -> bool:
        found = mine.pods().get(pod)
        return found is not None and found["metadata"]["uid"] != uid and is_ready(found)

    until("the pod again", back, 120)
    assert (starts("state"), starts("scratch")) == ("xx", "x")
    mine.delete()

    def claims() -> list[str]:
        found = mine.client.read("pvc")["items"]
        return [one["metadata"]["name"] for one in found if mine.name in one["metadata"]["name"]]

    until("end of the claims", lambda: not claims(), 60)
