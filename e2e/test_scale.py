"""Groups that grow and shrink by `kubectl scale`, and two processes with one instance id."""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.fleet import Group, condition, until
from e2e.watching import watching

pytestmark = pytest.mark.timeout(300)

SESSION_S = 45
HEARTBEAT_S = 3
"""Kafka's defaults, as most groups run."""
OWNED_AGAIN_S = 5.0
SHORT_SESSION_S = 6


def test_scale_up_and_down(group: Callable[..., Group]) -> None:
    """3→5→2: after scale-down nobody waits for the session timeout of those that left."""
    session = {"timeoutSeconds": SESSION_S, "heartbeatIntervalSeconds": HEARTBEAT_S}
    mine = group(replicas=3, session=session)
    three = mine.stable(3)
    mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=5")
    five = mine.stable(5)
    until("every pod Ready", lambda: mine.read()["status"]["readyText"] == "5/5", 60)
    with watching(mine.client, mine.selector) as pods:
        mine.client.kubectl("scale", f"cg/{mine.name}", "--replicas=2")
        gone_s = max(until("end of three pods", lambda: len(pods.gone()) == 3 and pods.gone(), 60).values())
        two, owned_s = mine.stable_at(2, seconds=20)
    print(f"{mine.name}: generation {three} with 3, {five} with 5, {two} with 2")
    print(f"every partition owned {owned_s - gone_s:.1f} s after the last pod was gone")
    assert owned_s - gone_s <= OWNED_AGAIN_S
    assert sorted(pods.gone()) == [f"{mine.name}-{ordinal}" for ordinal in (2, 3, 4)]
    assert five > three
    assert 1 <= two - five <= 3, "one rebalance for each of the three at most"
    assert sorted(member["instance"] for member in mine.truth()["members"]) == [f"{mine.name}-0", f"{mine.name}-1"]
    mine.produce(200)
    mine.all_seen()


def test_a_duplicate_instance_id_is_fenced_and_named(group: Callable[..., Group]) -> None:
    """A pod that takes another's id: the coordinator fences one of the two, and the object says which id it is."""
    mine = group(replicas=2, session_s=SHORT_SESSION_S)
    victim = f"{mine.name}-1"
    until("static members", lambda: condition(mine.read(), "StaticMembership").get("status") == "True", 60)
    mine.client.apply(imposter(mine, victim))
    try:

        def named() -> dict[str, Any] | None:
            found = dict(condition(mine.read(), "StaticMembership"))
            return found if found.get("reason") == "DuplicateInstanceId" else None

        said = until("a condition that names the duplicate", named, 120)
        assert said["status"] == "False"
        assert f"instance {victim} " in said["message"]
        assert condition(mine.read(), "Degraded").get("reason") == "DuplicateInstanceId"
        until("fencing of the pod that had the id first", lambda: was_fenced(mine, victim), 60)
    finally:
        mine.client.kubectl("delete", "pod", f"{mine.name}-imposter", "--grace-period=1")
    until(
        "members that are static again", lambda: condition(mine.read(), "StaticMembership").get("status") == "True", 150
    )
    mine.stable(2)
    mine.produce(200)
    mine.all_seen()


def imposter(mine: Group, instance: str) -> dict[str, Any]:
    """A pod of nobody's with the group's program and settings, and the instance id of one of its pods."""
    pod = mine.pods()[instance]
    container = pod["spec"]["containers"][0]
    env = [one for one in container["env"] if "value" in one] + [{"name": "INSTANCE_ID", "value": instance}]
    keys = ("name", "image", "imagePullPolicy", "command", "securityContext")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{mine.name}-imposter"},
        "spec": {
            "securityContext": pod["spec"]["securityContext"],
            "volumes": [{"name": "program", "configMap": {"name": "e2e-consumer"}}],
            "containers": [
                {
                    **{key: container[key] for key in keys if key in container},
                    "env": env,
                    "volumeMounts": [{"name": "program", "mountPath": "/program", "readOnly": True}],
                }
            ],
        },
    }


def was_fenced(mine: Group, pod: str) -> bool:
    """Whether the pod's program ended because the coordinator refused its instance id."""
    status = mine.pods()[pod]["status"]["containerStatuses"][0]
    if status["restartCount"] == 0:
        return False
    log = mine.client.kubectl("logs", pod, "--previous")
    return '"event": "fatal"' in log and "fenced by other consumer" in log
