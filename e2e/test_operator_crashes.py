"""The operator dies at any request to a real API server; the next one, which remembers nothing, ends in the same state.

The API server and the controllers of Kubernetes are real (StatefulSets make, replace and remove pods, disruption
budgets hold), and so are the operator's adapter and everything above it. Played are nodes (`played_pods`) and the
answers of coordinators and Kafka. The operator's clock runs ahead of the real one, so that nobody waits.

A crash is injected after each request that changes something: the n-th of a run, for n = 1, 2, … until a run makes
fewer. A crash before a request leaves what a crash after the one before it left, since reads change nothing and
memory is lost either way; one before the first leaves nothing at all.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from muster_operator.app import Core
from muster_operator.kube.adapter import KubeAdapter
from muster_operator.kube.client import ApiClient
from muster_operator.kube.kinds import CHILDREN, CLUSTER, GROUP, OWNERS, POD, SECRET
from muster_operator.kube.login import Login
from muster_operator.runtime.clock import SystemClock, SystemRand
from muster_operator.runtime.metrics import Metrics

from e2e.conftest import missing
from e2e.node import session
from e2e.node.client import Client
from e2e.node.errors import Unavailable
from e2e.operator_process import install_crds
from e2e.played_pods import PlayedCoordinators, PlayedPods
from tests.operator.fakes.bench import SETTINGS
from tests.operator.fakes.bench import cluster as a_cluster
from tests.operator.fakes.bench import group as a_group
from tests.operator.fakes.fake_services import FakeKafka
from tests.operator.fakes.faults import Crash, FaultLine
from tests.operator.runtime.test_crashes import stable

pytestmark = pytest.mark.timeout(420)
ROUNDS_MAX = 150
ROUND_S = 0.05
AHEAD_MS = 5_000
"""A round of the operator's clock."""
WRITES_MAX = 150
READS = frozenset({"get", "list", "replica", "group", "group_facts", "secret_value"})
KINDS = (*OWNERS, *CHILDREN, SECRET, POD)
IMAGE = re.compile(r"coordinator:\d+")
HASHES = re.compile(r"c-config-[0-9a-f]+|\b[0-9a-f]{8,64}\b")


class AheadClock(SystemClock):
    """The real time and `ahead_ms`."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


@dataclass(slots=True, kw_only=True)
class Place:
    """A namespace with a cluster `c` and a group `g`."""

    name: str
    client: ApiClient
    clock: AheadClock
    pods: PlayedPods
    kafka: FakeKafka = field(init=False)
    image: int = 1
    replicas: int = 3

    def __post_init__(self) -> None:
        self.kafka = FakeKafka(self.pods)

    @property
    def kube(self) -> KubeAdapter:
        return KubeAdapter(self.client)

    async def put(self) -> None:
        """Both objects with the wanted image and replicas, as a user applies them."""
        for body in (a_cluster(image=f"coordinator:{self.image}"), a_group(replicas=self.replicas)):
            body["metadata"]["namespace"] = self.name
            await self.kube.apply(body)


@pytest.fixture(scope="module")
def controlled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    """An API server with Kubernetes' controllers and no node."""
    try:
        plane = session.api_only(tmp_path_factory.mktemp("controlled"), controllers=True)
    except Unavailable as reason:
        missing("api", str(reason))
    try:
        install_crds(Client(tools=plane.tools, kubeconfig=plane.kubeconfig))
        yield Login(str(plane.kubeconfig))
    finally:
        plane.stop()


def run(login: Login, scenes: Callable[[ApiClient], Awaitable[None]]) -> None:
    """`scenes` with a client of the API server."""

    async def whole() -> None:
        async with ApiClient(login, clock=SystemClock(), observe=lambda verb, kind, code, seconds: None) as client:
            await scenes(client)

    asyncio.run(whole())


async def a_place(client: ApiClient, name: str) -> Place:
    answer = await client.call(
        "POST", "/api/v1/namespaces", verb="create", kind="Namespace",
        body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
    )  # fmt: skip
    assert answer.ok, answer.document
    place = Place(name=name, client=client, clock=AheadClock(), pods=PlayedPods(client, name))
    place.kafka.groups["g"] = stable(3)
    await place.put()
    return place


async def converge(place: Place, line: FaultLine) -> None:
    """A new process: passes over everything until a round writes nothing and everything is as wanted. May Crash."""
    core = Core(
        kube=line.wrap(place.kube), admin=line.wrap(PlayedCoordinators(place.pods)), kafka=line.wrap(place.kafka),
        clock=place.clock, rand=SystemRand(), metrics=Metrics(), plan_settings=SETTINGS, namespaces=(place.name,),
        workers=1,
    )  # fmt: skip
    for _ in range(ROUNDS_MAX):
        before = line.count
        calm = await place.pods.step(place.clock.wall_ms())
        await core.resync.list_all()
        core.resync.wake_all()
        await core.runner.drain()
        if calm and line.count == before and await is_settled(place):
            return
        place.clock.ahead_ms += AHEAD_MS
        await asyncio.sleep(ROUND_S)
    ended = json.dumps(await state(place), indent=1)
    raise AssertionError(f"not as wanted after {ROUNDS_MAX} rounds; last {line.names[-20:]}\n{ended[:6_000]}")


async def is_settled(place: Place) -> bool:
    for kind in (CLUSTER, GROUP):
        (live,) = await place.kube.list(api_version=kind.api_version, kind=kind.kind, namespace=place.name)
        status = live.get("status") or {}
        said = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        if status.get("observedGeneration") != live["metadata"]["generation"]:
            return False
        if (said.get("Ready"), said.get("Progressing")) != ("True", "False"):
            return False
    return True


async def state(place: Place) -> Any:
    """Specs, data keys and conditions of everything, without what differs from run to run."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        for live in await place.kube.list(api_version=kind.api_version, kind=kind.kind, namespace=place.name):
            name = live["metadata"]["name"]
            if name in ("default", "kube-root-ca.crt"):
                continue
            if kind is POD:
                found[f"Pod/{name}"] = live["spec"]["containers"][0]["image"]
                continue
            spec = {k: v for k, v in live.get("spec", {}).items() if k not in ("clusterIP", "clusterIPs")}
            conditions = live.get("status", {}).get("conditions") or () if kind in OWNERS else ()
            said = {one["type"]: (one["status"], one.get("reason")) for one in conditions}
            found[f"{kind.kind}/{name}"] = (spec, sorted(live.get("data", {})), said)
    view = place.kafka.groups["g"]
    found["members"] = sorted(one.instance_id or "" for one in getattr(view, "members", ()))
    text = json.dumps(found, sort_keys=True).replace(place.name, "NAMESPACE")
    return json.loads(HASHES.sub("HASH", IMAGE.sub("coordinator:N", text)))


async def with_crash(place: Place, at: int | None) -> FaultLine:
    """To the end, by one process, or by two of which the first dies after its write number `at`."""
    line = FaultLine(at, after=True, ignored=READS)
    try:
        await converge(place, line)
    except Crash:
        await converge(place, FaultLine(ignored=READS))
    return line


async def at_every_write(
    what: str, scene: Callable[[int | None], Awaitable[tuple[Place, FaultLine]]], least: int
) -> None:
    """The same end without a crash and with one at each write."""
    calm, line = await scene(None)
    wanted = await state(calm)
    assert line.count >= least, line.names
    at, began = 1, time.monotonic()
    while True:
        place, line = await scene(at)
        assert await state(place) == wanted, f"{what}: crash after {line.names[-1]}, write {at}"
        if not line.dead:
            break  # a whole run without a crash: every boundary was met
        at += 1
        assert at <= WRITES_MAX, f"{what} writes for ever"
    print(f"{what}: crashed after each of {at - 1} writes, {time.monotonic() - began:.0f} s")
    assert at > least


def test_create(controlled: Login) -> None:
    async def all_scenes(client: ApiClient) -> None:
        async def scene(at: int | None) -> tuple[Place, FaultLine]:
            place = await a_place(client, f"create-{at or 'calm'}")
            return place, await with_crash(place, at)

        await at_every_write("create", scene, 14)

    run(controlled, all_scenes)


def test_restart(controlled: Login) -> None:
    """A new image: each coordinator is drained, evicted and waited for, whoever dies in between."""

    async def all_scenes(client: ApiClient) -> None:
        place = await a_place(client, "restart")
        await converge(place, FaultLine(ignored=READS))

        async def scene(at: int | None) -> tuple[Place, FaultLine]:
            place.image += 1
            await place.put()
            line = await with_crash(place, at)
            images = {pod["spec"]["containers"][0]["image"] for key, pod in place.pods.objects.items() if key[2] < "d"}
            assert images == {f"coordinator:{place.image}"}
            return place, line

        await at_every_write("restart", scene, 10)

    run(controlled, all_scenes)


def test_scale(controlled: Login) -> None:
    """A group of three scaled down to one: its members go when their pods are gone, whoever dies in between."""

    async def all_scenes(client: ApiClient) -> None:
        place = await a_place(client, "scale")
        await converge(place, FaultLine(ignored=READS))

        async def scene(at: int | None) -> tuple[Place, FaultLine]:
            place.replicas = 3
            place.kafka.groups["g"] = stable(3)
            await place.put()
            await converge(place, FaultLine(ignored=READS))
            place.replicas = 1
            await place.put()
            before = len(place.kafka.removed)
            line = await with_crash(place, at)
            # At once or one after the other, as their pods went.
            gone = [member for _, members in place.kafka.removed[before:] for member in members]
            assert sorted(gone) == ["g-1", "g-2"]
            return place, line

        await at_every_write("scale", scene, 4)

    run(controlled, all_scenes)
