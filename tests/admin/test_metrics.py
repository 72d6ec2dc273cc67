"""Metrics: bounded series, sweeps in slices, and a page that a Prometheus parser reads."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from muster_coordinator.admin import limits
from muster_coordinator.admin.group_meter import (
    OTHER_GROUPS,
    PAUSE_RATIO,
    SLICE_STEPS,
    SWEEP_MS,
    GroupMeter,
    GroupSample,
)
from muster_coordinator.admin.metrics import PIECE, ReplicaCollector
from muster_coordinator.admin.probes import Probes
from muster_coordinator.admin.request_metrics import RequestCollector
from muster_coordinator.api.fetch_sessions import FetchSessionStats
from muster_coordinator.controller.weighing import Held
from muster_coordinator.errors import Code
from muster_coordinator.histogram import Histogram
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, BrokerId, GroupNo
from muster_coordinator.quotas.client_quotas import Kind
from muster_coordinator.redis_streams.lag import Quality
from muster_coordinator.replica.maintenance.balancer import Weighed
from muster_coordinator.replica.multiraft.status import LateMarker, OpenTransactions
from muster_coordinator.runtime.client_stats import ClientStats
from muster_coordinator.runtime.tls_store import TlsStatus
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import ThrottleStats
from muster_coordinator.wire.versions import VERSIONS, Api
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tests.admin.fake_replica import FakeReplica
from tests.sim.loop import SimLoop, World


class Source:
    """Groups by partition; counts how many were taken in each turn of the loop."""

    def __init__(self, world: World, groups: Mapping[int, list[GroupSample]]) -> None:
        self.world = world
        self.groups = groups
        self.per_step: dict[int, int] = {}

    def led_partitions(self) -> tuple[int, ...]:
        return tuple(self.groups)

    def samples_of(self, partition: int) -> Iterator[GroupSample | None]:
        for sample in self.groups[partition]:
            yield None
            self.per_step[self.world.steps] = self.per_step.get(self.world.steps, 0) + 1
            yield sample


class Requests:
    """Of a process that answered a few."""

    def __init__(self) -> None:
        self.read = RequestMeter(lambda: 0)
        self.read.seconds[Api.OFFSET_COMMIT].observe(0.002)
        self.read.seconds[Api.HEARTBEAT].observe(0.002)
        self.read.queue_seconds.observe(0.3)
        self.read.request_bytes[Api.OFFSET_COMMIT] = 70
        self.read.note_error(Api.HEARTBEAT, Code.REBALANCE_IN_PROGRESS, 3)
        self.read.note_error(Api.HEARTBEAT, 32_000)
        self.read.in_flight = 5
        self.read.held_bytes = 70_000
        self.stats = ClientStats(connections=2, accepted=9, idle=3, handshakes=4, bytes_in=100, throttled=1)

    def clients(self) -> Mapping[str, ClientStats]:
        return {"PLAINTEXT": self.stats, "OTHER": ClientStats(connections=1)}

    def served(self) -> Mapping[int, int]:
        return dict.fromkeys(VERSIONS, 0) | {Api.OFFSET_COMMIT: 1, Api.HEARTBEAT: 1}

    def answered_at_once(self) -> int:
        return 7

    def meter(self) -> RequestMeter:
        return self.read

    def authentications(self) -> Mapping[tuple[str, str, str], int]:
        return {("PLAINTEXT", "SCRAM-SHA-256", "failed"): 4}

    def throttles(self) -> ThrottleStats:
        stats = ThrottleStats(entities=2)
        stats.requests[Kind.FETCH], stats.ms[Kind.FETCH] = 3, 4_500
        return stats

    def fetch_sessions(self) -> FetchSessionStats:
        return FetchSessionStats(12, 340, 5)

    def certificates(self) -> tuple[TlsStatus, ...]:
        return (
            TlsStatus("SSL", "CN=x", 1_000, 43_200, 3, 2, "expired"),
            TlsStatus("OTHER", "CN=y", 9, -86_400, 1, 0, None),
        )


class Process:
    def longest_turn_ms(self) -> int:
        return 12

    def full_collections(self) -> tuple[int, int]:
        return 3, 40

    def notices(self) -> dict[str, int]:
        return {"a request met an error of this replica": 3}

    def log_records_dropped(self) -> int:
        return 5

    def events(self) -> dict[str, int]:
        return {"became leader": 7, "member expelled": 0}

    def storage_jobs(self) -> Mapping[str, Histogram]:
        histogram = Histogram()
        histogram.observe(0.0004)
        histogram.observe(0.3)
        return {"wal-offsets": histogram}


def samples(count: int) -> list[GroupSample]:
    return [GroupSample(f"g{n}", "Stable", 2, 3, n) for n in range(count)]


def swept(groups: Mapping[int, list[GroupSample]]) -> tuple[World, Source, GroupMeter]:
    world = World()
    source = Source(world, groups)
    meter = GroupMeter(SimLoop(world), source)
    meter.start()
    world.run_for(SWEEP_MS + 1_000)
    return world, source, meter


def test_series_are_bounded_the_largest_lag_first_and_the_rest_is_summed() -> None:
    extra = 250
    _, _, meter = swept({0: samples(limits.METRIC_GROUPS_MAX + extra)})
    shown = meter.samples()
    assert len(shown) == limits.METRIC_GROUPS_MAX
    assert shown[0].lag == limits.METRIC_GROUPS_MAX + extra - 1
    rest = meter.rest()
    assert rest is not None
    assert (rest.members, rest.generation, rest.lag) == (2 * extra, 0, sum(range(extra)))
    assert meter.states() == {"Stable": limits.METRIC_GROUPS_MAX + extra}


def test_the_largest_are_found_in_whatever_order_they_come() -> None:
    """Equal lags by name; a group without a known lag is the last to get a series."""
    lags = [None, *(n % 700 for n in range(limits.METRIC_GROUPS_MAX + 500))]
    found = [GroupSample(f"g{n:05}", "Stable", 1, 1, lag) for n, lag in enumerate(lags)]
    Random(7).shuffle(found)
    _, _, meter = swept({0: found})
    wanted = sorted(found, key=lambda sample: (1 if sample.lag is None else -sample.lag, sample.group))
    assert list(meter.samples()) == wanted[: limits.METRIC_GROUPS_MAX]
    rest = meter.rest()
    assert rest is not None
    assert rest.lag == sum(sample.lag or 0 for sample in wanted[limits.METRIC_GROUPS_MAX :])
    assert rest.members == len(found) - limits.METRIC_GROUPS_MAX


def test_few_groups_have_no_rest_and_unknown_lag_comes_last() -> None:
    _, _, meter = swept({0: samples(2), 3: [GroupSample("unknown", "Empty", 0, 1, None)]})
    assert [sample.group for sample in meter.samples()] == ["g1", "g0", "unknown"]
    assert meter.rest() is None


def test_a_sweep_takes_a_slice_a_turn() -> None:
    _, source, meter = swept({0: samples(950)})
    assert max(source.per_step.values()) <= SLICE_STEPS / 2
    assert len(source.per_step) >= 9
    assert len(meter.samples()) == 950


def test_a_sweep_of_very_many_groups_is_followed_by_a_pause_three_times_as_long() -> None:
    world = World()
    source = Source(world, {0: samples(30_000)})
    meter = GroupMeter(SimLoop(world), source)
    meter.start()
    sweep_turns = 30_000 * 2 / SLICE_STEPS
    sweep_ms = sweep_turns * limits.SLICE_WAIT_MS_MAX
    assert PAUSE_RATIO * sweep_ms > SWEEP_MS
    world.run_for(int(SWEEP_MS + 2.5 * sweep_ms + PAUSE_RATIO * sweep_ms))
    assert len(meter.samples()) == limits.METRIC_GROUPS_MAX
    assert len(source.per_step) == pytest.approx(2 * sweep_turns, abs=4), "two sweeps, and the third still waits"


def test_groups_that_are_gone_vanish_with_the_next_sweep() -> None:
    world, source, meter = swept({0: samples(3)})
    source.groups = {}
    world.run_for(2 * SWEEP_MS)
    assert meter.samples() == ()


def test_buckets_are_cumulative_and_bounds_inclusive() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(seconds)
    assert histogram.buckets() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]


def scrape(groups: int = 2) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    async def main() -> str:
        world, _, meter = swept({0: samples(groups)})
        replica = FakeReplica(SimLoop(world))
        replica.leaders[next(iter(replica.leaders))] = None
        replica.down = {BrokerId(2)}
        replica.transactions = [OpenTransactions(FIRST_OFFSETS_GROUP, 61_500, 12)]
        held = (Held(BrokerId(1), 3, 1, 2**40, None), Held(BrokerId(2), 3, 1, None, 7))
        replica.weighed = Weighed((), held, 4)
        replica.late = [LateMarker("orders", number, 10_500 + number) for number in range(PIECE + 1)]
        registry = CollectorRegistry()
        registry.register(ReplicaCollector(replica, Process(), meter))
        registry.register(RequestCollector(Requests()))
        server = TestServer(Probes(replica, registry, stopping=lambda: False).application())
        async with TestClient(server) as client, client.get("/metrics") as answer:
            assert answer.status == 200
            assert answer.content_type == "text/plain"
            return await answer.text()

    page = asyncio.run(main())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def every_gauge(groups: list[GroupSample]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a scrape of a replica with these groups."""
    world, _, meter = swept({0: groups})
    families = ReplicaCollector(FakeReplica(SimLoop(world)), Process(), meter).collect()
    # A family comes in pieces, whose rows are gone with the next one.
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def counters(groups: list[GroupSample]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a page that must never fall."""
    world, _, meter = swept({0: groups})
    collector = ReplicaCollector(FakeReplica(SimLoop(world)), Process(), meter)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in collector.collect()
        for sample in family.samples
        if family.type == "counter" or sample.name.endswith(("_count", "_sum", "_bucket"))
    }


def test_no_counter_falls_when_groups_change_places() -> None:
    """A group whose lag grows gets a series of its own, and another loses its own. Their generations only rise."""
    many = samples(limits.METRIC_GROUPS_MAX + 10)
    many[3] = many[3]._replace(generation=500)
    before = counters(many)
    many[3] = many[3]._replace(lag=1_000_000, generation=505)
    after = counters(many)
    assert [key for key, value in before.items() if key in after and after[key] < value] == []
    assert ("muster_consumer_group_rebalances_total", (("group", "g3"),)) not in before
    assert after["muster_consumer_group_rebalances_total", (("group", "g3"),)] == 505


def test_a_group_that_nobody_ever_joined_has_had_no_rebalance() -> None:
    """Its generation is -1, as Kafka's is."""
    found = counters([GroupSample("g", "Empty", 0, -1, None)])
    assert found["muster_consumer_group_rebalances_total", (("group", "g"),)] == 0


def test_a_certificate_has_its_days_and_whether_it_is_stale() -> None:
    values = scrape()
    ssl, other = (("listener", "SSL"),), (("listener", "OTHER"),)
    assert (values["muster_certificate_left_days", ssl], values["muster_certificate_left_days", other]) == (0.5, -1)
    assert (values["muster_certificate_stale", ssl], values["muster_certificate_stale", other]) == (1, 0)
    assert values["muster_certificate_loads_total", (*ssl, ("result", "taken"))] == 3
    assert values["muster_certificate_loads_total", (*ssl, ("result", "refused"))] == 2


def test_the_page_holds_every_promised_metric() -> None:
    values = scrape()
    assert values["muster_consumer_group_members", (("group", "g1"), ("state", "Stable"))] == 2
    assert values["muster_consumer_group_lag", (("group", "g1"),)] == 1
    assert values["muster_consumer_group_lag_quality", (("group", "g1"), ("quality", "exact"))] == 1
    assert values["muster_consumer_group_rebalances_total", (("group", "g1"),)] == 3
    assert values["muster_consumer_group_rebalance_duration_seconds_count", ()] == 4
    assert values["muster_consumer_group_rebalance_duration_seconds_sum", ()] == 6
    assert values["muster_rebalances_started_total", ()] == 11
    assert values["muster_rebalances_completed_total", ()] == 10
    assert values["muster_sessions_expired_total", ()] == 12
    assert values["muster_offsets_committed_total", ()] == 13
    assert values["muster_offsets_expired_total", ()] == 14
    assert values["muster_offsets_deleted_total", ()] == 15
    assert values["muster_group_requests_refused_total", ()] == 16
    assert values["muster_group_faults_total", ()] == 17
    assert values["muster_raft_turns_total", ()] == 21
    assert values["muster_proposals_refused_total", ()] == 22
    assert values["muster_checkpoints_total", ()] == 23
    assert values["muster_segment_flushes_total", ()] == 24
    assert values["muster_late_timers_total", ()] == 25
    assert values["muster_group_requests_total", ()] == 26
    assert values["muster_transfer_sent_bytes_total", ()] == 50
    assert values["muster_transfers_given_up_total", ()] == 6
    assert values["muster_consumer_commit_latency_seconds_bucket", (("le", "0.0025"),)] == 1
    assert values["muster_partition_leader", (("partition", "0"), ("topic", "(controller)"))] == -1
    assert values["muster_partition_leader", (("partition", "0"), ("topic", "__consumer_offsets"))] == 0
    assert values["muster_partition_term", (("partition", "3"), ("topic", "__consumer_offsets"))] == 3
    at = (("partition", "0"), ("topic", "__consumer_offsets"))
    assert values["muster_oldest_open_transaction_seconds", at] == 61.5
    assert values["muster_last_stable_offset_lag", at] == 12
    late = [labels for name, labels in values if name == "muster_transaction_marker_late_seconds"]
    assert len(late) == PIECE + 1
    assert values["muster_transaction_marker_late_seconds", (("partition", "100"), ("topic", "orders"))] == 10.6
    assert values["muster_transactional_ids", ()] == 9
    assert values["muster_transactions", (("state", "ongoing"),)] == 4
    assert values["muster_transactions", (("state", "prepared"),)] == 2
    assert values["muster_transactions_completed_total", (("outcome", "committed"),)] == 30
    assert values["muster_transactions_completed_total", (("outcome", "aborted"),)] == 7
    assert values["muster_transactions_timed_out_total", ()] == 3
    assert values["muster_producers_fenced_total", ()] == 5
    assert values["muster_transactional_ids_expired_total", ()] == 11
    assert values["muster_peer_up", (("peer", "1"),)] == 1
    assert values["muster_peer_up", (("peer", "2"),)] == 0
    assert values["muster_loop_longest_turn_seconds", ()] == 0.012
    assert values["muster_storage_job_seconds_count", (("lane", "wal-offsets"),)] == 2
    assert values["muster_wal_used_bytes", (("lane", "wal-topics"),)] == 60
    assert values["muster_wal_room_bytes", (("lane", "wal-topics"),)] == 4
    assert values["muster_wal_carried_bytes_total", (("lane", "wal-topics"),)] == 7
    assert values["muster_disk_free_bytes", ()] == 900
    assert values["muster_disk_low_bytes", ()] == 1_000
    assert (values["muster_disk_low", ()], values["muster_disk_full", ()]) == (1, 0)
    assert values["muster_no_space_total", (("file", "sidecar"),)] == 5
    assert values["muster_no_space_total", (("file", "checkpoint"),)] == 2
    assert values["muster_scrub_bytes_total", ()] == 70
    assert values["muster_scrub_passes_total", ()] == 2
    assert values["muster_cleaner_rounds_total", ()] == 6
    assert values["muster_cleaner_failures_total", ()] == 1
    assert values["muster_cleaner_bytes_total", ()] == 80
    assert values["muster_cleaner_due", ()] == 2
    assert values["muster_cleaner_uncleanable", ()] == 3
    assert values["muster_balancer_held_bytes", (("peer", "1"),)] == 2**40
    assert ("muster_balancer_led_bytes_per_second", (("peer", "1"),)) not in values, "it is not known"
    assert values["muster_balancer_led_bytes_per_second", (("peer", "2"),)] == 7
    assert values["muster_balancer_exchanges_total", ()] == 4
    assert values["muster_damaged_segments", ()] == 1
    assert values["muster_repaired_segments_total", ()] == 3
    assert values["muster_segment_repair_failures_total", ()] == 4
    assert values["muster_wal_slowed_total", (("lane", "wal-topics"),)] == 9
    assert values["muster_wal_waiting", (("lane", "wal-topics"),)] == 3
    assert values["muster_transfers_installed_total", ()] == 2
    assert values["muster_transfer_received_bytes_total", ()] == 300
    assert values["muster_transfer_reused_bytes_total", ()] == 40
    assert values["muster_log_records_dropped_total", ()] == 5
    assert values["muster_notices_total", (("what", "a request met an error of this replica"),)] == 3
    assert values["muster_ready", ()] == 1
    assert values["muster_feature_level", ()] == 1


def test_the_loop_goes_on_between_the_families_of_a_page_and_pages_wait_for_one_another() -> None:
    async def main() -> None:
        registry = CollectorRegistry()
        seen: list[str] = []

        class Families(Collector):
            def collect(self) -> Iterator[Metric]:
                for name in ("one", "two", "three"):
                    seen.append(name)
                    asyncio.get_running_loop().call_soon(seen.append, "loop")
                    yield GaugeMetricFamily(f"muster_{name}", "Text.", value=1)

        registry.register(Families())
        seen.clear()  # registering looks at the names
        probes = Probes(FakeReplica(SimLoop(World())), registry, stopping=lambda: False)
        server = TestServer(probes.application())
        async with TestClient(server) as client:

            async def page() -> str:
                async with client.get("/metrics") as answer:
                    return await answer.text()

            pages = await asyncio.gather(page(), page())
        assert pages[0] == pages[1]
        assert [line for line in pages[0].splitlines() if not line.startswith("#")] == [
            "muster_one 1.0",
            "muster_two 1.0",
            "muster_three 1.0",
        ]
        once = ["one", "loop", "two", "loop", "three", "loop"]
        assert seen == once + once

    asyncio.run(main())


def many_groups(count: int) -> FakeReplica:
    replica = FakeReplica(SimLoop(World()))
    replica.leaders = {GroupNo(number): BrokerId(number % 3) for number in range(count)}
    return replica


def turns_of(path: str, app: Callable[[], web.Application]) -> tuple[str, int]:
    """The answer, and how often the loop went round while it was made."""

    async def main() -> tuple[str, int]:
        loop, turns = asyncio.get_running_loop(), 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        async with TestClient(TestServer(app())) as client:
            turn()
            async with client.get(path) as answer:
                assert answer.status == 200
                return await answer.text(), turns

    return asyncio.run(main())


def test_the_loop_goes_on_between_the_pieces_of_a_long_family_and_each_stands_whole_on_the_page() -> None:
    groups = 1_050

    def app() -> web.Application:
        replica, meter = many_groups(groups), swept({0: samples(1_000)})[2]
        registry = CollectorRegistry()
        registry.register(ReplicaCollector(replica, Process(), meter))
        return Probes(replica, registry, stopping=lambda: False).application()

    page, turns = turns_of("/metrics", app)
    assert turns >= 4 * groups / PIECE + 3 * 1_000 / PIECE
    lines = page.splitlines()
    for name in ("muster_partition_leader", "muster_partition_applied_index", "muster_consumer_group_members"):
        places = [at for at, line in enumerate(lines) if line.startswith(name + "{")]
        assert len(places) == (1_000 if "consumer" in name else groups)
        assert places == list(range(places[0], places[0] + len(places)))
        assert sum(line.startswith(f"# TYPE {name} ") for line in lines) == 1
    assert "muster_leaderships 350.0" in lines


def test_every_documented_metric_is_on_the_page() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "admin-api.md").read_text()
    rows = [line.split("|")[1] for line in text.split("## Metrics")[1].splitlines() if line.startswith("| `muster_")]
    documented = {name.strip(" `") for row in rows for name in row.split(",")} - {"process_*"}
    assert len(documented) > 15
    there = {name for name, _ in scrape()}
    families = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in there}
    missing = documented - families
    assert not missing, "in a row of docs/admin-api.md, and not on the page"
    silent = families - documented
    assert not silent, "without a row under Metrics in docs/admin-api.md"


def test_requests_by_api_with_the_short_way_in_the_first_bucket() -> None:
    values = scrape()

    def of(name: str, **labels: str) -> float:
        return values[name, tuple(sorted(labels.items()))]

    assert of("muster_requests_total", api="HEARTBEAT") == 1 + 7
    assert of("muster_requests_total", api="FETCH") == 0
    assert of("muster_request_bytes_total", api="OFFSET_COMMIT") == 70
    assert of("muster_request_seconds_bucket", api="HEARTBEAT", le="0.0005") == 7
    assert of("muster_request_seconds_count", api="HEARTBEAT") == 8
    assert of("muster_request_seconds_sum", api="HEARTBEAT") == 0.002
    assert of("muster_request_seconds_count", api="OFFSET_COMMIT") == 1
    assert ("muster_request_seconds_count", (("api", "FETCH"),)) not in values, "never asked for: no series"
    assert of("muster_request_queue_seconds_bucket", le="0.25") == 9 - 1
    assert of("muster_request_queue_seconds_count") == 9
    assert of("muster_request_errors_total", api="HEARTBEAT", error="REBALANCE_IN_PROGRESS") == 3
    assert of("muster_request_errors_total", api="HEARTBEAT", error="OTHER") == 1
    assert of("muster_authentications_total", listener="PLAINTEXT", mechanism="SCRAM-SHA-256", result="failed") == 4
    assert of("muster_throttled_requests_total", quota="consumer_byte_rate") == 3
    assert of("muster_throttle_seconds_total", quota="consumer_byte_rate") == 4.5
    assert of("muster_throttled_requests_total", quota="request_percentage") == 0
    assert of("muster_quota_entities") == 2
    assert of("muster_requests_in_flight") == 5
    assert of("muster_fetch_sessions") == 12
    assert of("muster_fetch_session_partitions") == 340
    assert of("muster_fetch_session_evictions_total") == 5
    assert of("muster_requests_held_bytes") == 70_000


OF_RELEASE_0_1 = {
    "connections", "accepted", "refused", "failed", "slow", "idle", "requests", "bytes_in", "bytes_out", "buffered",
    "unsent",
}  # fmt: skip


def test_listeners_have_a_metric_for_each_meaning_and_the_old_one_for_one_release() -> None:
    values = scrape()
    one, other = (("listener", "PLAINTEXT"),), (("listener", "OTHER"),)
    assert (values["muster_client_connections", one], values["muster_client_connections", other]) == (2, 1)
    assert values["muster_client_connections_accepted_total", one] == 9
    assert values["muster_client_connections_throttled", one] == 1
    assert values["muster_client_connections_closed_total", (*one, ("reason", "idle"))] == 3
    assert values["muster_client_connections_closed_total", (*one, ("reason", "handshake"))] == 4
    assert values["muster_client_received_bytes_total", one] == 100
    old = {labels: value for (name, labels), value in values.items() if name == "muster_client"}
    assert {dict(labels)["what"] for labels in old} == OF_RELEASE_0_1, "what is new has a metric of its own only"
    assert len(old) == 2 * len(OF_RELEASE_0_1)
    assert old[(*one, ("what", "bytes_in"))] == 100


def test_a_group_that_is_named_as_the_sum_is_has_no_series_of_its_own() -> None:
    _, _, meter = swept({0: [*samples(3), GroupSample(OTHER_GROUPS, "Stable", 5, 9, 70)]})
    assert [sample.group for sample in meter.samples()] == ["g2", "g1", "g0"]
    assert meter.rest() == GroupSample(OTHER_GROUPS, "", 5, 0, 70)


def lag_of(found: dict[tuple[str, tuple[tuple[str, str], ...]], float], group: str) -> tuple[float | None, set[str]]:
    """The number, and the words that are said of it."""
    words = {
        dict(labels)["quality"]
        for (name, labels), value in found.items()
        if name == "muster_consumer_group_lag_quality" and dict(labels)["group"] == group and value == 1
    }
    return found.get(("muster_consumer_group_lag", (("group", group),))), words


def test_each_lag_has_one_word_and_an_unknown_one_no_number() -> None:
    found = every_gauge(
        [
            GroupSample("far", "Stable", 1, 1, 70, Quality.ESTIMATED),
            GroupSample("near", "Stable", 1, 1, 0),
            GroupSample("away", "Stable", 1, 1, None),
        ]
    )
    assert lag_of(found, "far") == (70, {"estimated"})
    assert lag_of(found, "near") == (0, {"exact"})
    assert lag_of(found, "away") == (None, {"unknown"})
    assert lag_of(found, OTHER_GROUPS) == (None, set())


@pytest.mark.parametrize(
    ("lags", "wanted"),
    [
        ([(1, Quality.EXACT), (2, Quality.EXACT)], (3, {"exact"})),
        ([(1, Quality.EXACT), (2, Quality.ESTIMATED)], (3, {"estimated"})),
        ([(None, Quality.EXACT), (2, Quality.EXACT)], (2, {"exact"})),
        ([(None, Quality.EXACT), (None, Quality.EXACT)], (None, {"unknown"})),
    ],
)
def test_the_sum_of_the_others_is_of_those_that_are_known(
    lags: list[tuple[int | None, Quality]], wanted: tuple[int | None, set[str]]
) -> None:
    ahead = [GroupSample(f"g{n}", "Stable", 1, 1, 1_000) for n in range(limits.METRIC_GROUPS_MAX)]
    others = [GroupSample(f"o{n}", "Stable", 1, 1, lag, quality) for n, (lag, quality) in enumerate(lags)]
    assert lag_of(every_gauge([*ahead, *others]), OTHER_GROUPS) == wanted


def test_rebalances_of_a_group_are_no_sum_of_changing_groups() -> None:
    """A group that joins the sum, or leaves it, would make a counter rise and fall."""
    values = scrape(limits.METRIC_GROUPS_MAX + 5)
    other = (("group", OTHER_GROUPS),)
    assert ("muster_consumer_group_lag", other) in values
    assert ("muster_consumer_group_rebalances_total", other) not in values


def test_probes_tell_ready_from_not_ready_and_stopping() -> None:
    async def main() -> None:
        replica = FakeReplica(SimLoop(World()))
        stopping = [False]
        app = Probes(replica, CollectorRegistry(), stopping=lambda: stopping[0]).application()
        async with TestClient(TestServer(app)) as client:

            async def ask(path: str) -> tuple[int, str]:
                async with client.get(path) as answer:
                    return answer.status, await answer.text()

            assert await ask("/livez") == (200, "ok\n")
            assert await ask("/readyz") == (200, "ok\n")
            replica.reasons = ("no controller leader",)
            assert await ask("/readyz") == (503, "no controller leader\n")
            replica.reasons, stopping[0] = (), True
            assert await ask("/readyz") == (503, "stopping\n")
            assert (await ask("/livez"))[0] == 200

    asyncio.run(main())
