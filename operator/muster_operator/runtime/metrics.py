"""The operator's Prometheus metrics: a registry of its own, bounded label sets, names as in docs/operator.md."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_STATUSES = ("True", "False", "Unknown")


class Metrics:
    """One instance per process (or test)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: Mapping[str, Any] = {"registry": self.registry}
        self._reconciles = Counter(
            "muster_operator_reconcile_total", "Passes over an object.", ["kind", "result"], **made
        )
        self._seconds = Histogram(
            "muster_operator_reconcile_duration_seconds", "Time of one pass.", ["kind"], buckets=_BUCKETS, **made
        )
        self._requests = Counter(
            "muster_operator_kube_requests_total", "Requests to the API server; code 0: no answer.",
            ["verb", "kind", "code"], **made,
        )  # fmt: skip
        self._request_seconds = Histogram(
            "muster_operator_kube_request_duration_seconds", "Time of a request to the API server.", ["verb"],
            buckets=_BUCKETS, **made,
        )  # fmt: skip
        self._events = Counter("muster_operator_events_total", "Kubernetes Events.", ["result"], **made)
        self._actions = Counter(
            "muster_operator_actions_total", "Actions of plans that were executed.", ["action", "result"], **made
        )
        self._statuses = Counter("muster_operator_status_writes_total", "Status updates.", ["kind", "result"], **made)
        self.queue_depth = Gauge("muster_operator_queue_depth", "Objects that are due and wait for a worker.", **made)
        self.queue_oldest = Gauge(
            "muster_operator_queue_oldest_seconds", "Longest wait of a due object for a worker now.", **made
        )
        self.is_leader = Gauge("muster_operator_is_leader", "1 when this process holds the Lease.", **made)
        self.refused_namespaces = Gauge(
            "muster_operator_refused_namespaces", "Namespaces in scope that another operator serves.", **made
        )
        self.list_age = Gauge("muster_operator_last_list_age_seconds", "Seconds since every kind was listed.", **made)
        self.served = Gauge(
            "muster_operator_namespace_served", "1 when a namespace is listed and watched (empty: all namespaces).",
            ["namespace"], **made,
        )  # fmt: skip
        self.cached = Gauge("muster_operator_cached_objects", "Objects in the cache.", ["kind"], **made)
        self._conditions = Gauge(
            "muster_cluster_condition", "1 for the current status of each condition of a CoordinatorCluster.",
            ["namespace", "name", "type", "status"], **made,
        )  # fmt: skip
        self._rollout = Gauge(
            "muster_rollout_state", "1 for the last decision of a pass over a CoordinatorCluster.",
            ["namespace", "name", "decision"], **made,
        )  # fmt: skip
        self._lag = Gauge(
            "muster_operator_consumer_group_lag", "Lag in records, summed over all partitions of a ConsumerGroup.",
            ["namespace", "name"], **made,
        )  # fmt: skip
        self._lag_seconds = Gauge(
            "muster_operator_consumer_group_lag_seconds",
            "Age of the oldest uncommitted record of a ConsumerGroup, on its slowest partition.",
            ["namespace", "name"], **made,
        )  # fmt: skip
        self._types: dict[tuple[str, str], set[str]] = {}
        self._decision: dict[tuple[str, str], str] = {}

    def reconciled(self, kind: str, result: str, seconds: float) -> None:
        self._reconciles.labels(kind, result).inc()
        self._seconds.labels(kind).observe(seconds)

    def kube_call(self, verb: str, kind: str, code: int, seconds: float) -> None:
        """A `kube.client.Observer`."""
        self._requests.labels(verb, kind, str(code)).inc()
        self._request_seconds.labels(verb).observe(seconds)

    def event(self, result: str) -> None:
        self._events.labels(result).inc()

    def action(self, action: str, result: str) -> None:
        self._actions.labels(action, result).inc()

    def status(self, kind: str, result: str) -> None:
        self._statuses.labels(kind, result).inc()

    def lag(self, namespace: str, name: str, records: int | None, seconds: float | None) -> None:
        """Lag of one ConsumerGroup; an unknown value (None) has no series."""
        for gauge, value in ((self._lag, records), (self._lag_seconds, seconds)):
            if value is not None:
                gauge.labels(namespace, name).set(value)
            else:
                with suppress(KeyError):
                    gauge.remove(namespace, name)

    def cluster(self, namespace: str, name: str, status: Mapping[str, Any], decision: str) -> None:
        """Conditions and last decision of one CoordinatorCluster."""
        known = self._types.setdefault((namespace, name), set())
        for condition in status.get("conditions") or ():
            known.add(str(condition["type"]))
            for one in _STATUSES:
                is_it = float(one == condition["status"])
                self._conditions.labels(namespace, name, str(condition["type"]), one).set(is_it)
        former = self._decision.get((namespace, name))
        if former != decision:
            if former is not None:
                self._rollout.remove(namespace, name, former)
            self._rollout.labels(namespace, name, decision).set(1)
            self._decision[namespace, name] = decision

    def forget_cluster(self, namespace: str, name: str) -> None:
        """Remove the series of an object that is gone."""
        for condition in self._types.pop((namespace, name), ()):
            for one in _STATUSES:
                self._conditions.remove(namespace, name, condition, one)
        former = self._decision.pop((namespace, name), None)
        if former is not None:
            self._rollout.remove(namespace, name, former)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)
