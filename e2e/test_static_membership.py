"""What static membership promises and what it does not, each with and without static ids, on one shared cluster.

Every test prints the generations before and after, and every record that was produced must have been consumed.
"""

import time
from collections.abc import Callable

import pytest

from e2e.cut import cut_off
from e2e.fleet import SESSION_S, Group, condition, is_ready, throughout, until

pytestmark = pytest.mark.timeout(300)

RESTART_S = 45
"""Kafka's default session timeout: a pod that is replaced is back before it on a busy machine, too."""
LATE_S = 10.0
"""How much later than the session timeout an expulsion may be seen, on a busy machine."""

both = pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])


def compare(group: Group, before: int, after: int) -> int:
    """Print and return how far the generation moved."""
    kind = "static" if group.static else "dynamic"
    print(f"{group.name} ({kind}): generation {before} before, {after} after")
    return after - before


@both
def test_pod_deleted_and_back(group: Callable[..., Group], static: bool) -> None:
    mine = group(static=static, session_s=RESTART_S)
    before, victim = mine.stable(3), f"{mine.name}-1"
    uid = mine.pods()[victim]["metadata"]["uid"]
    mine.client.kubectl("delete", "pod", victim)

    def back() -> bool:
        pod = mine.pods().get(victim)
        return pod is not None and pod["metadata"]["uid"] != uid and is_ready(pod)

    until(f"another {victim}", back, 60)
    mine.produce(300)
    after = mine.stable(3)
    mine.all_seen()
    moved = compare(mine, before, mine.stable(3))
    assert moved == 0 if static else moved >= 1, (before, after)


def by_plugin(mine: Group) -> None:
    mine.client.plugin("restart", f"cg/{mine.name}", "--timeout-seconds", "150", timeout_s=160)


def by_template(mine: Group) -> None:
    mine.client.apply(mine.manifest(3, annotations={"example.com/changed": "yes"}))


def by_kubectl(mine: Group) -> None:
    mine.client.kubectl("rollout", "restart", f"statefulset/{mine.name}")


@both
@pytest.mark.parametrize("roll", [by_plugin, by_template, by_kubectl], ids=["plugin", "template", "kubectl"])
def test_rolling_deployment(group: Callable[..., Group], static: bool, roll: Callable[[Group], None]) -> None:
    mine = group(static=static, session_s=RESTART_S)
    before, pods = mine.stable(3), mine.pods()
    roll(mine)
    mine.replaced(pods)
    mine.produce(300)
    mine.stable(3)
    mine.all_seen()
    moved = compare(mine, before, mine.stable(3))
    assert moved == 0 if static else moved >= 1
    if static:
        until(
            "StatefulSet as the operator wants it",
            lambda: condition(mine.read(), "Progressing")["status"] == "False",
            60,
        )


@both
def test_scale_down_moves_the_partitions_at_once(group: Callable[..., Group], static: bool) -> None:
    """One rebalance; nobody waits for a session timeout."""
    mine = group(static=static, session_s=45)
    before = mine.stable(3)
    mine.client.kubectl("scale", f"consumergroup/{mine.name}", "--replicas=2")
    until("one pod less", lambda: len(mine.pods()) == 2, 60)
    gone_s = time.monotonic()
    after = mine.stable(2, seconds=20)
    assert time.monotonic() - gone_s < 15, "far below the session timeout of 45 s"
    mine.produce(200)
    mine.all_seen()
    moved = compare(mine, before, after)
    assert moved == 1 if static else moved >= 1


def logs_of(group: Group, pod: str) -> str:
    """Of the pod's process, and of the one before. A join that TCP kept through a cut may arrive after the one of the
    connection that the client made since, and fences it, as in Kafka: librdkafka ends then, and is started again."""
    (status,) = group.pods()[pod]["status"]["containerStatuses"]
    before = group.client.kubectl("logs", pod, "--previous") if status["restartCount"] else ""
    return before + group.client.kubectl("logs", pod)


@both
def test_network_partition_of_a_pod(group: Callable[..., Group], static: bool) -> None:
    """Expelled at the session timeout and not before. Back again, the static id joins anew; all is consumed."""
    mine = group(static=static)
    before, victim = mine.stable(3), f"{mine.name}-2"
    cut_s = time.monotonic()
    with cut_off(victim):
        mine.produce(200)

        def all_in() -> None:
            assert len(mine.truth()["members"]) == 3, "expelled before its session timed out"

        throughout(cut_s + SESSION_S - 5, all_in)
        until("expulsion", lambda: len(mine.truth()["members"]) == 2, 5 + LATE_S)
        survivors = mine.stable(2)
        assert mine.pods()[victim]["metadata"].get("deletionTimestamp") is None, "a cut-off pod is not taken for gone"
    mine.stable(3, seconds=120)
    mine.produce(200)
    mine.all_seen(90)
    # Its old membership is refused (25), it learns that its partitions are somebody else's, and joins anew.
    assert '"lost"' in logs_of(mine, victim)
    assert compare(mine, before, survivors) >= 1
