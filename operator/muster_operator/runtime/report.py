"""Writes `.status`: whole, by server-side apply under a field manager of its own, and only if a write is due
(`cadence`).

A write carries the resource version that was read: the API server ignores a uid in a status, so nothing else keeps the
status of a deleted object from a new object of the same name.

The API server may store a status differently from what was sent (a field is pruned if the CRD is older). So the stored
form of our last status is remembered, and the same intent is not sent again while the stored form stays. The API server
may also reject a field that its CRD does not have yet: then the status is written without the one that its message
names, and so on, if it is newer than the first release, because otherwise no status could be written at all.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_operator.errors import OperatorError
from muster_operator.kube.kinds import OWNERS
from muster_operator.plan.conditions import timestamp
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.cadence import Decision, Held, decide, holding, masked
from muster_operator.runtime.keys import OwnerKey, api_version_of
from muster_operator.runtime.lag_writes import LagWrites
from muster_operator.runtime.metrics import Metrics

_log = logging.getLogger("muster.operator.report")
UNDECLARED: Final = re.compile(r"\.status\.(\w+)\S*: field not declared in schema")
"""In the API server's message if the CRD lacks applied fields (server-side apply does not prune); it names one."""
LATER_FIELDS: Final = frozenset(
    {"departing", "version", "featureLevel", "volumes"}
    | {"founders", "clusterId", "brokers", "voters", "underReplicated", "scaling", "certificates"}
    | {"replicationFactor", "replication", "listeners"}
)
"""Fields of a status that the CRDs of the first release do not have."""
_KINDS = {one.kind: one for one in OWNERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    uid: str
    intent: Mapping[str, Any]
    stored: Mapping[str, Any]


class Reporter:
    def __init__(self, *, kube: Kube, cache: Cache, clock: Clock, metrics: Metrics) -> None:
        self._kube = kube
        self._cache = cache
        self._clock = clock
        self._metrics = metrics
        self._written: dict[OwnerKey, _Written] = {}
        self._held: dict[OwnerKey, Held] = {}
        self._lag_writes: LagWrites[OwnerKey] = LagWrites()

    async def report(self, key: OwnerKey, live: Mapping[str, Any], status: Mapping[str, Any]) -> int | None:
        """Milliseconds after which to repeat, if the write was delayed; None if nothing is left to do.

        Raises Transient or Refused if the write failed.
        """
        now = self._clock.monotonic_ms()
        uid, stored = live["metadata"]["uid"], live.get("status") or {}
        last = self._written.get(key)
        if last is not None and last.uid != uid:
            last = None
        as_written = last is not None and last.stored == stored and masked(last.intent) == masked(status)
        held = self._held[key] = holding(self._held.get(key), status, now)
        decision, reason, wait_ms = decide(stored, status, held=held, now_ms=now, as_written=as_written)
        if decision is Decision.LAG:
            wait_ms = self._lag_writes.ask(key, now)
            if wait_ms > 0:
                return wait_ms
        else:
            self._lag_writes.forget(key)
        if decision is Decision.SKIP:
            return None
        if decision is Decision.WAIT:
            return wait_ms
        after = await self._apply(key, live, status)
        self._metrics.status(key.kind, "written" if after is not None else "gone")
        if after is None:
            self.forget(key)
            return None
        self._cache.observe(_KINDS[key.kind], "MODIFIED", after)
        self._written[key] = _Written(uid=uid, intent=status, stored=after.get("status") or {})
        _log.debug("status written", extra={"object": "/".join(key), "why": reason})
        return None

    async def _apply(
        self, key: OwnerKey, live: Mapping[str, Any], status: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        manifest = {
            "apiVersion": api_version_of(key),
            "kind": key.kind,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "resourceVersion": live["metadata"]["resourceVersion"],
            },
        }
        older = dict(dated(status, self._clock.wall_ms()))
        while True:
            try:
                return await self._kube.apply_status({**manifest, "status": older})
            except OperatorError as refused:
                # Only what the message names: an applied field that is left out is removed from the object.
                undeclared = LATER_FIELDS & older.keys() & set(UNDECLARED.findall(refused.message))
                if not undeclared:
                    raise
                _log.warning(
                    "the definition is older than the operator: it has no %s", ", ".join(sorted(undeclared)),
                    extra={"object": "/".join(key)},
                )  # fmt: skip
                older = {field: value for field, value in older.items() if field not in undeclared}

    def forget(self, key: OwnerKey) -> None:
        """The object is gone."""
        self._written.pop(key, None)
        self._held.pop(key, None)
        self._lag_writes.forget(key)


def dated(status: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
    """`status` with the time of its lag, which this pass has read. Plans leave the time out, so that equal worlds give
    equal plans."""
    return {**status, "lagTime": timestamp(now_ms)} if "lag" in status else status
