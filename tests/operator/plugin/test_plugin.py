"""`kubectl muster`: what is shown, when a restart is over, and what is asked of the API server."""

import json
from typing import Any

import pytest
from muster_operator.plugin.main import app
from muster_operator.plugin.objects import CLUSTER, GROUP, Trouble, parse_reference
from muster_operator.plugin.views import cluster_row, describe_cluster, describe_group, group_row
from muster_operator.plugin.waiting import restart_progress
from typer.testing import CliRunner

from tests.operator.plugin.fake_api import GROUPS, Server, group, said


def test_unknown_is_unknown_and_nothing_is_zero() -> None:
    row = group_row(group())
    assert (row["STATE"], row["LAG"], row["STATIC"]) == ("Unknown", "Unknown", "Unknown")
    assert (row["MEMBERS"], row["GENERATION"], row["READY"]) == ("-", "-", "-/3")


def test_a_group_without_pods_of_its_own_shows_no_readiness() -> None:
    observed = group(readyReplicas=0)
    del observed["spec"]["template"]
    assert group_row(observed)["READY"] == "-"


def test_ready_is_a_count_for_both_kinds() -> None:
    cluster = {"metadata": {"name": "main", "namespace": "shop"}, "spec": {"replicas": 3}, "status": {}}
    assert cluster_row(cluster)["READY"] == group_row(group())["READY"] == "-/3"
    seen = {**cluster, "status": {"readyReplicas": 2, "conditions": [said("Ready", "False", "RollingOut")]}}
    assert (cluster_row(seen)["READY"], cluster_row(seen)["REASON"]) == ("2/3", "RollingOut")
    assert group_row(group(readyReplicas=2))["READY"] == "2/3"


def test_describe_names_pods_partitions_and_what_is_hidden() -> None:
    member = {"pod": "orders-0", "instanceId": "orders-0", "clientId": "c", "host": "/10.0.0.1"}
    text = describe_group(
        group(
            state="Stable",
            memberCount=4,
            lagText="12",
            members=[{**member, "partitions": ["orders:0-3,7"], "lag": 12}],
            lastRebalance={"time": "2026-01-01T00:00:00Z", "cause": "scaled to 4"},
            conditions=[said("Ready", "True"), said("StaticMembership", "False", "MembersDynamic", "no instance ids")],
        )
    )
    assert "orders:0-3,7" in text
    assert "scaled to 4" in text
    assert "and 3 more: muster group describe orders-v2 --members" in text
    assert text.index("StaticMembership") < text.index("Ready   "), "what troubles stands on top"


def test_describe_a_cluster() -> None:
    cluster = {
        "metadata": {"name": "main", "namespace": "shop"},
        "spec": {"replicas": 3},
        "status": {
            "readyReplicas": 2,
            "bootstrapServers": {"internal": "main-bootstrap.shop.svc:9092"},
            "rollout": {"pod": "main-1", "toRevision": "r2"},
            "members": [{"name": "main-0", "brokerId": 0, "ready": True, "leaderships": 17, "drainPhase": "idle"}],
            "conditions": [said("Degraded", "True", "NewRevisionUnhealthy"), said("Progressing", "True")],
        },
    }
    text = describe_cluster(cluster)
    for expected in ("2/3 coordinators", "main-bootstrap.shop.svc:9092", "main-1 to r2", "17", "NewRevisionUnhealthy"):
        assert expected in text


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [said("Ready", "True"), said("Progressing", "False")]}, "running"),
        (
            {"restartedAt": "old", "conditions": [said("Ready", "True"), said("Progressing", "False")]},
            "running",
        ),
        ({"restartedAt": "now", "conditions": [said("Ready", "True"), said("Progressing", "True")]}, "running"),
        ({"restartedAt": "now", "conditions": [said("Ready", "False"), said("Progressing", "False")]}, "running"),
        ({"restartedAt": "now", "conditions": [said("Ready", "True"), said("Progressing", "False")]}, "done"),
        ({"restartedAt": "now", "conditions": [said("Degraded", "True"), said("Progressing", "False")]}, "halted"),
    ],
)
def test_a_restart_is_over_only_when_the_operator_says_so_of_this_one(status: dict[str, Any], expected: str) -> None:
    assert restart_progress(group(**status), restarted_at="now")[0] == expected


def test_a_restart_that_nobody_carries_out_is_not_waited_for_as_if_somebody_did() -> None:
    fine = [said("Ready", "True"), said("Progressing", "False")]
    paused = group(restartedAt="now", conditions=[*fine, said("Paused", "True")])
    assert restart_progress(paused, restarted_at="now") == ("running", "it is paused")
    observed = {**group(restartedAt="now", conditions=fine), "kind": "ConsumerGroup", "spec": {"groupId": "orders"}}
    assert restart_progress(observed, restarted_at="now")[0] == "halted"


def test_references() -> None:
    assert parse_reference("cg/a") == (GROUP, "a")
    assert parse_reference("CoordinatorCluster/b") == (CLUSTER, "b")
    for wrong in ("a", "pod/a", "cg/", "/a"):
        with pytest.raises(Trouble, match="must be"):
            parse_reference(wrong)


@pytest.fixture
def server(serving: Server) -> Server:
    """The operator is quick here: it has restarted everything at once."""

    def restart(obj: dict[str, Any]) -> None:
        obj["status"]["restartedAt"] = obj["metadata"]["annotations"].get("muster.dev/restarted-at")

    serving.operator = restart
    conditions = [said("Ready", "True"), said("Progressing", "False")]
    serving.objects[f"{GROUPS}/orders"] = group(state="Stable", memberCount=3, lagText="0", conditions=conditions)
    return serving


def test_status_lists_what_is_in_the_contexts_namespace(server: Server) -> None:
    done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == 0, done.output
    assert "Coordinator clusters\nnone" in done.output
    assert "shop        orders   Stable" in done.output
    plain = CliRunner().invoke(app, ["status", "-o", "json"])
    assert json.loads(plain.output)["groups"][0]["LAG"] == "0"


def test_restart_annotates_and_waits_for_this_restart(server: Server) -> None:
    done = CliRunner().invoke(app, ["restart", "cg/orders"])
    assert done.exit_code == 0, done.output
    ((_, patch),) = server.patches
    assert list(patch["metadata"]["annotations"]) == ["muster.dev/restarted-at"]
    assert "every pod runs the new revision" in done.output


def test_what_is_not_there_is_said_in_one_line(server: Server) -> None:
    done = CliRunner().invoke(app, ["describe", "cg/nobody"])
    assert done.exit_code == 1
    assert "nobody: 404" in done.output
    assert "Traceback" not in done.output
