"""A `workloadRef` to a Rollout that Argo Rollouts' own controller runs: who writes what, and whose word counts.

Argo is installed as its documentation says (`e2e.argo.controller`), with its own roles; our operator has the rights
that the chart gives it with `rbac.argoRollouts=true`. Owners do here what `kubectl argo rollouts` does: `promote` and
`abort` are writes to a Rollout's status.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import fleet, more_images
from e2e.argo import controller
from e2e.audit import Audit
from e2e.fleet import Cluster, condition, throughout, until
from e2e.node.client import Client
from e2e.node.errors import Unavailable
from e2e.node.session import Description
from e2e.theirs import Theirs, owned_leaves, workloads
from tests.machine_parts import give_up

pytestmark = pytest.mark.timeout(900)

OPERATOR = "muster-operator"
ARGO = "system:serviceaccount:argo-rollouts:argo-rollouts"
CANARY = {"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 34}, {"pause": {}}]}}
BORROWED = "their-borrowed"
BLUE_GREEN = {"blueGreen": {"activeService": BORROWED, "autoPromotionEnabled": False, "scaleDownDelaySeconds": 1}}
PROMOTED = {"pauseConditions": None}
REST_S = 60.0
SHORT_S = 15.0


@pytest.fixture(scope="module")
def argo(operator: Client, node: Description) -> Iterator[None]:
    """Its controller, and our operator with rights on its kind."""
    try:
        name = more_images.load(more_images.argo(), node)
    except Unavailable as reason:
        give_up("node", str(reason))
    controller.install(node.client(), name)
    fleet.install_operator(node, "--set=rbac.argoRollouts=true")
    yield
    fleet.install_operator(node)
    controller.remove(node.client(), name)


@pytest.fixture
def theirs(argo: None, shared: Cluster, node: Description) -> Iterator[Callable[..., Theirs]]:
    with workloads(shared, node) as make:
        yield make


def phase(mine: Theirs) -> tuple[str, str]:
    """Argo's word for the spec as it is, and why."""
    live = mine.live()
    status = live.get("status", {})
    if status.get("observedGeneration") != str(live["metadata"]["generation"]):
        return "", ""
    return status.get("phase", ""), status.get("message", "")


def becomes(mine: Theirs, wanted: str, seconds: float = 120.0) -> str:
    """Wait for a phase; Argo's message."""
    until(f"{wanted} of {mine.name}", lambda: phase(mine)[0] == wanted, seconds)
    return phase(mine)[1]


def says(mine: Theirs, type_: str, status: str, reason: str, seconds: float = 60.0) -> str:
    """Wait for a condition of the ConsumerGroup; its message."""

    def found() -> bool:
        one = condition(mine.read(), type_)
        return (one.get("status"), one.get("reason")) == (status, reason)

    until(f"{type_}={status}, {reason}", found, seconds)
    return str(condition(mine.read(), type_)["message"])


def tells(mine: Theirs, type_: str, text: str, seconds: float = 60.0) -> None:
    """Wait for the message of a condition."""
    until(f"{type_} that says {text!r}", lambda: condition(mine.read(), type_).get("message") == text, seconds)


def merge(mine: Theirs, part: dict[str, Any], *words: str, kind: str = "") -> None:
    mine.client.kubectl("patch", f"{kind or mine.kind.lower()}/{mine.name}", "--type=merge", *words,
                        f"--patch={json.dumps(part)}")  # fmt: skip


def new_template(mine: Theirs, revision: str, *, kind: str = "") -> None:
    """As its owner changes it."""
    merge(mine, {"spec": {"template": {"metadata": {"annotations": {"revision": revision}}}}}, kind=kind)


def tell_argo(mine: Theirs, **status: Any) -> None:
    merge(mine, {"status": status}, "--subresource=status")


def scale(mine: Theirs, replicas: int) -> None:
    mine.client.kubectl("scale", f"cg/{mine.name}", f"--replicas={replicas}")


def revisions(mine: Theirs) -> list[str]:
    """Of its pods, terminating ones included."""
    return sorted(one["metadata"].get("annotations", {}).get("revision", "1") for one in mine.pods().values())


def autoscaler(mine: Theirs, low: int, high: int) -> dict[str, Any]:
    """Kubernetes' own. Outside of its bounds it asks nobody for metrics."""
    target = {"apiVersion": mine.api_version, "kind": mine.kind, "name": mine.name}
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": mine.name},
        "spec": {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high},
    }  # fmt: skip


def test_it_follows_an_autoscaler_scales_and_restarts_and_nobody_writes_at_rest(
    theirs: Callable[..., Theirs], node: Description
) -> None:
    mine = theirs("Rollout", "their-rollout", strategy=CANARY).create(3)
    mine.refer()
    mine.stable(3)
    mine.ready_text("3/3")
    assert becomes(mine, "Healthy") == ""
    assert condition(mine.read(), "StaticMembership")["reason"] == "NamesNotStable"
    assert {one["pod"] for one in mine.read()["status"]["members"]} == set(mine.pods())
    mine.client.apply(autoscaler(mine, 4, 6))
    mine.ready_text("4/4", 120)
    mine.stable(4)
    assert mine.live()["spec"]["replicas"] == 4
    assert owned_leaves(mine.live(), OPERATOR) == set(), "without `replicas` it is left alone"
    mine.client.kubectl("delete", f"hpa/{mine.name}")
    for replicas in (5, 3):
        scale(mine, replicas)
        mine.ready_text(f"{replicas}/{replicas}", 120)
        mine.stable(replicas)
        until("Argo's number", lambda now=replicas: mine.live()["status"].get("HPAReplicas") == now, 60)
    assert owned_leaves(mine.live(), OPERATOR) == {"spec.replicas"}
    before = set(mine.pods())
    told = mine.client.plugin("restart", f"cg/{mine.name}", "--timeout-seconds", "300", timeout_s=310)
    assert not before & set(mine.pods()), f"`restart` has ended before the last pod was replaced: {told}"
    live = mine.live()
    assert live["status"]["restartedAt"] == live["spec"]["restartAt"]
    assert becomes(mine, "Healthy") == ""
    assert owned_leaves(mine.live(), OPERATOR) == {"spec.replicas", "spec.restartAt"}
    assert "ownerReferences" not in mine.live()["metadata"]
    mine.stable(3)
    says(mine, "Ready", "True", "GroupStable")
    nobody_writes(mine, node)


def nobody_writes(mine: Theirs, node: Description) -> None:
    """Neither Argo nor our operator, for a minute at rest."""
    version = mine.live()["metadata"]["resourceVersion"]
    argos, ours = Audit.now(node, ARGO), Audit.now(node)

    def calm() -> None:
        assert mine.live()["metadata"]["resourceVersion"] == version

    throughout(time.monotonic() + REST_S, calm)
    assert argos.writes() == []
    assert [one for one in ours.writes() if one.resource.partition("/")[0] == "rollouts"] == []
    assert any(one.resource == "rollouts" and one.verb == "get" for one in ours.asked()), "it looked meanwhile"


def test_a_canary_at_its_pause_an_aborted_one_and_a_paused_rollout_are_told_as_argo_tells_them(
    theirs: Callable[..., Theirs],
) -> None:
    mine = theirs("Rollout", "their-canary", strategy=CANARY).create(3)
    mine.refer(replicas=3)
    mine.stable(3)
    mine.ready_text("3/3")
    new_template(mine, "2")
    assert becomes(mine, "Paused") == "CanaryPauseStep"
    for type_ in ("Ready", "Progressing"):
        assert says(mine, type_, "False", "WorkloadPaused") == (
            f"Rollout {mine.name} is Paused (CanaryPauseStep): 1 of 3 pods are of the newest template"
        )
    assert condition(mine.read(), "Degraded")["status"] == "False"
    mine.stable(3)
    until("one new pod beside two old ones", lambda: revisions(mine) == ["1", "1", "2"], 60)
    scale(mine, 6)
    mine.ready_text("6/6", 120)
    mine.stable(6)
    assert becomes(mine, "Paused") == "CanaryPauseStep", "a number is not a promotion"
    until("the weight kept", lambda: revisions(mine) == ["1"] * 4 + ["2"] * 2, 60)
    tell_argo(mine, **PROMOTED)
    becomes(mine, "Healthy")
    says(mine, "Ready", "True", "GroupStable")
    assert revisions(mine) == ["2"] * 6
    new_template(mine, "3")
    becomes(mine, "Paused")
    tell_argo(mine, abort=True)
    why = becomes(mine, "Degraded")
    assert why.startswith("RolloutAborted")
    assert says(mine, "Degraded", "True", "WorkloadDegraded") == f"Rollout {mine.name} is Degraded: {why}"
    says(mine, "Progressing", "False", "WorkloadDegraded")
    new_template(mine, "2")
    becomes(mine, "Healthy")
    says(mine, "Degraded", "False", "AsExpected")
    says(mine, "Ready", "True", "GroupStable")
    paused_by_its_owner(mine)
    paused_by_us(mine)


def paused_by_its_owner(mine: Theirs) -> None:
    """`spec.paused`: complete it is Ready; then Argo follows neither a number nor a new template until it goes on."""
    merge(mine, {"spec": {"paused": True}})
    assert becomes(mine, "Paused") == "manually paused"
    says(mine, "Ready", "True", "GroupStable")
    new_template(mine, "4")
    text = f"Rollout {mine.name} is Paused (manually paused): 0 of {{}} pods are of the newest template"
    assert says(mine, "Ready", "False", "WorkloadPaused") == text.format(6)
    scale(mine, 3)
    until("the number in the Rollout", lambda: mine.live()["spec"]["replicas"] == 3, 60)
    tells(mine, "Progressing", text.format(3))
    assert condition(mine.read(), "Progressing")["status"] == "False"
    assert revisions(mine) == ["2"] * 6
    merge(mine, {"spec": {"paused": False}})
    until("the step's pause", lambda: phase(mine) == ("Paused", "CanaryPauseStep"), 120)
    tell_argo(mine, promoteFull=True)
    becomes(mine, "Healthy")
    says(mine, "Ready", "True", "GroupStable")
    assert revisions(mine) == ["4"] * 3


def paused_by_us(mine: Theirs) -> None:
    """Nothing is written while the ConsumerGroup is paused, and the workload stays when it is deleted."""
    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/paused=true")
    until("pause", lambda: condition(mine.read(), "Paused").get("status") == "True", 30)
    scale(mine, 1)

    def kept() -> None:
        assert mine.live()["spec"]["replicas"] == 3

    throughout(time.monotonic() + SHORT_S, kept)
    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/paused-")
    mine.ready_text("1/1", 60)
    mine.client.kubectl("delete", f"cg/{mine.name}")
    generation = mine.live()["metadata"]["generation"]

    def stays() -> None:
        assert mine.live()["metadata"]["generation"] == generation, "the ConsumerGroup is gone, and its workload is not"

    throughout(time.monotonic() + SHORT_S, stays)


def test_blue_and_green_of_a_borrowed_template_beside_namesakes(
    theirs: Callable[..., Theirs], namespace: Client
) -> None:
    """A Deployment of consumers goes over to a Rollout of its name; another one of that name, elsewhere, stays."""
    lender = theirs("Deployment", BORROWED).create(2)
    namesake = theirs("Deployment", BORROWED, client=namespace).create(1)
    lender.stable(3)
    hosts = {f"/{one['status']['podIP']}" for one in namesake.pods().values()}

    def strangers(mine: Theirs) -> list[str]:
        return [one["member"] for one in mine.cluster.group(mine.name)["members"] if one["client_host"] in hosts]

    mine = theirs("Rollout", BORROWED, strategy=BLUE_GREEN, borrows=True)
    mine.client.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": BORROWED},
                       "spec": {"selector": {"app": BORROWED}, "ports": [{"port": 80}]}})  # fmt: skip
    mine.create(2)
    mine.refer(replicas=2)
    becomes(mine, "Healthy")
    until("Argo has scaled the Deployment to 0", lambda: lender.live()["spec"]["replicas"] == 0, 120)
    mine.stable(3)
    mine.ready_text("2/2")
    before = strangers(mine)
    assert len(before) == 1
    assert mine.read()["status"]["selector"] == f"app={BORROWED}", "of all its pods, and not of the active ones"
    new_template(mine, "2", kind="deployment")
    assert becomes(mine, "Paused") == "BlueGreenPause"
    mine.stable(5)
    text = f"Rollout {BORROWED} is Paused (BlueGreenPause): 4 pods exist, 2 are wanted"
    assert says(mine, "Progressing", "False", "WorkloadPaused") == text
    until("blue and green as members", lambda: {
        one["pod"] for one in mine.read()["status"]["members"] if "pod" in one} == set(mine.pods()), 60)  # fmt: skip
    scale(mine, 3)
    mine.stable(7)
    assert becomes(mine, "Paused") == "BlueGreenPause"
    tell_argo(mine, **PROMOTED)
    becomes(mine, "Healthy")
    mine.stable(4)
    mine.ready_text("3/3")
    says(mine, "Ready", "True", "GroupStable")
    assert revisions(mine) == ["2"] * 3
    assert owned_leaves(mine.live(), OPERATOR) == {"spec.replicas"}
    mine.client.kubectl("delete", f"cg/{mine.name}")

    def stay() -> None:
        assert strangers(mine) == before, "a namesake was removed, or had to join anew"

    throughout(time.monotonic() + SHORT_S, stay)
    mine.client.kubectl("delete", f"service/{BORROWED}")
