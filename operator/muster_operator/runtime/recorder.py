"""Writes Events for our objects (events.k8s.io/v1). An Event that cannot be written is dropped and counted, never
retried: Events are information for people, and must not delay or fail a pass."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from muster_operator.errors import OperatorError
from muster_operator.kube.answers import clip
from muster_operator.kube.kinds import EVENT
from muster_operator.plan.actions import Event
from muster_operator.ports import Clock, Kube
from muster_operator.runtime.event_series import EventSeries, Repeat, SeriesKey, Start
from muster_operator.runtime.metrics import Metrics

_log = logging.getLogger("muster.operator.events")
CONTROLLER = "muster.dev/operator"


class Recorder:
    def __init__(self, kube: Kube, clock: Clock, metrics: Metrics, *, instance: str) -> None:
        self._kube = kube
        self._clock = clock
        self._metrics = metrics
        self._instance = instance
        self._series = EventSeries()

    async def emit(self, owner: Mapping[str, Any], event: Event) -> None:
        """Record `event` about `owner`, one of our objects in its stored form."""
        metadata = owner["metadata"]
        now = self._clock.wall_ms()
        key = SeriesKey(uid=metadata["uid"], reason=event.reason, warning=event.warning)
        step, _ = self._series.occurred(key, metadata["name"], event.message, now)
        if step is None:
            return
        try:
            if isinstance(step, Start):
                await self._kube.create(self._event(owner, event, step.name, now))
            else:
                await self._repeat(metadata["namespace"], step, now)
            self._metrics.event("written")
        except OperatorError as error:
            self._metrics.event("dropped")
            _log.warning("an Event was dropped", extra={"reason": event.reason, "error": error.reason})

    async def _repeat(self, namespace: str, step: Repeat, now_ms: int) -> None:
        await self._kube.patch(
            {
                "apiVersion": EVENT.api_version,
                "kind": EVENT.kind,
                "metadata": {"name": step.name, "namespace": namespace},
                "series": {"count": max(2, step.count), "lastObservedTime": micro_time(now_ms)},
            }
        )

    def _event(self, owner: Mapping[str, Any], event: Event, name: str, now_ms: int) -> dict[str, Any]:
        metadata = owner["metadata"]
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "eventTime": micro_time(now_ms),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": "Reconcile",
            "reason": event.reason[:128],
            "note": clip(event.message),
            "type": "Warning" if event.warning else "Normal",
            "regarding": {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
        }


def micro_time(ms: int) -> str:
    """`metav1.MicroTime`: RFC 3339 with six digits."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
