"""The operator is cut off from the API server in the middle of a roll, or that server restarts: the roll ends as it
should, each coordinator is restarted once, and no commit fails.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from e2e import cut_watches
from e2e.commit_load import committing
from e2e.fleet import Cluster, is_ready, until
from e2e.node.client import Client
from e2e.node.errors import Broken
from e2e.node.session import Description
from e2e.watching import watching

pytestmark = pytest.mark.timeout(700)

ROLLED_S = 400.0
OPERATORS = "app.kubernetes.io/component=operator"


def operator_pod(operator: Client) -> str:
    (pod,) = operator.read("pods", f"--selector={OPERATORS}")["items"]
    return str(pod["metadata"]["name"])


def all_new(pods: Mapping[str, Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]) -> bool:
    return pods.keys() == before.keys() and all(
        is_ready(pod) and pod["metadata"]["uid"] != before[name]["metadata"]["uid"] for name, pod in pods.items()
    )


def reset(pod: str) -> "nullcontext[int]":
    return nullcontext(cut_watches.reset(pod))


@pytest.mark.parametrize("cut", [reset, cut_watches.silenced], ids=["reset", "silent"])
def test_connections_cut_in_the_middle_of_a_roll(
    operator: Client, shared: Cluster, cut: Callable[[str], Any], request: pytest.FixtureRequest
) -> None:
    before = shared.pods()
    prefix = f"load-cut-{request.node.callspec.id}"
    with committing(shared, prefix) as load, watching(shared.client, shared.selector) as pods:
        shared.client.plugin("restart", f"cc/{shared.name}", "--no-wait")
        until("the first pod that stops", pods.stopped, 120, every=0.05)
        with cut(operator_pod(operator)) as connections:
            print(f"{connections} connections to the API server were cut")
            assert connections >= 2, "watches and requests have connections of their own"
            until("three new coordinators", lambda: all_new(pods.now(), before), ROLLED_S)
        shared.ready()
        load.check()
    assert pods.unavailable_max(3) == 1
    assert len([one for one in pods.events if one.type == "DELETED"]) == 3, "each was restarted once"


@contextmanager
def sampling(cluster: Cluster) -> Iterator[dict[str, set[str]]]:
    """Pod name → every uid that it was seen with. No watch outlives the server."""
    found: dict[str, set[str]] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            try:
                pods = cluster.pods()
            except Broken:
                continue
            for name, pod in pods.items():
                found.setdefault(name, set()).add(pod["metadata"]["uid"])

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join(30)


def test_the_api_server_is_restarted_in_the_middle_of_a_roll(
    operator: Client, shared: Cluster, node: Description
) -> None:
    before = shared.pods()
    with committing(shared, "load-api") as load, sampling(shared) as seen:
        shared.client.plugin("restart", f"cc/{shared.name}", "--no-wait")

        def first_is_stopped() -> bool:
            pods = shared.pods()
            uids = {
                name: pod["metadata"]["uid"] for name, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]
            }
            return uids != {name: pod["metadata"]["uid"] for name, pod in before.items()}

        until("the first pod that stops", first_is_stopped, 120)
        away_s = cut_watches.restart_api_server(node)
        print(f"the API server was away for {away_s:.1f} s")

        def rolled() -> bool:
            try:
                return all_new(shared.pods(), before)
            except Broken:
                return False

        until("three new coordinators", rolled, ROLLED_S)
        shared.ready()
        load.check()
    assert {name: len(uids) for name, uids in seen.items()} == dict.fromkeys(before, 2), "each was restarted once"
    operator.kubectl("rollout", "status", "deployment/muster-operator", "--timeout=90s", timeout_s=100)
