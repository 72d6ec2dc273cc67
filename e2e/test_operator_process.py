"""The whole operator process against a real API server: kopf's watches, passes, Lease. What an idle fleet costs is
`test_idle`.

No controllers run here, so objects are made and statuses written, and no pod ever starts.
"""

import time
from pathlib import Path

import pytest

from e2e.node.client import Client
from e2e.operator_process import OperatorProcess, install_crds, observing, operator_process, wait_for

pytestmark = pytest.mark.timeout(300)


def cluster(name: str) -> dict[str, object]:
    return {
        "apiVersion": "muster.dev/v1alpha1", "kind": "CoordinatorCluster", "metadata": {"name": name},
        "spec": {"replicas": 3},
    }  # fmt: skip


@pytest.fixture
def place(api: Client, request: pytest.FixtureRequest) -> Client:
    """A namespace of the test's own with our CRDs served."""
    install_crds(api)
    name = request.node.name.replace("_", "-")[:50].strip("-")
    api.kubectl("create", "namespace", name)
    return api.within(name)


def test_watches_and_passes(place: Client, tmp_path: Path) -> None:
    """Objects made before and after the start are seen, changes by others are undone, a deletion ends it."""
    place.apply(cluster("early"))
    flags = (f"--namespace={place.namespace}", f"--own-namespace={place.namespace}")
    with operator_process(place, tmp_path / "operator.log", *flags) as one:
        wait_for("ready", lambda: one.probe("/readyz")[0] == 200, 90, one)
        wait_for("the first cluster's StatefulSet", lambda: "statefulset" in names(place, "early"), 90, one)
        place.apply(cluster("late"), observing("g"))
        wait_for("the second cluster's StatefulSet", lambda: "statefulset" in names(place, "late"), 60, one)
        wait_for("a status", lambda: "observedGeneration" in place.read("cg", "g").get("status", {}), 60, one)

        budget = place.read("pdb", "early")["metadata"]["name"]
        place.kubectl("patch", "pdb", budget, "--type=merge", '--patch={"spec":{"maxUnavailable":2}}')
        wait_for("the budget to be mended", lambda: place.read("pdb", budget)["spec"]["maxUnavailable"] == 1, 60, one)
        place.kubectl("delete", "cg", "g")
        assert one.probe("/livez")[0] == 200
        markers = [live["metadata"] for live in place.read("cc")["items"]]
        assert not any(
            "finalizers" in one or any("kopf" in key for key in one.get("annotations", {})) for one in markers
        )
        token = place.read("secret", "early-admin-token")["data"]["token"]
        assert token not in one.log.read_text()
    assert one.process.returncode == 0, one.log.read_text()[-3_000:]


def names(place: Client, cluster_name: str) -> str:
    """`kind/name` of what the cluster owns."""
    selector = f"--selector=app.kubernetes.io/instance={cluster_name}"
    return place.kubectl("get", "statefulsets,services,configmaps,pdb", selector, "--output=name", "--ignore-not-found")


def test_two_releases_that_overlap_do_not_fight(place: Client, tmp_path: Path) -> None:
    """The second serves the namespace that is its own, and names who serves the other."""
    mine = f"{place.namespace[:40]}-2"
    place.kubectl("create", "namespace", mine)
    place.apply(cluster("c"))
    place.within(mine).apply(cluster("d"))
    first_flags = (f"--namespace={place.namespace}", f"--own-namespace={place.namespace}", "--lease-name=a")
    second_flags = (f"--namespace={place.namespace},{mine}", f"--own-namespace={place.namespace}", "--lease-name=b")
    with operator_process(place, tmp_path / "a.log", *first_flags) as first:
        wait_for("children", lambda: "statefulset" in names(place, "c"), 90, first)
        with operator_process(place, tmp_path / "b.log", *second_flags, "--image=muster:other") as second:
            wait_for("the second's own", lambda: "statefulset" in names(place.within(mine), "d"), 90, second)
            wait_for("words", lambda: "ServedByAnother" in place.kubectl("get", "events"), 60, second)
            wait_for("the figure", lambda: second.metric("muster_operator_refused_namespaces") == 1, 30, second)
            assert leads(first)
            assert leads(second), "each under a Lease of its own"
            generation = place.read("statefulset", "c")["metadata"]["generation"]
            (event,) = [
                one for one in place.read("events.events.k8s.io")["items"] if one["reason"] == "ServedByAnother"
            ]
            assert f"{place.namespace}/a serves namespace {place.namespace}" in event["note"]
            place.kubectl("annotate", "cc", "c", "touched=yes")
            time.sleep(5)
            live = place.read("statefulset", "c")
            assert live["metadata"]["generation"] == generation == 1
            assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "muster:test"


def test_two_operators_one_acts_and_the_other_takes_over(place: Client, tmp_path: Path) -> None:
    place.apply(cluster("c"))
    flags = (f"--namespace={place.namespace}", f"--own-namespace={place.namespace}")
    with (
        operator_process(place, tmp_path / "a.log", *flags, "--identity=a") as first,
        operator_process(place, tmp_path / "b.log", *flags, "--identity=b") as second,
    ):
        both = {"a": first, "b": second}
        wait_for("a leader", lambda: sum(leads(one) for one in both.values()) == 1, 90, first)
        wait_for("children", lambda: "statefulset" in names(place, "c"), 60, first)
        leader = next(one for one in both.values() if leads(one))
        standby = next(one for one in both.values() if one is not leader)
        wait_for("the standby to be ready", lambda: standby.probe("/readyz")[0] == 200, 90, standby)
        assert standby.writes() == 0
        leader.kill()
        assert wait_for("the takeover", lambda: leads(standby), 60, standby) <= 20


def leads(one: OperatorProcess) -> bool:
    return one.metric("muster_operator_is_leader ") == 1
