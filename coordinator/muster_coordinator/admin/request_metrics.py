"""Metrics of client requests: requests, errors, sizes and times by API; connections by listener.

Labels are bounded: an API is one of those served, an error code one of Kafka's, a listener one of the configuration. An
API that was never requested has no times and no errors. Repeated heartbeats are not timed and are counted in the first
bucket of their API: they always take less (`wire.request_meter`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from muster_coordinator.admin.view import CertificateStatus
from muster_coordinator.errors import Code
from muster_coordinator.quotas.client_quotas import KEYS, Kind
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import ThrottleStats
from muster_coordinator.wire.versions import Api


class ListenerStats(Protocol):
    """`runtime.client_stats.ClientStats`."""

    connections: int
    accepted: int
    refused: int
    failed: int
    slow: int
    idle: int
    handshakes: int
    requests: int
    bytes_in: int
    bytes_out: int
    buffered: int
    unsent: int
    throttled: int


class SessionStats(Protocol):
    """`api.fetch_sessions.FetchSessionStats`."""

    @property
    def sessions(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    @property
    def evictions(self) -> int: ...


class RequestView(Protocol):
    """Values of the process about its clients."""

    def clients(self) -> Mapping[str, ListenerStats]:
        """By listener."""
        ...

    def served(self) -> Mapping[int, int]:
        """API -> requests handed to its handler."""
        ...

    def answered_at_once(self) -> int:
        """Repeated heartbeats, which `served` does not count."""
        ...

    def meter(self) -> RequestMeter: ...

    def authentications(self) -> Mapping[tuple[str, str, str], int]:
        """(listener, mechanism, result) -> how often."""
        ...

    def throttles(self) -> ThrottleStats:
        """Of clients above their quotas."""
        ...

    def certificates(self) -> Sequence[CertificateStatus]:
        """Of listeners with TLS."""
        ...

    def fetch_sessions(self) -> SessionStats: ...


class RequestCollector(Collector):
    """Register with a `CollectorRegistry`."""

    def __init__(self, view: RequestView) -> None:
        self._view = view

    @override
    def collect(self) -> Iterable[Metric]:
        yield from self._requests()
        yield from self._times()
        for listener, stats in self._view.clients().items():
            yield from _listener(listener, stats)
        shown = CounterMetricFamily(
            "muster_authentications",
            "Clients that showed who they are, or did not.",
            labels=["listener", "mechanism", "result"],
        )
        for labels, count in sorted(self._view.authentications().items()):
            shown.add_metric(list(labels), count)
        yield shown
        yield from self._throttles()
        yield from self._certificates()
        yield from self._fetch_sessions()

    def _throttles(self) -> Iterator[Metric]:
        stats = self._view.throttles()
        requests = CounterMetricFamily(
            "muster_throttled_requests", "Requests by which a client came above its quota.", labels=["quota"]
        )
        seconds = CounterMetricFamily("muster_throttle_seconds", "What these clients were told.", labels=["quota"])
        for kind in Kind:
            requests.add_metric([KEYS[kind]], stats.requests[kind])
            seconds.add_metric([KEYS[kind]], stats.ms[kind] / 1_000)
        yield from (requests, seconds)
        yield GaugeMetricFamily(
            "muster_quota_entities", "Users, client ids and addresses with quotas in force.", value=stats.entities
        )

    def _fetch_sessions(self) -> Iterator[Metric]:
        stats = self._view.fetch_sessions()
        yield GaugeMetricFamily("muster_fetch_sessions", "Fetch sessions of consumers.", value=stats.sessions)
        yield GaugeMetricFamily(
            "muster_fetch_session_partitions", "Partitions of all fetch sessions.", value=stats.partitions
        )
        yield CounterMetricFamily(
            "muster_fetch_session_evictions", "Fetch sessions that gave way to others.", value=stats.evictions
        )

    def _certificates(self) -> Iterator[Metric]:
        left = GaugeMetricFamily(
            "muster_certificate_left_days",
            "Until the first certificate of a listener's chain expires; negative: it has expired.",
            labels=["listener"],
        )
        stale = GaugeMetricFamily(
            "muster_certificate_stale", "1: the files hold something that is not used.", labels=["listener"]
        )
        loads = CounterMetricFamily(
            "muster_certificate_loads",
            "Contents of the files that were taken or refused.",
            labels=["listener", "result"],
        )
        for one in self._view.certificates():
            left.add_metric([one.name], one.left_s / 86_400)
            stale.add_metric([one.name], one.problem is not None)
            loads.add_metric([one.name, "taken"], one.loaded)
            loads.add_metric([one.name, "refused"], one.refused)
        yield from (left, stale, loads)

    def _requests(self) -> Iterator[Metric]:
        meter = self._view.meter()
        requests = CounterMetricFamily("muster_requests", "Requests of clients by API.", labels=["api"])
        sizes = CounterMetricFamily("muster_request_bytes", "Size of decoded requests by API.", labels=["api"])
        for api, count in self._counts().items():
            requests.add_metric([Api(api).name], count)
            sizes.add_metric([Api(api).name], meter.request_bytes[api])
        yield requests
        yield sizes
        errors = CounterMetricFamily("muster_request_errors", "Error codes in answers.", labels=["api", "error"])
        for (api, code), count in sorted(meter.errors.items()):
            errors.add_metric([Api(api).name, _code_name(code)], count)
        yield errors
        yield GaugeMetricFamily(
            "muster_requests_in_flight", "Requests decoded and not yet answered in order.", value=meter.in_flight
        )
        yield GaugeMetricFamily(
            "muster_requests_held_bytes",
            "Estimated memory of large requests that are not answered.",
            value=meter.held_bytes,
        )

    def _counts(self) -> dict[int, int]:
        counts = {int(api): count for api, count in self._view.served().items()}
        counts[Api.HEARTBEAT] += self._view.answered_at_once()
        return counts

    def _times(self) -> Iterator[Metric]:
        meter, at_once = self._view.meter(), self._view.answered_at_once()
        times = HistogramMetricFamily("muster_request_seconds", "From decoded to answered, by API.", labels=["api"])
        for api, histogram in meter.seconds.items():
            more = at_once if api == Api.HEARTBEAT else 0
            buckets = [(bound, count + more) for bound, count in histogram.buckets()]
            if buckets[-1][1]:
                times.add_metric([Api(api).name], buckets, histogram.total)
        yield times
        held = meter.queue_seconds.buckets()
        fresh = sum(self._counts().values()) - held[-1][1]
        yield HistogramMetricFamily(
            "muster_request_queue_seconds",
            "From read to decoded.",
            buckets=[(bound, count + fresh) for bound, count in held],
            sum_value=meter.queue_seconds.total,
        )
        commits = meter.seconds[Api.OFFSET_COMMIT]
        yield HistogramMetricFamily(
            "muster_consumer_commit_latency_seconds",
            "OffsetCommit, decoded to answered.",
            buckets=commits.buckets(),
            sum_value=commits.total,
        )


def _listener(listener: str, stats: ListenerStats) -> Iterator[Metric]:
    """One listener's families; `probes` joins those of several listeners."""
    gauges = (
        ("muster_client_connections", "Open connections.", stats.connections),
        ("muster_client_buffered_bytes", "Bytes of requests that are incomplete or wait.", stats.buffered),
        ("muster_client_connections_throttled", "Connections that are not read now: above a quota.", stats.throttled),
        ("muster_client_unsent_bytes", "Bytes of answers that clients have not taken.", stats.unsent),
    )
    counters = (
        ("muster_client_connections_accepted", "Connections accepted.", stats.accepted),
        ("muster_client_connections_refused", "Connections refused by a limit.", stats.refused),
        ("muster_client_requests", "Requests read from clients.", stats.requests),
        ("muster_client_received_bytes", "Bytes read from clients.", stats.bytes_in),
        ("muster_client_sent_bytes", "Bytes written to clients.", stats.bytes_out),
    )
    for name, text, value in gauges:
        gauge = GaugeMetricFamily(name, text, labels=["listener"])
        gauge.add_metric([listener], value)
        yield gauge
    for name, text, value in counters:
        counter = CounterMetricFamily(name, text, labels=["listener"])
        counter.add_metric([listener], value)
        yield counter
    closed = CounterMetricFamily(
        "muster_client_connections_closed", "Connections closed by this replica.", labels=["listener", "reason"]
    )
    for reason, value in (
        ("failed", stats.failed),
        ("slow", stats.slow),
        ("idle", stats.idle),
        ("handshake", stats.handshakes),
    ):
        closed.add_metric([listener, reason], value)
    yield closed
    yield _before(listener, stats)


def _before(listener: str, stats: ListenerStats) -> Metric:
    """The names of release 0.1, kept for one more release (docs/changelog.md)."""
    old = GaugeMetricFamily("muster_client", "Deprecated: see muster_client_*.", labels=["listener", "what"])
    for what in (
        "connections", "accepted", "refused", "failed", "slow", "idle", "requests", "bytes_in", "bytes_out", "buffered",
        "unsent",
    ):  # fmt: skip
        old.add_metric([listener, what], getattr(stats, what))
    return old


def _code_name(code: int) -> str:
    return Code(code).name if code in Code._value2member_map_ else "OTHER"
