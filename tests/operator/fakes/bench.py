"""A whole operator on a fake API server and virtual time: `World.run()` runs passes and controllers until nothing
moves."""

import asyncio
from typing import Any

from muster_operator.app import Core
from muster_operator.kube.kinds import WATCHED, selector_for
from muster_operator.plan.settings import PlanSettings
from muster_operator.runtime.metrics import Metrics

from tests.operator.fakes.clocks import FakeClock, FakeRand
from tests.operator.fakes.fake_controllers import FakeControllers
from tests.operator.fakes.fake_kube import FakeKube
from tests.operator.fakes.fake_services import FakeAdmin, FakeKafka
from tests.operator.fakes.faults import FaultLine

KINDS = {one.kind: one for one in WATCHED}
SETTINGS = PlanSettings(operator_image="muster:1", operator_namespace="ops", operator_labels={"app": "muster-operator"})

RELEASE = "ops/muster-operator"


class World:
    """One API server with its controllers, one Kafka, and at most one operator process."""

    def __init__(self, fake: FakeKube | None = None) -> None:
        self.clock = FakeClock()
        self.fake = fake or FakeKube()
        self.controllers = FakeControllers(self.fake, self.clock)
        self.admin = FakeAdmin(self.fake)
        self.controllers.stays_out = self.admin.stays_out
        self.kafka = FakeKafka(self.fake)
        self.core: Core | None = None
        self.metrics = Metrics()
        self.fake.watchers.append(self._event)

    def start(self, line: FaultLine | None = None, namespaces: tuple[str, ...] = ()) -> Core:
        """A new operator process: nothing is remembered. `line` wraps everything that it asks."""
        self.core = self._process(line, RELEASE, namespaces)
        return self.core

    def start_other(self, release: str) -> Core:
        """A process of another release beside the first. It is told nothing by watches: `resync.list_all`."""
        return self._process(None, release, ())

    def _process(self, line: FaultLine | None, release: str, namespaces: tuple[str, ...]) -> Core:
        self.metrics = Metrics()
        wrap = (line or FaultLine()).wrap
        return Core(
            kube=wrap(self.fake), admin=wrap(self.admin), kafka=wrap(self.kafka), clock=self.clock, rand=FakeRand(),
            metrics=self.metrics, plan_settings=SETTINGS, release=release, namespaces=namespaces,
        )  # fmt: skip

    def stop(self) -> None:
        self.core = None

    def _event(self, change: str, kind: str, live: dict[str, Any]) -> None:
        if self.core is None or kind not in KINDS:
            return
        wanted = selector_for(KINDS[kind]).items()
        if wanted <= (live["metadata"].get("labels") or {}).items():
            self.core.observe(KINDS[kind], change, live)

    async def run(self, milliseconds: int, *, controllers: bool = True) -> None:
        """Let virtual time pass in steps of a second."""
        assert self.core is not None
        end = self.clock.now_ms + milliseconds
        while self.clock.now_ms < end:
            if controllers:
                self.controllers.step()
            await self.core.runner.drain()
            self.clock.advance(min(1_000, end - self.clock.now_ms))

    async def begin(self) -> None:
        """First list and first look at everything."""
        assert self.core is not None
        await self.core.resync.list_all()
        self.core.resync.wake_all()


def cluster(name: str = "c", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "CoordinatorCluster",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicas": 3, **spec},
    }


def group(name: str = "g", *, template: bool = True, **spec: Any) -> dict[str, Any]:
    containers = {"template": {"image": "consumer:1"}} if template else {}
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"bootstrapServers": "kafka:9092", "groupId": name, "topics": ["orders"], "replicas": 3,
                 **containers, **spec},
    }  # fmt: skip


def topic(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"bootstrapServers": "kafka:9092", **spec},
    }


def user(name: str = "billing", **spec: Any) -> dict[str, Any]:
    return {**topic(name, **spec), "kind": "User"}


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)
