"""Removes the static members of a deleted ConsumerGroup: recorded while the object exists, removed once it is gone.

Problem: a deleted object has no status in which members could be recorded, and a finalizer would block deletions while
no operator runs or no broker answers. Mechanism: each pass records in memory which members were seen in the object's
pods (`plan.departing.present`), and the group's addresses. After the deletion each of these pods is waited for; once
the API server itself says that a pod is gone, exactly its member is removed, by instance id and member id: a successor
of the same name has another member id.

Deliberately not here: anything that outlives the process. An operator that starts between the deletion and the end of
the pods does not know of them, and a cluster that does not answer is retried only while its members could still be
listed (grace period plus session timeout); after that their sessions have expired. A deletion is never delayed.
"""

import logging
from dataclasses import dataclass, field

from muster_operator.kube.kinds import POD
from muster_operator.limits import FAREWELL_LOOK_MS, FAREWELLS_MAX
from muster_operator.plan.departing import Record, present
from muster_operator.ports import Clock, Kafka, Kube
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.metrics import Metrics
from muster_operator.world.group import GroupWorld, Leaver
from muster_operator.world.login import Where
from muster_operator.world.views import Unknown

_log = logging.getLogger("muster.operator.farewells")
_LEEWAY_MS = 30_000
"""Added to grace period and session timeout: pods are stopped a moment after their object was deleted."""


@dataclass(slots=True)
class _Known:
    """A ConsumerGroup as it was last seen."""

    uid: str
    group_id: str
    bootstrap: Where
    listed_ms: int
    """How long a member may stay listed after its object was deleted."""
    records: dict[str, Record] = field(default_factory=dict)
    until_ms: int = 0
    """End of the wait; set when the object is gone."""


class Farewells:
    def __init__(self, *, kube: Kube, kafka: Kafka, cache: Cache, clock: Clock, metrics: Metrics) -> None:
        self._kube, self._kafka, self._cache, self._clock, self._metrics = kube, kafka, cache, clock, metrics
        self._known: dict[OwnerKey, _Known] = {}
        self._leaving: dict[OwnerKey, list[_Known]] = {}

    def saw(self, key: OwnerKey, world: GroupWorld) -> None:
        """Record the members in the pods of an existing object."""
        found, template = present(world, self._before(key, world.owner.uid)), world.spec.template
        if found is None or template is None:
            self._known.pop(key, None)
            return
        where = world.where
        if isinstance(where, Unknown):
            return
        listed_s = template.termination_grace_period_seconds + world.spec.session.timeout_seconds
        self._known[key] = _Known(
            uid=world.owner.uid, group_id=world.spec.group_id, bootstrap=where,
            listed_ms=listed_s * 1_000 + _LEEWAY_MS, records=found,
        )  # fmt: skip

    def _before(self, key: OwnerKey, uid: str) -> dict[str, Record]:
        known = self._known.get(key)
        return known.records if known is not None and known.uid == uid else {}

    def gone(self, key: OwnerKey, *, successor_uid: str | None) -> None:
        """The object of this key is gone, or another object has its name by now."""
        known = self._known.get(key)
        if known is None or known.uid == successor_uid:
            return
        del self._known[key]
        known.records = {pod: one for pod, one in known.records.items() if one.member_id is not None}
        if not known.records:
            return
        known.until_ms = self._clock.monotonic_ms() + known.listed_ms
        while len(self._leaving) >= FAREWELLS_MAX:
            self._leaving.pop(next(iter(self._leaving)))  # its members are left to their session timeout
        self._leaving.setdefault(key, []).append(known)

    def under_way(self, key: OwnerKey) -> bool:
        return key in self._leaving

    def drop(self, key: OwnerKey) -> None:
        """Another operator serves the namespace."""
        self._leaving.pop(key, None)

    async def step(self, key: OwnerKey) -> int | None:
        """Remove the members whose pods are gone. Returns the time until the next step; None: no member is left. Raises
        OperatorError."""
        now = self._clock.monotonic_ms()
        self._leaving[key] = [one for one in self._leaving.get(key, ()) if one.records and now < one.until_ms]
        try:
            for known in self._leaving[key]:
                await self._remove(key, known)
        finally:
            # Meanwhile it may have been dropped, given up for others, or another object of the name may have gone.
            left = [one for one in self._leaving.pop(key, ()) if one.records]
            if left:
                self._leaving[key] = left
        return FAREWELL_LOOK_MS if key in self._leaving else None

    async def _remove(self, key: OwnerKey, known: _Known) -> None:
        over = [one for one in known.records.values() if await self._is_over(key, one)]
        if not over:
            return
        members = [Leaver(instance_id=one.pod, member_id=one.member_id) for one in over if one.member_id is not None]
        try:
            await self._kafka.remove_members(bootstrap=known.bootstrap, group_id=known.group_id, members=members)
        except Exception:
            self._metrics.action("RemoveMembers", "failed")
            raise
        for one in over:
            del known.records[one.pod]
        self._metrics.action("RemoveMembers", "done")
        names = ", ".join(one.pod for one in over)
        on = f"group {known.group_id}: {names}"
        _log.info("acted", extra={"object": "/".join(key), "action": "RemoveMembers", "on": on})

    async def _is_over(self, key: OwnerKey, record: Record) -> bool:
        """The API server says that the pod is gone; it is only read if the cache says so too."""
        cached = self._cache.get(POD, key.namespace, record.pod)
        if cached is not None and cached["metadata"].get("uid") == record.uid:
            return False
        live = await self._kube.get(
            api_version=POD.api_version, kind=POD.kind, namespace=key.namespace, name=record.pod
        )
        return live is None or bool(live["metadata"].get("uid") != record.uid)
