"""The metrics of a replica, read at scrape time (names: docs/admin-api.md).

The collector only reads: each value is kept by the part that changes it, so nothing is counted twice and the request
path pays only for its histogram. Series per group come from `GroupMeter`, which bounds them (decision 39). A scrape
walks the Raft groups once (at most 2,000) and the metered groups (at most 1,000), and yields their families in pieces
of `PIECE` rows, so one family comes several times: `probes` lets the loop run between two pieces and joins the pieces
of a family on the page.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from muster_coordinator.admin.group_meter import OTHER_GROUPS, GroupMeter
from muster_coordinator.admin.status import names_of_groups
from muster_coordinator.admin.transaction_metrics import transaction_metrics
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.image import observers
from muster_coordinator.histogram import Histogram

PIECE = 100
"""Rows of one family in a piece. Collecting a piece takes a millisecond, writing it another."""


class ProcessView(Protocol):
    """Values of the process around the replica."""

    def longest_turn_ms(self) -> int: ...
    def full_collections(self) -> tuple[int, int]:
        """(how many, longest in ms)"""
        ...

    def log_records_dropped(self) -> int: ...
    def events(self) -> Mapping[str, int]:
        """Number of events since the start, by name (`events.KINDS`)."""
        ...

    def notices(self) -> Mapping[str, int]:
        """Number of notices (`ports.Notice`) since the start, by kind."""
        ...

    def storage_jobs(self) -> Mapping[str, Histogram]:
        """Run times of I/O jobs by queue."""
        ...


class ReplicaCollector(Collector):
    """Register with a `CollectorRegistry`."""

    def __init__(self, replica: AdminReplica, process: ProcessView, meter: GroupMeter) -> None:
        self._replica = replica
        self._process = process
        self._meter = meter

    @override
    def collect(self) -> Iterable[Metric]:
        yield from self._replica_metrics()
        yield from self._partition_metrics()
        yield from self._wal_metrics()
        yield from self._disk_metrics()
        yield from self._scrub_metrics()
        yield from self._cleaner_metrics()
        yield from self._weight_metrics()
        yield from self._group_metrics()
        yield from self._work_metrics()
        yield from self._process_metrics()

    def _replica_metrics(self) -> Iterator[Metric]:
        replica = self._replica
        image = replica.image()
        own = image.brokers.get(replica.broker) if image is not None else None
        yield _gauge("muster_ready", "1 when ready.", 0 if replica.not_ready() else 1)
        yield _gauge("muster_draining", "1 when marked as draining.", 1 if own is not None and own.draining else 0)
        yield _gauge(
            "muster_feature_level",
            "Feature level of the cluster; 0: not known yet.",
            0 if image is None else image.feature_level,
        )
        peers = GaugeMetricFamily("muster_peer_up", "1 when the link to this peer is up.", labels=["peer"])
        for peer in (*image.voters, *observers(image)) if image is not None else ():
            if peer != replica.broker:
                peers.add_metric([str(peer)], 1 if replica.alive(peer) else 0)
        yield peers

    def _partition_metrics(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        leader = GaugeMetricFamily("muster_partition_leader", "Broker id of the leader; -1: unknown.", labels=labels)
        term = GaugeMetricFamily("muster_partition_term", "Raft term.", labels=labels)
        commit = GaugeMetricFamily("muster_partition_commit_index", "Raft commit index known here.", labels=labels)
        applied = GaugeMetricFamily("muster_partition_applied_index", "Raft index applied here.", labels=labels)
        names = names_of_groups(self._replica.image())
        families = (leader, term, commit, applied)
        led = troubled = suspended = 0
        for group in self._replica.local_groups():
            topic, partition = names.get(group.group, ("(controller)", group.group))
            values = [topic, str(partition)]
            leader.add_metric(values, -1 if group.leader is None else group.leader)
            term.add_metric(values, group.term)
            commit.add_metric(values, group.commit)
            applied.add_metric(values, group.applied)
            led += group.role == "leader"
            troubled += group.trouble != ""
            suspended += group.suspended
            if len(leader.samples) >= PIECE:
                yield from _pieces(families)
        yield from families
        yield _gauge(
            "muster_groups_without_state",
            "Raft groups out of service here: their files are damaged, or an entry cannot be applied.",
            troubled,
        )
        yield _gauge(
            "muster_suspended_groups",
            "Raft groups that may have lost a promise here: they do not vote until their leader has repaired that.",
            suspended,
        )
        yield _gauge("muster_leaderships", "Raft groups led here.", led)
        yield from transaction_metrics(self._replica, names, PIECE)

    def _wal_metrics(self) -> Iterator[Metric]:
        used = GaugeMetricFamily("muster_wal_used_bytes", "Bytes written and not yet deleted.", labels=["lane"])
        room = GaugeMetricFamily("muster_wal_room_bytes", "Bytes left below the WAL's bound.", labels=["lane"])
        carried = CounterMetricFamily(
            "muster_wal_carried_bytes", "Bytes written again so that old files can be deleted.", labels=["lane"]
        )
        slowed = CounterMetricFamily(
            "muster_wal_slowed", "Proposals answered with a retry because the WAL was nearly full.", labels=["lane"]
        )
        parked = GaugeMetricFamily("muster_wal_waiting", "Batches that wait for room in the WAL.", labels=["lane"])
        for wal in self._replica.wals():
            used.add_metric([wal.name], wal.used_bytes)
            room.add_metric([wal.name], wal.room_bytes)
            carried.add_metric([wal.name], wal.carried_bytes)
            slowed.add_metric([wal.name], wal.slowed)
            parked.add_metric([wal.name], wal.parked)
        yield from (used, room, carried, slowed, parked)
        done = self._replica.install_status()
        yield _counter("muster_transfers_installed", "Snapshot installs completed here.", done.installed)
        yield _counter("muster_transfer_received_bytes", "Bytes that snapshot installs received.", done.received_bytes)
        yield _counter("muster_transfer_reused_bytes", "Bytes that they found on this disk.", done.reused_bytes)
        yield _counter("muster_transfer_sent_bytes", "Bytes sent for installs of other replicas.", done.sent_bytes)
        yield _counter("muster_transfers_given_up", "Installs abandoned: disk full or failing.", done.given_up)

    def _disk_metrics(self) -> Iterator[Metric]:
        disk = self._replica.disk_status()
        if disk.free_bytes >= 0:
            yield _gauge("muster_disk_free_bytes", "Free bytes on the data folder's disk.", disk.free_bytes)
        yield _gauge("muster_disk_low_bytes", "The disk is low with fewer free bytes than this.", disk.low_bytes)
        yield _gauge("muster_disk_low", "1: new data is refused, leaderships are transferred away.", int(disk.low))
        yield _gauge("muster_disk_full", "1: new data of other leaders is refused too.", int(disk.full))
        refused = CounterMetricFamily(
            "muster_no_space", "Writes put off because the disk was full, by kind of file.", labels=["file"]
        )
        for what, count in disk.refused:
            refused.add_metric([what], count)
        yield refused

    def _scrub_metrics(self) -> Iterator[Metric]:
        scrub = self._replica.scrub_status()
        yield CounterMetricFamily(
            "muster_scrub_bytes", "Bytes of sealed segments checked in the background.", value=scrub.checked_bytes
        )
        yield CounterMetricFamily("muster_scrub_passes", "Scrubs over all sealed segments.", value=scrub.passes)
        yield _gauge("muster_damaged_segments", "Segments found damaged and not yet repaired.", scrub.damaged)
        yield CounterMetricFamily(
            "muster_repaired_segments", "Damaged segments replaced by a peer's copy.", value=scrub.repaired
        )
        yield CounterMetricFamily(
            "muster_segment_repair_failures",
            "Repairs that found no sound copy, or no disk space.",
            value=scrub.repair_failures,
        )

    def _cleaner_metrics(self) -> Iterator[Metric]:
        cleaner = self._replica.cleaner_status()
        yield CounterMetricFamily(
            "muster_cleaner_rounds", "Rounds of log cleaning that were ended.", value=cleaner.rounds
        )
        yield CounterMetricFamily(
            "muster_cleaner_failures", "Rounds of log cleaning that an error ended.", value=cleaner.failures
        )
        yield CounterMetricFamily(
            "muster_cleaner_bytes", "Bytes that log cleaning read and wrote.", value=cleaner.done_bytes
        )
        yield _gauge("muster_cleaner_due", "Partitions that were due at the last look.", cleaner.due)
        yield _gauge("muster_cleaner_uncleanable", "Partitions whose last round was given up.", cleaner.uncleanable)

    def _weight_metrics(self) -> Iterator[Metric]:
        weighed = self._replica.balancer_weighed()
        held = GaugeMetricFamily(
            "muster_balancer_held_bytes", "Bytes of a broker's replicas, as their leaders say.", labels=["peer"]
        )
        led = GaugeMetricFamily(
            "muster_balancer_led_bytes_per_second",
            "Written to and read from the partitions that prefer a broker as leader.",
            labels=["peer"],
        )
        for one in weighed.held:
            if one.size_bytes is not None:
                held.add_metric([str(one.broker)], one.size_bytes)
            if one.led_rate is not None:
                led.add_metric([str(one.broker)], one.led_rate)
        yield from (held, led)
        yield _counter(
            "muster_balancer_exchanges", "Exchanges of partitions begun for their weights.", weighed.exchanges
        )

    def _group_metrics(self) -> Iterator[Metric]:
        meter = self._meter
        members = GaugeMetricFamily("muster_consumer_group_members", "Members.", labels=["group", "state"])
        lag = GaugeMetricFamily("muster_consumer_group_lag", "Records behind the log end.", labels=["group"])
        quality = GaugeMetricFamily(
            "muster_consumer_group_lag_quality", "1 of how good the lag is.", labels=["group", "quality"]
        )
        rebalances = CounterMetricFamily("muster_consumer_group_rebalances", "Generations.", labels=["group"])
        for sample in meter.samples():
            members.add_metric([sample.group, sample.state], sample.members)
            rebalances.add_metric([sample.group], max(0, sample.generation))
            quality.add_metric([sample.group, sample.word], 1)
            if sample.lag is not None:
                lag.add_metric([sample.group], sample.lag)
            if len(members.samples) >= PIECE:
                yield from _pieces((members, lag, quality, rebalances))
        rest = meter.rest()
        if rest is not None:
            # No rebalance counter for the sum: it would fall whenever a group gets its own series.
            members.add_metric([OTHER_GROUPS, ""], rest.members)
            quality.add_metric([OTHER_GROUPS, rest.word], 1)
            if rest.lag is not None:
                lag.add_metric([OTHER_GROUPS], rest.lag)
        yield from (members, lag, quality, rebalances)
        states = GaugeMetricFamily("muster_consumer_groups", "Groups coordinated here.", labels=["state"])
        for state, count in sorted(meter.states().items()):
            states.add_metric([state], count)
        yield states
        stats = self._replica.group_stats()
        yield SummaryMetricFamily(
            "muster_consumer_group_rebalance_duration_seconds",
            "From the start of the join phase to Stable.",
            count_value=stats.rebalances_timed,
            sum_value=stats.rebalances_ms / 1_000,
        )
        yield _counter("muster_rebalances_started", "Rebalances begun here.", stats.rebalances_started)
        yield _counter("muster_rebalances_completed", "Rebalances that ended Stable here.", stats.rebalances_completed)
        yield _counter("muster_sessions_expired", "Members expelled by session timeout.", stats.sessions_expired)
        yield _counter("muster_offsets_committed", "Offsets stored.", stats.offsets_committed)
        yield _counter("muster_offsets_expired", "Offsets removed after their retention.", stats.offsets_expired)
        yield _counter("muster_offsets_deleted", "Offsets deleted on request, or with a topic.", stats.offsets_deleted)
        yield _counter(
            "muster_group_requests_refused",
            "Requests answered with a retry because too many waited in their group's queue.",
            stats.requests_refused_waiting,
        )
        yield _counter("muster_group_faults", "Bugs that cost a group its volatile state.", stats.faults)

    def _work_metrics(self) -> Iterator[Metric]:
        work = self._replica.work_done()
        yield _counter("muster_group_requests", "Requests that reached a group's coordinator.", work.group_requests)
        yield _counter("muster_raft_turns", "Loop turns of all Raft groups together.", work.turns)
        yield _counter("muster_proposals_refused", "Proposals refused for want of room.", work.proposals_refused)
        yield _counter("muster_checkpoints", "Checkpoints written.", work.checkpoints)
        yield _counter("muster_segment_flushes", "Flushes of partition logs.", work.flushes)
        yield _counter("muster_late_timers", "Deadlines put off because the loop had stalled.", work.late_timers)

    def _process_metrics(self) -> Iterator[Metric]:
        process = self._process
        yield _gauge(
            "muster_loop_longest_turn_seconds",
            "Longest turn of the event loop in the last one to two minutes.",
            process.longest_turn_ms() / 1_000,
        )
        collections, longest_ms = process.full_collections()
        yield CounterMetricFamily("muster_gc_full_collections", "Full garbage collections.", value=collections)
        yield _gauge("muster_gc_longest_pause_seconds", "Longest full garbage collection.", longest_ms / 1_000)
        dropped = process.log_records_dropped()
        yield CounterMetricFamily("muster_log_records_dropped", "Log lines lost to a full queue.", value=dropped)
        events = CounterMetricFamily(
            "muster_events", "Events of groups and replicas, logged or not (docs/events.md).", labels=["event"]
        )
        for event, count in process.events().items():
            events.add_metric([event], count)
        yield events
        notices = CounterMetricFamily("muster_notices", "Errors that were contained and logged.", labels=["what"])
        for what, count in process.notices().items():
            notices.add_metric([what], count)
        yield notices
        jobs = HistogramMetricFamily("muster_storage_job_seconds", "Run time of blocking I/O jobs.", labels=["lane"])
        for queue, histogram in process.storage_jobs().items():
            jobs.add_metric([queue], histogram.buckets(), histogram.total)
        yield jobs


def _pieces(families: Iterable[Metric]) -> Iterator[Metric]:
    """Yield the families with the rows added so far, to be used at once, then empty them."""
    for family in families:
        yield family
        family.samples = []


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)
