"""Answers of the API server by family, and stored objects as views."""

import json

import pytest
from muster_operator.errors import Conflict, Refused, Transient
from muster_operator.kube.answers import decode, failure, is_blocked_by_budget
from muster_operator.kube.views import claim_view, epoch_ms, host_names, node_view, pod_view, statefulset_view


@pytest.mark.parametrize(
    ("status", "family"),
    [(400, Refused), (401, Transient), (403, Refused), (404, Refused), (409, Conflict), (422, Refused),
     (429, Transient), (500, Transient), (503, Transient)],
)  # fmt: skip
def test_families(status: int, family: type) -> None:
    assert type(failure(decode(status, b"{}", None), verb="get", kind="Pod", name="p")) is family


def test_retry_after_is_kept_and_bounded() -> None:
    waits = [decode(429, b"", one).retry_after_ms for one in ("7", "99999", "Fri, 31 Dec 1999", None)]
    assert waits == [7_000, 60_000, 0, 0]


def test_what_a_refused_secret_held_is_not_repeated() -> None:
    body = json.dumps({"reason": "Invalid", "message": "value s3cr3t is bad"}).encode()
    error = failure(decode(422, body, None), verb="create", kind="Secret", name="s")
    assert "s3cr3t" not in str(error)
    assert "Invalid" in str(error)


def test_a_body_that_is_no_json_is_an_error_all_the_same() -> None:
    assert isinstance(failure(decode(502, b"<html>", None), verb="get", kind="Pod", name="p"), Transient)


def test_a_budget_is_told_from_an_overloaded_server() -> None:
    budget = {"details": {"causes": [{"reason": "DisruptionBudget"}]}}
    assert is_blocked_by_budget(decode(429, json.dumps(budget).encode(), None))
    assert not is_blocked_by_budget(decode(429, b"{}", None))


def pod(name: str, owner: str, **status: object) -> dict[str, object]:
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "ownerReferences": [{"uid": owner, "controller": True}]},
        "status": status,
    }


def test_pods_belong_by_uid_and_come_by_ordinal() -> None:
    live = {"metadata": {"name": "c", "uid": "now"}, "spec": {"replicas": 3}}
    view = statefulset_view(live, [pod("c-10", "now"), pod("c-2", "now"), pod("c-1", "before")])
    assert [one.name for one in view.pods] == ["c-2", "c-10"]


def test_a_pod_that_never_said_anything() -> None:
    view = pod_view(pod("c-0", "now"))
    assert (view.ready, view.phase, view.pod_ip, view.unready_since_ms) == (False, "Unknown", None, None)


def test_a_pod_has_an_address_of_each_family() -> None:
    view = pod_view(pod("c-0", "now", podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {}]))
    assert (view.pod_ip, view.pod_ips) == ("10.0.0.1", ("10.0.0.1", "fd00::1"))


def test_a_pod_that_cannot_start() -> None:
    view = pod_view(
        pod("c-0", "now", phase="Pending",
            conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:01Z"}],
            containerStatuses=[{"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}])
    )  # fmt: skip
    assert (view.waiting_reason, view.restarts, view.ready_since_ms) == ("CrashLoopBackOff", 4, None)
    assert view.unready_since_ms == epoch_ms("2026-01-01T00:00:01Z") == 1_767_225_601_000


LABELS = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/instance": "c"}


def claim(**metadata: object) -> dict[str, object]:
    return {"metadata": {"name": "data-c-0", "uid": "u", **metadata}, "spec": {}, "status": {}}


def test_a_claim_is_ours_by_its_labels_and_is_no_other_controllers() -> None:
    def ours(**metadata: object) -> bool:
        return claim_view(claim(**metadata), labels=LABELS, statefulset_uid="sts").ours

    assert ours(labels={**LABELS, "more": "of a user"})
    assert ours(labels=LABELS, ownerReferences=[{"uid": "sts", "controller": True}])
    assert ours(labels=LABELS, ownerReferences=[{"uid": "somebody", "controller": False}])
    assert not ours()
    assert not ours(labels={**LABELS, "app.kubernetes.io/instance": "another"})
    assert not ours(labels=LABELS, ownerReferences=[{"uid": "somebody", "controller": True}])


def test_a_claim_that_nobody_has_bound_yet() -> None:
    view = claim_view(claim(deletionTimestamp="2026-01-01T00:00:00Z"), labels={}, statefulset_uid="s")
    assert (view.phase, view.volume, view.terminating) == ("Pending", None, True)


def affinity(*terms: list[dict[str, object]]) -> dict[str, object]:
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": one} for one in terms]}}}}


def host(*names: str, operator: str = "In") -> dict[str, object]:
    return {"key": "kubernetes.io/hostname", "operator": operator, "values": list(names)}


ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("volume", "names"),
    [
        (affinity([host("a")]), ("a",)),
        (affinity([host("a", "b")], [ZONE, host("c")]), ("a", "b", "c")),
        (affinity([ZONE]), None),
        (affinity([host("a")], [ZONE]), None),
        (affinity([host("a", operator="NotIn")]), None),
        (affinity([{"key": "kubernetes.io/hostname", "operator": "Exists"}]), None),
        (affinity([host()]), None),
        (affinity(), None),
        ({"spec": {"nodeAffinity": {}}}, None),
        ({"spec": {"hostPath": {"path": "/x"}}}, None),
        ({}, None),
    ],
)
def test_only_a_volume_of_named_hosts_can_be_lost_with_its_node(
    volume: dict[str, object], names: tuple[str, ...] | None
) -> None:
    """A zone without nodes may have some again in a minute."""
    assert host_names(volume) == names


def test_a_node_is_ready_when_it_says_so() -> None:
    def ready(*conditions: dict[str, str]) -> bool:
        return node_view({"metadata": {"name": "n"}, "status": {"conditions": list(conditions)}}).ready

    assert ready({"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"})
    assert not ready({"type": "Ready", "status": "Unknown"})
    assert not ready({"type": "DiskPressure", "status": "True"})
    assert not ready()
