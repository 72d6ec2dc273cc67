"""What may come after the operator, and go before it, on a node: definitions, and a namespace that it watches.

On an API server alone, with more of each: `test_scopes`. Here the kubelet judges readiness and life, and real
controllers take a namespace apart. Before all other tests: definitions are cluster-wide.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e.fleet import Cluster, condition, install_operator, is_ready, throughout, until
from e2e.node import paths
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.operator_process import established

pytestmark = [pytest.mark.first, pytest.mark.timeout(600)]

DEPLOYMENT = "deployment/muster-operator"
SELECTOR = "app.kubernetes.io/component=operator"
BEFORE_DEFINITIONS_S = 60.0
NOTICED_S = 60.0
SMALL = {"replicas": 1, "offsetsPartitions": 3}


def operator_pod(operator: Client) -> dict[str, Any]:
    """The only one that there is; {} while there are none or two."""
    found: list[dict[str, Any]] = operator.read("pods", f"--selector={SELECTOR}")["items"]
    return found[0] if len(found) == 1 else {}


def restarts(operator: Client) -> int:
    """Of its container."""
    (pod,) = operator.read("pods", f"--selector={SELECTOR}")["items"]
    return sum(int(one["restartCount"]) for one in pod["status"].get("containerStatuses", ()))


def test_definitions_come_a_minute_after_the_chart(bare: Client, namespace: Client, node: Description) -> None:
    """Under a namespaced role. Not Ready until then, and alive; then objects at once."""
    served = f"--set=watchNamespaces={{{namespace.namespace}}}"
    operator = install_operator(node, "--set=crds.install=false", served, wait=False)
    until("the operator's process", lambda: restarts(operator) == 0 and running(operator), 60)

    def waits() -> None:
        assert not is_ready(operator_pod(operator)), "there is nothing yet that it could serve"
        assert restarts(operator) == 0

    throughout(time.monotonic() + BEFORE_DEFINITIONS_S, waits)
    operator.kubectl("apply", "--server-side", f"--filename={paths.ROOT / 'crds'}")
    established(operator)
    began_s = time.monotonic()
    Cluster.create(namespace, **SMALL).ready()
    print(f"a cluster was Ready {time.monotonic() - began_s:.1f} s after its definition was served")
    until("readiness", lambda: is_ready(operator_pod(operator)), NOTICED_S)
    assert restarts(operator) == 0


def running(operator: Client) -> bool:
    (pod,) = operator.read("pods", f"--selector={SELECTOR}")["items"]
    return any("running" in one["state"] for one in pod["status"].get("containerStatuses", ()))


def test_a_watched_namespace_is_deleted(bare: Client, namespace: Client, elsewhere: Client, node: Description) -> None:
    """It costs itself: a restarted operator is Ready and serves the other one; made again, it is served again."""
    both = f"--set=watchNamespaces={{{namespace.namespace},{elsewhere.namespace}}}"
    operator = install_operator(node, both)
    cluster = Cluster.create(namespace, **SMALL).ready()
    Cluster.create(elsewhere, **SMALL).ready()
    elsewhere.kubectl("delete", "namespace", elsewhere.namespace, "--timeout=100s", timeout_s=110)
    for restarted in (False, True):
        if restarted:
            operator.kubectl("delete", "pod", f"--selector={SELECTOR}")
        until("one operator that is Ready", ready(operator), NOTICED_S)
        edited(cluster, restarted)
    assert restarts(operator) == 0
    operator.kubectl("create", "namespace", elsewhere.namespace)
    install_operator(node, both)  # its Role went with it
    Cluster.create(elsewhere, **SMALL).ready()


def ready(operator: Client) -> Callable[[], bool]:
    return lambda: bool((pod := operator_pod(operator)) and is_ready(pod))


def edited(cluster: Cluster, restarted: bool) -> None:
    """The operator acts on a change of it: a pause, and its end."""
    for mark, paused in (("muster.dev/paused=true", True), ("muster.dev/paused-", False)):
        cluster.client.kubectl("annotate", f"cc/{cluster.name}", mark)

        def told(paused: bool = paused) -> bool:
            return (condition(cluster.read(), "Paused").get("status") == "True") is paused

        until(f"word that it is paused: {paused}; operator restarted: {restarted}", told, NOTICED_S)
