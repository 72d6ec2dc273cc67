"""The operator dies at any request to a real API server; the next one, which remembers nothing, ends in the same state.

No controllers run here, so no pod exists: this covers everything that is written (children of both kinds, a new
revision, a changed scale, status). The same with pods, drains and evictions runs against the verified fake
(tests/controller/runtime/test_crashes.py).
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from muster_operator.app import Core
from muster_operator.kube.adapter import KubeAdapter
from muster_operator.kube.client import ApiClient, configuration
from muster_operator.runtime.clock import SystemClock, SystemRand
from muster_operator.runtime.metrics import Metrics

from e2e.node.client import Client
from e2e.operator_process import install_crds
from tests.controller.fakes.bench import SETTINGS
from tests.controller.fakes.bench import cluster as a_cluster
from tests.controller.fakes.bench import group as a_group
from tests.controller.fakes.fake_kube import FakeKube
from tests.controller.fakes.fake_services import FakeAdmin, FakeKafka
from tests.controller.fakes.faults import Crash, FaultLine

pytestmark = pytest.mark.timeout(560)
ROUNDS_MAX = 10
READS = {"get", "list", "replica", "group", "group_facts", "secret_value"}
KINDS = (
    "statefulsets,services,configmaps,serviceaccounts,secrets,pdb,networkpolicies,coordinatorclusters,consumergroups"
)


@pytest.fixture(scope="module")
def kube(api: Client) -> Iterator[KubeAdapter]:
    install_crds(api)
    observe = lambda verb, kind, code, seconds: None  # noqa: E731
    client = ApiClient(configuration(str(api.kubeconfig)), clock=SystemClock(), observe=observe)
    yield KubeAdapter(client)
    client.close()


async def converge(kube: KubeAdapter, namespace: str, line: FaultLine) -> None:
    """A new process: passes over everything until one round writes nothing."""
    core = Core(
        kube=line.wrap(kube), admin=FakeAdmin(FakeKube()), kafka=FakeKafka(), clock=SystemClock(), rand=SystemRand(),
        metrics=Metrics(), plan_settings=SETTINGS, namespaces=(namespace,), workers=1,
    )  # fmt: skip
    for _ in range(ROUNDS_MAX):
        before = len(line.names)
        await core.resync.list_all()
        core.resync.wake_all()
        await core.runner.drain()
        if all(name in READS for name in line.names[before:]):
            return
    raise AssertionError(f"still writing after {ROUNDS_MAX} rounds: {line.names[-20:]}")


def state(api: Client) -> dict[str, Any]:
    """Names, specs and conditions of everything, without what differs from run to run."""
    found = {}
    for live in api.read(KINDS)["items"]:
        spec = {k: v for k, v in live.get("spec", {}).items() if k not in ("clusterIP", "clusterIPs")}
        conditions = live.get("status", {}).get("conditions") or ()
        said = {one["type"]: (one["status"], one.get("reason")) for one in conditions}
        found[f"{live['kind']}/{live['metadata']['name']}"] = (spec, sorted(live.get("data", {})), said)
    return found


def masked(ended: dict[str, Any], namespace: str) -> Any:
    """`ended` without its namespace, which is in addresses, and without hashes of what holds them."""
    text = json.dumps(ended, sort_keys=True).replace(namespace, "NAMESPACE")
    return re.sub(r"c-config-[0-9a-f]+|\b[0-9a-f]{10,64}\b", "HASH", text)


def scene(api: Client, kube: KubeAdapter, namespace: str, at: int | None, *, after: bool, change: bool) -> Any:
    """(state, line) after a create, or after a new image and a new scale, with the operator dying once at `at`."""
    api.kubectl("create", "namespace", namespace)
    place = api.within(namespace)
    here = {"metadata": {"namespace": namespace}}
    make, ask = a_cluster(), a_group()
    objects = [{**one, "metadata": {**one["metadata"], **here["metadata"]}} for one in (make, ask)]
    place.apply(*objects)
    if change:
        asyncio.run(converge(kube, namespace, FaultLine()))
        objects[0]["spec"]["image"], objects[1]["spec"]["replicas"] = "muster:2", 5
        place.apply(*objects)
    line = FaultLine(at, after=after)
    try:
        asyncio.run(converge(kube, namespace, line))
        assert at is None, f"request {at} was never made"
    except Crash:
        asyncio.run(converge(kube, namespace, FaultLine()))
    ended = state(place)
    api.kubectl("delete", "namespace", namespace, "--wait=false")
    return ended, line


@pytest.mark.parametrize("change", [False, True], ids=["create", "new-image-and-scale"])
def test_a_crash_at_any_write_changes_nothing_about_the_end(api: Client, kube: KubeAdapter, change: bool) -> None:
    stem = f"crash-{'change' if change else 'create'}"
    wanted, line = scene(api, kube, f"{stem}-000-x", None, after=False, change=change)
    writes = [at for at, name in enumerate(line.names, 1) if name not in READS]
    assert len(writes) >= (5 if change else 12), line.names
    for at in writes:
        for after in (False, True):
            namespace = f"{stem}-{at:03}-{'a' if after else 'b'}"
            ended, _ = scene(api, kube, namespace, at, after=after, change=change)
            assert masked(ended, namespace) == masked(wanted, f"{stem}-000-x"), (
                f"crash {'after' if after else 'before'} {line.names[at - 1]}, request {at}"
            )
