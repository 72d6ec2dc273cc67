"""The composition root: builds every part, starts them in order, and stops them in the reverse order.

Start: probes → first lists (fill the cache) → watches → wait for the Lease → workers. Only the Lease's holder runs
workers; a standby keeps its cache warm. A signal or a lost Lease ends the process, and Kubernetes starts it again; a
namespace that cannot be listed or watched does not end it (`runtime.scopes`).

kopf's part is in `handlers`: it logs in and watches, and its events go into the cache and the queue. Reasons for what
is not left to kopf: docs/adr/0008-operator.md.
"""

import asyncio
import contextlib
import functools
import importlib.metadata
import logging
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from muster_operator.admin.adapter import AdminAdapter
from muster_operator.kafka.adapter import KafkaAdapter
from muster_operator.kafka.clients import Clients
from muster_operator.kube.adapter import KubeAdapter
from muster_operator.kube.client import ApiClient
from muster_operator.kube.kinds import Kind
from muster_operator.kube.login import Login
from muster_operator.limits import KUBE_CONNECTIONS_MAX, LEASE_CALL_TIMEOUT_MS, RELIST_MIN_MS, WORKERS_DEFAULT
from muster_operator.plan.settings import PlanSettings
from muster_operator.ports import Admin, Clock, Kafka, Kube, Rand
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.claims import Claims
from muster_operator.runtime.clock import SystemClock, SystemRand
from muster_operator.runtime.election import Elector
from muster_operator.runtime.health import Pulse
from muster_operator.runtime.kopf_watch import KopfWatch
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.notices import Notices
from muster_operator.runtime.patient import PatientKafka
from muster_operator.runtime.probes import Probes
from muster_operator.runtime.reconcile import Reconciler
from muster_operator.runtime.recorder import Recorder
from muster_operator.runtime.resync import Resync
from muster_operator.runtime.runner import Runner
from muster_operator.runtime.scopes import Scopes
from muster_operator.runtime.watches import Watches
from muster_operator.settings import Settings

_log = logging.getLogger("muster.operator.app")
Untyped = Any


class Core:
    """Cache, queue and passes: everything between the ports, without watches, Lease or sockets. Tests build it too."""

    def __init__(
        self,
        *,
        kube: Kube,
        admin: Admin,
        kafka: Kafka,
        clock: Clock,
        rand: Rand,
        metrics: Metrics,
        plan_settings: PlanSettings,
        namespaces: tuple[str, ...] = (),
        workers: int = WORKERS_DEFAULT,
        instance: str = "muster-operator",
        release: str | None = None,
    ) -> None:
        """`release`: the name under which namespaces are claimed; None: no namespace is claimed."""
        self.cache = Cache()
        self.claims = Claims(kube, clock, holder=release) if release is not None else None
        self._clock = clock
        self.scopes = Scopes(namespaces)
        self.recorder = Recorder(kube, clock, metrics, instance=instance)
        patient = PatientKafka(kafka, self._aside)
        self.reconciler = Reconciler(
            kube=kube, admin=admin, kafka=patient, cache=self.cache, clock=clock, rand=rand, metrics=metrics,
            recorder=self.recorder, settings=plan_settings, scopes=self.scopes,
            claims=self.claims,
        )  # fmt: skip
        self.runner = Runner(self.reconciler, clock=clock, metrics=metrics, workers=workers)
        self.resync = Resync(
            kube=kube, cache=self.cache, runner=self.runner, clock=clock, rand=rand, scopes=self.scopes
        )

    def _aside(self) -> contextlib.AbstractContextManager[None]:
        return self.runner.aside()

    def namespaces(self) -> set[str]:
        """Namespaces with objects of our kinds."""
        return {key.namespace for key in self.cache.owners()}

    def observe(self, kind: Kind, change: str | None, body: Untyped) -> None:
        """Take one event of a watch."""
        self.runner.enqueue(self.cache.observe(kind, change, body))
        if change is None:
            scope = self.scopes.of(body["metadata"].get("namespace", ""))
            if scope.listed_ms is not None and self._clock.monotonic_ms() - scope.listed_ms > RELIST_MIN_MS:
                self.resync.ask(scope)  # a restarted watch does not report what was deleted in between


class Operator:
    """`run` until a signal or an error; it returns normally after a clean stop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.identity = settings.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self.metrics = Metrics()
        self._clock, self._rand = SystemClock(), SystemRand()
        self._login = Login(settings.kubeconfig)
        self._client = ApiClient(self._login, clock=self._clock, observe=self.metrics.kube_call)
        # A separate client: slow requests in the queue of the other one must not cost the Lease.
        self._lease_client = ApiClient(
            self._login,
            clock=self._clock,
            observe=self.metrics.kube_call,
            connections=max(2, KUBE_CONNECTIONS_MAX // 8),
        )
        self._admin = AdminAdapter()
        self._kafka = KafkaAdapter(Clients(self._clock))
        self.core = Core(
            kube=KubeAdapter(self._client), admin=self._admin, kafka=self._kafka, clock=self._clock, rand=self._rand,
            metrics=self.metrics, plan_settings=plan_settings(settings), namespaces=settings.namespaces,
            workers=settings.workers, instance=self.identity,
            release=f"{settings.own_namespace}/{settings.lease_name}" if settings.leader_elect else None,
        )  # fmt: skip
        lease_kube = KubeAdapter(self._lease_client, read_timeout_s=LEASE_CALL_TIMEOUT_MS / 1_000)
        self._elector = Elector(
            lease_kube, self._clock, namespace=settings.own_namespace, identity=self.identity, name=settings.lease_name
        )
        self._notices = Notices(
            kube=KubeAdapter(self._client), recorder=self.core.recorder, scopes=self.core.scopes, clock=self._clock,
            own_namespace=settings.own_namespace, lease_name=settings.lease_name,
        )  # fmt: skip
        self._started_ms = self._clock.monotonic_ms()
        self._leading = False
        self.stop = asyncio.Event()
        self.probe_port = 0

    async def run(self) -> None:
        """Raises LeadershipLost, or the error that ended a part."""
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, self.stop.set)
        probes = Probes(pulse=self.pulse, metrics=self.metrics, before_metrics=self._refresh_metrics)
        self.probe_port = await probes.start(self.settings.probe_host, self.settings.probe_port)
        try:
            await _until_first_ends(self._watch, self._work, self.stop.wait)
        finally:
            for one in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(one)
            if self._leading and self.settings.leader_elect:
                await self._give_up()
            await probes.close()
            await self._admin.close()
            await self._kafka.close()
            await self._client.close()
            await self._lease_client.close()

    async def _give_up(self) -> None:
        """Release the Lease, best effort: if the API server does not answer, the Lease expires by itself, and the error
        that ended the process must stay the reported one."""
        try:
            await asyncio.wait_for(self._elector.release(), LEASE_CALL_TIMEOUT_MS / 1_000)
        except TimeoutError:
            _log.warning("lease not released", extra={"error": "the API server did not answer in time"})

    def pulse(self) -> Pulse:
        now = self._clock.monotonic_ms()
        queue = self.core.runner.queue
        return Pulse(
            uptime_ms=now - self._started_ms,
            leading=self._leading,
            oldest_ms=queue.oldest_ms(now),
            longest_pass_ms=queue.longest_running_ms(now),
            list_age_ms=self.core.scopes.age_ms(now),
            unready=tuple(self.core.scopes.unready()),
        )

    async def _work(self) -> None:
        """List every scope continuously; once the first objects are listed, wait for the Lease and run workers while it
        is held."""
        parts: list[Callable[[], Awaitable[Untyped]]] = [self.core.resync.run, self._act]
        await _until_first_ends(*parts)

    async def _act(self) -> None:
        await self.core.resync.begun()
        parts: list[Callable[[], Awaitable[Untyped]]] = [self.core.runner.run]
        if self.settings.leader_elect:
            await self._elector.acquire()
            parts += [self._elector.hold, self._notices.run]
        if self.core.claims is not None:
            parts.append(functools.partial(self.core.claims.run, self.core.namespaces))
        self._leading = True
        self.metrics.is_leader.set(1)
        _log.info("leading", extra={"identity": self.identity})
        self.core.resync.wake_all()
        try:
            await _until_first_ends(*parts)
        finally:
            self.metrics.is_leader.set(0)

    async def _watch(self) -> None:
        """Watches of every scope, until cancelled."""

        def start(namespace: str, kinds: frozenset[Kind]) -> KopfWatch:
            return KopfWatch(namespace=namespace, kinds=kinds, observe=self.core.observe, login=self._login)

        await Watches(start=start, ask=self.core.resync.ask, scopes=self.core.scopes, clock=self._clock).run()

    def _refresh_metrics(self) -> None:
        self.core.runner.observe_queue()
        age = self.core.scopes.list_age_ms(self._clock.monotonic_ms())
        self.metrics.list_age.set(-1 if age is None else age / 1_000)
        self.metrics.refused_namespaces.set(self.core.claims.refused() if self.core.claims is not None else 0)
        for scope in self.core.scopes:
            self.metrics.served.labels(scope.namespace).set(scope.served)
        for kind, count in self.core.cache.counts().items():
            self.metrics.cached.labels(kind).set(count)


def plan_settings(settings: Settings) -> PlanSettings:
    return PlanSettings(
        operator_image=settings.image,
        operator_release=importlib.metadata.version("muster"),
        operator_namespace=settings.own_namespace,
        operator_labels=dict(settings.pod_labels),
        image_pull_policy=settings.image_pull_policy,
        platform_sets_user=settings.platform_sets_user,
        cluster_rollouts_max=settings.max_concurrent_cluster_rollouts,
        cluster_rollout_delay_ms=settings.cluster_rollout_delay_s * 1_000,
    )


async def _until_first_ends(*parts: Callable[[], Awaitable[Untyped]]) -> None:
    """Run `parts` side by side until one ends or fails; then cancel the others and wait for them. Raises its error."""
    tasks = [asyncio.ensure_future(part()) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
