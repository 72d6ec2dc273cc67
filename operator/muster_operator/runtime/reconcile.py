"""One pass over one object: observe, plan, execute, report. Level-triggered: a pass does not know what triggered it.

An error ends the steps, and the report follows in any case, so that the object's conditions say why nothing happens.
The result of a pass tells the queue when the next one is due:

| outcome | next pass |
|---|---|
| done | after the plan's time, with jitter; sooner if a lag-only status was delayed or an eviction was forbidden |
| Transient | back-off of this object, at least the wait that the other side asked for |
| Refused | the longest back-off: a change by a user is needed |
| Refused as forbidden | back-off of this object: the right or quota may be granted without a change here |
| a Certificate that cannot be asked for | back-off of this object if it is Ready, else as while pods are made |
| a name belongs to another owner's object | half a minute: one read shows whether the name is free |
| InvalidObject | when the object changes |
| another operator serves the namespace | half a minute; nothing is written but an Event |
| its namespace cannot be listed | as Refused or Transient, and at once when it can |
| the object is gone | never; while members of its pods have to be removed from the group, every second |
"""

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.api.errors import InvalidObject
from muster_operator.errors import FORBIDDEN, PORT_TAKEN, Conflict, OperatorError, Refused, ServedByAnother, Transient
from muster_operator.kube.kinds import CLUSTER, TOPIC, USER
from muster_operator.limits import (
    BACKOFF_MAX_MS,
    BLOCKED_RETRY_MS,
    CLAIM_RETRY_MS,
    JITTER,
    NAME_TAKEN_RETRY_MS,
    REQUEUE_MIN_MS,
)
from muster_operator.plan.actions import Event, Plan
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.conditions import condition
from muster_operator.plan.group import plan_group
from muster_operator.plan.pacing import Turns, need
from muster_operator.plan.rollout import next_step
from muster_operator.plan.settings import PlanSettings
from muster_operator.plan.topic import plan_topic
from muster_operator.plan.user import plan_user
from muster_operator.ports import Admin, Clock, Kafka, Kube, Rand
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.claims import Claims
from muster_operator.runtime.execute import Done, Executor, OwnerGone, Target
from muster_operator.runtime.failure import failure_event, with_failure, with_refused_leave, with_refused_replacement
from muster_operator.runtime.farewells import Farewells
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.lag_metrics import LagMetrics
from muster_operator.runtime.logins import Logins
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.observe_cluster import observe_cluster
from muster_operator.runtime.observe_group import observe_group
from muster_operator.runtime.observe_kafka_object import KafkaObjects
from muster_operator.runtime.own_clusters import OwnClusters
from muster_operator.runtime.recorder import Recorder
from muster_operator.runtime.referenced import Referenced
from muster_operator.runtime.report import Reporter
from muster_operator.runtime.scopes import Scopes
from muster_operator.runtime.settled import Settled
from muster_operator.runtime.tokens import Tokens
from muster_operator.world.cluster import ClusterWorld
from muster_operator.world.group import GroupWorld
from muster_operator.world.kafka_object import TopicWorld, UserWorld
from muster_operator.world.views import Unknown

Children = Mapping[tuple[str, str], Mapping[str, Any]] | Unknown
World = ClusterWorld | GroupWorld | TopicWorld | UserWorld
_WITH_FINALIZER = frozenset({TOPIC.kind, USER.kind})
"""Kinds of which something outside of Kubernetes is removed while they are being deleted."""
_log = logging.getLogger("muster.operator.reconcile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`result` is for metrics; exactly one of the times is set and says when the next pass is due (none: after a change
    only)."""

    result: str
    requeue_after_ms: int | None = None
    failed: bool = False
    at_least_ms: int = 0
    gone: bool = False


@dataclass(slots=True)
class Pass:
    """One pass, with what its report needs: the steps may end before there is a plan."""

    key: OwnerKey
    live: Mapping[str, Any]
    at: str = "start"
    plan: Plan | None = None
    done: Done | None = None


class Reconciler:
    def __init__(
        self,
        *,
        kube: Kube,
        admin: Admin,
        kafka: Kafka,
        cache: Cache,
        clock: Clock,
        rand: Rand,
        metrics: Metrics,
        recorder: Recorder,
        settings: PlanSettings,
        scopes: Scopes,
        claims: Claims | None = None,
    ) -> None:
        self._scopes = scopes
        self._kube, self._admin, self._kafka = kube, admin, kafka
        self._cache, self._clock, self._rand, self._metrics = cache, clock, rand, metrics
        self._recorder = recorder
        self._tokens = Tokens(kube, clock)
        self._logins = Logins(kube, clock)
        self._own_clusters = OwnClusters(cache, self._logins)
        self._kafka_objects = KafkaObjects(
            kube=kube, kafka=kafka, cache=cache, clock=clock, logins=self._logins, own_clusters=self._own_clusters
        )
        self._referenced = Referenced(kube, clock)
        self._settings = settings
        self._settled = Settled()
        self._reporter = Reporter(kube=kube, cache=cache, clock=clock, metrics=metrics)
        self._executor = Executor(
            kube=kube,
            admin=admin,
            kafka=kafka,
            cache=cache,
            clock=clock,
            rand=rand,
            metrics=metrics,
            settled=self._settled,
        )
        self._lag = LagMetrics(metrics)
        self._farewells = Farewells(kube=kube, kafka=kafka, cache=cache, clock=clock, metrics=metrics)
        self._claims = claims
        self._turns = Turns(at_once=settings.cluster_rollouts_max, delay_ms=settings.cluster_rollout_delay_ms)
        self._told: dict[OwnerKey, str] = {}
        """The last Event about a namespace that is not ours, per object: it is recorded once, not in each pass."""
        self._decisions: dict[OwnerKey, str] = {}

    async def reconcile(self, key: OwnerKey) -> Outcome:
        """One pass. Raises nothing; an exception is a bug."""
        live = self._cache.owner(key)
        self._farewells.gone(key, successor_uid=str(live["metadata"]["uid"]) if live is not None else None)
        if live is None:
            outcome = self._forget(key)
            return await self._farewell(key) if self._farewells.under_way(key) else outcome
        unclaimed = await self._unclaimed(key, live)
        if unclaimed is not None:
            return unclaimed
        if self._farewells.under_way(key):
            await self._farewell(key)  # of the deleted object; the new one of its name gets its pass in any case
        one = Pass(key, live)
        error: OperatorError | InvalidObject | None = None
        try:
            obstacle = self._scopes.obstacle(key.namespace, self._clock.monotonic_ms())
            if obstacle is not None:
                # A cluster that cannot be observed must not hold up the roll-outs of others.
                self._turns.forget(key, self._clock.monotonic_ms())
                raise obstacle
            one.at = "observe"
            world, target = await self._observe(one)
            one.at = "plan"
            one.plan = plan = self._plan(one, world)
            one.at = "execute"
            await self._execute(one, plan, target)
        except OwnerGone:
            # The cache lags: the watch or the next list brings the deletion.
            return Outcome(result="gone", requeue_after_ms=None)
        except (OperatorError, InvalidObject) as caught:
            error = caught
            if not isinstance(caught, Transient):
                self._turns.looked(key)
            _log.warning("pass failed", extra={"object": "/".join(key), "step": one.at, "error": str(caught)})
        return await self._report(one, error)

    async def _unclaimed(self, key: OwnerKey, live: Mapping[str, Any]) -> Outcome | None:
        """The end of a pass over an object whose namespace is not known to be ours: nothing is written but an Event."""
        ending = bool(live["metadata"].get("deletionTimestamp"))
        if self._claims is None or (ending and key.kind not in _WITH_FINALIZER):
            return None
        try:
            await self._claims.check(key.namespace)
        except OperatorError as error:
            if ending and not isinstance(error, ServedByAnother):
                return None  # in a namespace that is being deleted nothing can be claimed any more
            self._turns.looked(key)
            if self._told.get(key) != error.message:
                self._told[key] = error.message
                _log.warning("pass failed", extra={"object": "/".join(key), "step": "claim", "error": str(error)})
                warning = isinstance(error, Refused) and error.reason != FORBIDDEN
                await self._recorder.emit(live, Event(reason=error.reason, message=error.message, warning=warning))
            if isinstance(error, ServedByAnother):
                wait_ms = CLAIM_RETRY_MS * self._rand.uniform(1 - JITTER, 1 + JITTER)
                return Outcome(result="elsewhere", requeue_after_ms=int(wait_ms))
            return Outcome(result="transient", failed=True, at_least_ms=getattr(error, "retry_after_ms", 0))
        self._told.pop(key, None)
        return None

    async def _observe(self, one: Pass) -> tuple[World, Target]:
        metadata = one.live["metadata"]
        target = Target(key=one.key, uid=metadata["uid"], generation=int(metadata.get("generation") or 0))
        if one.key.kind == CLUSTER.kind:
            seen = await observe_cluster(
                one.key, one.live, cache=self._cache, kube=self._kube, admin=self._admin, clock=self._clock
            )
            cluster = dataclasses.replace(seen.world, children=self._intended(seen.world.children))
            return self._in_turn(one.key, cluster), dataclasses.replace(target, access=seen.access)
        if one.key.kind in _WITH_FINALIZER:
            look = self._kafka_objects.topic if one.key.kind == TOPIC.kind else self._kafka_objects.user
            kept: TopicWorld | UserWorld = await look(one.key, one.live)
            reached = None if isinstance(kept.where, Unknown) else kept.where
            return kept, dataclasses.replace(target, bootstrap=reached, deleting=kept.owner.deleting)
        world = await observe_group(
            one.key, one.live, cache=self._cache, tokens=self._tokens, admin=self._admin, kafka=self._kafka,
            clock=self._clock, referenced=self._referenced, logins=self._logins, own_clusters=self._own_clusters,
        )  # fmt: skip
        self._lag.observe(one.key, world.group, self._clock.monotonic_ms())
        self._farewells.saw(one.key, world)
        where = world.where
        bootstrap = None if isinstance(where, Unknown) else where
        world = dataclasses.replace(world, children=self._intended(world.children))
        return world, dataclasses.replace(target, bootstrap=bootstrap)

    def _in_turn(self, key: OwnerKey, world: ClusterWorld) -> ClusterWorld:
        """The world with the decision of `plan.pacing`."""
        wanted = need(world, self._settings, next_step(world, self._settings))
        why = self._turns.ask(key, wanted, known=self._cache.clusters(), now_ms=self._clock.monotonic_ms())
        return dataclasses.replace(world, must_wait=why)

    def _intended(self, children: Children) -> Children:
        if isinstance(children, Unknown):
            return children
        return {
            key: self._settled.as_intended(live) if "uid" in live["metadata"] else live
            for key, live in children.items()
        }

    def _plan(self, one: Pass, world: World) -> Plan:
        if isinstance(world, ClusterWorld):
            plan = plan_cluster(world, self._settings)
        elif isinstance(world, TopicWorld):
            plan = plan_topic(world, self._settings)
        elif isinstance(world, UserWorld):
            plan = plan_user(world, self._settings)
        else:
            plan = plan_group(world, self._settings)
        if self._decisions.get(one.key) != plan.decision:
            self._decisions[one.key] = plan.decision
            _log.info(
                "decided",
                extra={"object": "/".join(one.key), "decision": plan.decision, "reason": plan.reason},
            )
        return plan

    async def _execute(self, one: Pass, plan: Plan, target: Target) -> None:
        one.done = await self._executor.execute(plan, target)
        if plan.when_done:
            one.plan = dataclasses.replace(plan, status={**plan.status, **plan.when_done})
        for event in plan.events:
            await self._recorder.emit(one.live, event)

    async def _report(self, one: Pass, error: OperatorError | InvalidObject | None) -> Outcome:
        live = self._cache.owner(one.key) or one.live
        if live["metadata"]["uid"] != one.live["metadata"]["uid"]:
            return Outcome(result="gone")
        status = one.plan.status if one.plan is not None else None
        refused = one.done.refused or one.done.not_issued if one.done is not None else None
        told = refused if error is None else error
        if told is not None and not isinstance(told, Conflict):
            status = with_failure(
                live.get("status") or {}, status, told,
                generation=int(one.live["metadata"].get("generation") or 0), now_ms=self._clock.wall_ms(),
            )  # fmt: skip
            event = failure_event(told, live.get("status") or {}, now_ms=self._clock.wall_ms())
            await self._recorder.emit(one.live, event)
        not_replaced = one.done.not_replaced if one.done is not None else None
        if not_replaced is not None and status is not None:
            status = with_refused_replacement(
                live.get("status") or {}, status, not_replaced,
                generation=int(one.live["metadata"].get("generation") or 0), now_ms=self._clock.wall_ms(),
            )  # fmt: skip
        not_left = one.done.not_left if one.done is not None else None
        if not_left is not None and status is not None:
            status = with_refused_leave(
                live.get("status") or {}, status, not_left,
                generation=int(one.live["metadata"].get("generation") or 0), now_ms=self._clock.wall_ms(),
            )  # fmt: skip
        put_off: int | None = None
        if status is not None:
            try:
                put_off = await self._reporter.report(one.key, live, status)
            except OperatorError as failed:
                _log.warning("status not written", extra={"object": "/".join(one.key), "error": str(failed)})
                error = error or failed
            if one.key.kind == CLUSTER.kind:
                self._metrics.cluster(
                    one.key.namespace, one.key.name, status, one.plan.decision if one.plan else "Unknown"
                )
        return self._outcome(one, error, put_off)

    def _outcome(self, one: Pass, error: OperatorError | InvalidObject | None, put_off: int | None) -> Outcome:
        if isinstance(error, InvalidObject):
            return Outcome(result="invalid")
        if isinstance(error, Refused) and (error.reason == Reason.NAME_TAKEN or PORT_TAKEN in error.message):
            return Outcome(result="refused", requeue_after_ms=NAME_TAKEN_RETRY_MS)
        if isinstance(error, Refused):
            wait = 0 if error.reason == FORBIDDEN else BACKOFF_MAX_MS
            return Outcome(result="refused", failed=True, at_least_ms=wait)
        if error is not None:
            wait = error.retry_after_ms if isinstance(error, Transient) else 0
            return Outcome(result="transient", failed=True, at_least_ms=wait)
        assert one.plan is not None, "without an error there is a plan"
        if one.done is not None and one.done.refused is not None and one.plan.decision == Reason.CONVERGED:
            return Outcome(result="refused", failed=True, at_least_ms=BACKOFF_MAX_MS)
        if one.done is not None and one.done.not_issued is not None and not one.done.actions:
            if condition(one.plan.status, ClusterCondition.READY).get("status") == "True":
                wait = one.done.not_issued.retry_after_ms if isinstance(one.done.not_issued, Transient) else 0
                return Outcome(result="refused", failed=True, at_least_ms=wait)
            waits = [max(one.plan.requeue_after_ms, self._settings.wait_ms)]
        else:
            waits = [one.plan.requeue_after_ms]
        if put_off is not None:
            waits.append(put_off)
        if one.done is not None and one.done.blocked:
            waits.append(BLOCKED_RETRY_MS)
        wait_ms = min(waits) * self._rand.uniform(1 - JITTER, 1 + JITTER)
        if put_off is not None:
            wait_ms = max(wait_ms, min(waits))
        return Outcome(result="done", requeue_after_ms=max(REQUEUE_MIN_MS, int(wait_ms)))

    async def _farewell(self, key: OwnerKey) -> Outcome:
        """For an object that is gone: remove the members whose pods are gone, and schedule a pass for the others."""
        try:
            if self._claims is not None:
                await self._claims.check(key.namespace)
            wait_ms = await self._farewells.step(key)
        except ServedByAnother:
            self._farewells.drop(key)
            return Outcome(result="gone", gone=True)
        except OperatorError as error:
            _log.warning("pass failed", extra={"object": "/".join(key), "step": "farewell", "error": str(error)})
            return Outcome(result="transient", failed=True, at_least_ms=getattr(error, "retry_after_ms", 0))
        return Outcome(result="gone", requeue_after_ms=wait_ms, gone=wait_ms is None)

    def _forget(self, key: OwnerKey) -> Outcome:
        self._reporter.forget(key)
        self._lag.forget(key)
        self._referenced.forget(key)
        self._decisions.pop(key, None)
        self._told.pop(key, None)
        if key.kind == CLUSTER.kind:
            self._metrics.forget_cluster(key.namespace, key.name)
            self._turns.forget(key, self._clock.monotonic_ms())
        return Outcome(result="gone", gone=True)
