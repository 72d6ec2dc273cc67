"""Commit latency while a lost replica is replaced by an empty one, with a throttle on what is copied to it.

The replica that is lost led a third of the groups; commits go on with the other two, which also send it everything that
it had: a million offsets and a gigabyte of topics. The clock runs from the command that declares its folder gone until
every Raft group has the new folder as a voter. What the row does not count as moved are entries that a leader's WAL
still holds; nearly all of the data is copied as files.

Two rates in turn: at the higher one the three brokers, which are on one machine, take more than one of two processors,
and what the copy adds makes all of them wait for processors. At the lower one half of two processors is idle.

A virtual disk that answers nobody for a tenth of a second is a p99 by itself, whichever phase it falls into. So each
window has its own p99, of which the median counts and the least and the most are shown; and a window in which the disk
alone, with a file that Muster knows nothing of, stalled (`bench.disk_beside`) is left out, counted and shown.
"""

import shutil
import threading
import time
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.compare import MUSTER, Target
from bench.disk_beside import STALL_S, DiskBeside
from bench.errors import RunFailed
from bench.far_behind import TOPIC, Writer
from bench.lab import Lab, Own
from bench.muster_side import Muster
from bench.row import Measured, Row
from bench.rows.load import run_once
from bench.rows.million import GROUPS, PARTITIONS, fill
from bench.sides import Side
from tests.cluster import MusterCluster, wait_until

TOPICS_BYTES = 1 << 30
THROTTLE = 20_000_000
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
RATE, HIGH_RATE = 200, 500
WARMUP, WINDOW = "1s", "5s"
"""Without the generator's first second, in which all its connections commit at once: those are 3 of 100."""
WINDOWS_BEFORE, TRIES = 4, 3
"""Of each rate; at most so many times as many are tried."""
AT_REST_S = 20
"""After the writes: what they left to flush and to checkpoint is done. Else it is part of "before"."""
TAKEN_OVER_S = 10
"""After the kill: the others lead its groups, and no request of the generator meets a group without a leader."""
KNOWN_S, DECLARED_S, REPLACED_S = 20, 60, 900
_PHASE_UNITS = {
    "p99 {phase}": "ms",
    f"p99 {{phase}}, {HIGH_RATE}/s": "ms",
    "left out {phase}": "windows",
    "disk's longest {phase}": "ms",
}
MB = 1e6


def measure(side: Side, lab: Lab) -> Measured:
    assert isinstance(side, Muster)
    cluster = side.cluster
    fill(side)
    Writer(side.bootstrap).write(TOPICS_BYTES)
    throttle(side)
    lab.say(f"  {GROUPS * PARTITIONS:,} offsets and {TOPICS_BYTES / MB:.0f} MB of topics are there")
    time.sleep(AT_REST_S)
    before, away, during = (Windows(side, lab) for _ in range(3))
    before.measure(WINDOWS_BEFORE)
    lost = (controller(cluster) + 1) % side.nodes
    folder = folder_of(cluster, lost)
    side.kill(lost)
    time.sleep(TAKEN_OVER_S)
    away.measure(WINDOWS_BEFORE)
    shutil.rmtree(cluster.folder / f"replica-{lost}" / "data")
    side.revive(lost, wait=False)
    wait_until("its folder is declared gone", lambda: _declare(cluster, lost, folder), DECLARED_S, 0.5)
    began_s = time.monotonic()
    ended: list[float] = []
    watch = threading.Thread(target=_watch, args=(cluster, lost, ended), daemon=True)
    watch.start()
    while watch.is_alive():
        during.measure_once()
    if not ended:
        raise RunFailed(f"the replica was not replaced within {REPLACED_S} s")
    seconds = ended[0] - began_s
    moved = side.metric(lost, "muster_transfer_received_bytes_total") / MB
    return {
        "until it is replaced": [seconds],
        "moved": [moved],
        "moved a second": [moved / seconds],
        **before.figures("before"),
        **away.figures("with two"),
        **during.figures("during"),
    }


class Windows:
    """The p99 of each window of commits, of both rates in turn, but of those in which the disk alone stalled."""

    def __init__(self, side: Side, lab: Lab) -> None:
        self._side = side
        self._lab = lab
        self._p99_ms: dict[int, list[float]] = {RATE: [], HIGH_RATE: []}
        self._left_out = 0
        self._longest_s = 0.0

    def measure(self, times: int) -> None:
        """Until so many windows of each rate count."""
        for _ in range(TRIES * times):
            self.measure_once()
            if all(len(found) >= times for found in self._p99_ms.values()):
                return
        raise RunFailed(f"the disk alone took more than {STALL_S} s for a sync in {self._left_out} windows")

    def measure_once(self) -> None:
        for rate, found in self._p99_ms.items():
            with DiskBeside(self._lab.folder) as disk:
                result = run_once(self._side, self._lab, "commit", rate=rate, warmup=WARMUP, window=WINDOW)
            if result["latency_us"] is None:
                raise RunFailed("no commit was answered")
            self._longest_s = max(self._longest_s, disk.longest_s)
            if disk.longest_s > STALL_S:
                self._left_out += 1
            else:
                found.append(result["latency_us"]["p99"] / 1_000)

    def figures(self, phase: str) -> Measured:
        """`_PHASE_UNITS`."""
        if not all(self._p99_ms.values()):
            raise RunFailed(f"no window {phase} in which the disk alone did not stall")
        return {
            f"p99 {phase}": self._p99_ms[RATE],
            f"p99 {phase}, {HIGH_RATE}/s": self._p99_ms[HIGH_RATE],
            f"left out {phase}": [self._left_out],
            f"disk's longest {phase}": [1_000 * self._longest_s],
        }


def throttle(side: Muster) -> None:
    """Both rates of every broker, as Kafka's tool sets them for a move."""
    entries = [ConfigEntry(name, str(THROTTLE), incremental_operation=AlterConfigOpType.SET) for name in RATES]
    admin = AdminClient({"bootstrap.servers": side.bootstrap, "log_level": 0})
    for node in range(side.nodes):  # librdkafka takes one broker a call
        resource = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=entries)
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(KNOWN_S)


def controller(cluster: MusterCluster) -> int:
    """Who leads the controller's group."""

    def known() -> int | None:
        leader = next((cluster.status(node)["controller"]["leader"] for node in cluster.alive()), None)
        return None if leader is None else int(leader) + 1  # 0 is true, too

    return int(wait_until("a controller", known, KNOWN_S)) - 1


def folder_of(cluster: MusterCluster, lost: int) -> str:
    return next(str(one["replica_uuid"]) for one in cluster.status(lost)["brokers"] if one["broker"] == lost)


def _declare(cluster: MusterCluster, lost: int, folder: str) -> bool:
    """Asked again while the others agree on leaders."""
    leader = next((cluster.status(node)["controller"]["leader"] for node in cluster.alive() if node != lost), None)
    if leader in (None, lost):
        return False
    code, answer = cluster.admin(leader, f"/v1/replicas/{lost}/replace", post={"gone": folder})
    if code not in (200, 409, 421, 503):
        raise RunFailed(f"replica {lost} is not replaced: {code} {answer}")
    return code == 200


def _watch(cluster: MusterCluster, lost: int, ended: list[float]) -> None:
    """Notes when every Raft group has its new member; ends without that when the time is up."""

    def replaced() -> bool:
        if cluster.probe(lost, "/readyz") != 200:
            return False
        statuses: list[dict[str, Any]] = [cluster.status(node) for node in range(cluster.replicas)]
        return not any(one["groups_to_change"] for one in statuses)

    deadline_s = time.monotonic() + REPLACED_S
    while time.monotonic() < deadline_s:
        if replaced():
            ended.append(time.monotonic())
            return
        time.sleep(1)


ROWS = (
    Row(
        name="replace",
        title="A lost replica is replaced",
        how=f"{GROUPS * PARTITIONS:,} offsets and {TOPICS_BYTES >> 20} MiB of a topic on three replicas; one loses its "
        f"folder and is replaced with {THROTTLE / MB:.0f} MB/s as throttle, beside {RATE} and {HIGH_RATE} commits a "
        "second in turn, of 10 partitions, open loop, in windows of five seconds, each after one second that is left "
        "out and with a p99. Before: the same commits with all three. With two: while it is away and nothing is "
        "copied; each commit has to be on both disks then, not on two of three. Moved: what its installs received. "
        f"Figures that name no rate are of {RATE}. Beside each window another file on the disk is synced all the time; "
        f"one in which that took more than {1_000 * STALL_S:.0f} ms once is left out. "
        "The disk's longest: of all windows.",
        units={
            "until it is replaced": "s",
            "moved": "MB",
            "moved a second": "MB/s",
            **{
                figure.format(phase=phase): unit
                for phase in ("before", "with two", "during")
                for figure, unit in _PHASE_UNITS.items()
            },
        },
        measure=measure,
        sides=(MUSTER,),
        targets=(
            Target(figure="p99 during", at_most=2, of_figure="p99 before"),
            Target(figure="moved a second", at_most=THROTTLE / MB, worst=True),
        ),
        runs=1,
        own=Own(
            topics={TOPIC: 1, "bench": 20},
            warm=False,
            # Longer than the row takes: a leadership that goes home fails the generator's requests.
            settings={"muster.balancer.quiet.ms": "-1", "muster.leadership.takeback.ms": "1800000"},
        ),
    ),
)
