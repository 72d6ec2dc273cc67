"""What partitions weigh: measured by whoever leads them, known to the controller's leader (ADR 81).

Problem: the planner of the controller's leader has to know sizes and rates of partitions of which it has no replica.
Mechanism: every replica tells the controller's leader each `REPORT_MS` what it leads: the bytes of each partition's
segments, and what was written to and read from it a second, smoothed over `SMOOTHED_MS`; and what its disk has room
for. A weight counts while whoever told it is known to lead the partition, and for `COUNTS_MS`. So a late report, also
of a broker that is gone, counts for nothing, and a partition whose leader is silent is not known.

Nothing of it is stored: another leader of the controller's group is told everything anew. From `MEMBERS_LEVEL` on, as
an older release does not know the payload. What it does not do: measure what follows, or decide anything.
"""

from collections.abc import Sequence
from typing import NamedTuple

from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.controller.weighing import UNKNOWN, Weight, Weights
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.links import channels
from muster_coordinator.ports import Loop
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.maintenance.disk_space import DiskSpace
from muster_coordinator.replica.maintenance.weight_payload import WeightRow, decode_weights, encode_weights
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.settings import NodeSettings

REPORT_MS = 10_000
COUNTS_MS = 3 * REPORT_MS + 5_000
"""Two reports may be lost."""
SLICE_GROUPS = 100
SLICE_MS = 10
"""Time between two slices of a report; each is a payload of its own."""
SMOOTHED_MS = 600_000
"""Rates follow a change within about this time: leaderships do not follow each peak of load."""
RATE_KNOWN_MS = 60_000
"""For so long a partition is led here before its rates are told."""


class Meter:
    """Bytes a second of something that is counted, smoothed: pure."""

    __slots__ = ("_at_ms", "_count", "_rate", "_since_ms")

    def __init__(self, now_ms: int, count: int) -> None:
        self._since_ms = self._at_ms = now_ms
        self._count = count
        self._rate = 0.0

    def look(self, now_ms: int, count: int) -> int:
        """The rate by now; `UNKNOWN`: not for long enough. A count that is lower than before began anew."""
        passed_ms = now_ms - self._at_ms
        if passed_ms > 0:
            grown = count - self._count if count >= self._count else count
            # Until `SMOOTHED_MS` have passed it is the mean since the beginning.
            over_ms = max(passed_ms, min(SMOOTHED_MS, now_ms - self._since_ms))
            self._rate += (grown * 1_000 / passed_ms - self._rate) * passed_ms / over_ms
            self._at_ms, self._count = now_ms, count
        return round(self._rate) if now_ms - self._since_ms >= RATE_KNOWN_MS else UNKNOWN


class _Meters(NamedTuple):
    written: Meter
    read: Meter


class _Told(NamedTuple):
    replica: BrokerId
    at_ms: int
    weight: Weight


class WeightReports:
    """See the module."""

    def __init__(
        self, loop: Loop, host: Host, group_manager: GroupManager, space: DiskSpace, settings: NodeSettings
    ) -> None:
        self._loop = loop
        self._host = host
        self._group_manager = group_manager
        self._space = space
        self._settings = settings
        self._meters: dict[GroupNo, _Meters] = {}
        """Of the groups that are led here."""
        self._report: list[GroupNo] = []
        """What the report that goes out has still to tell."""
        self._told: dict[GroupNo, _Told] = {}
        """The last weight of each group, by whoever led it as far as was known here. Bounded by the groups there are
        leaders of."""
        self._rooms: dict[BrokerId, tuple[int, int]] = {}
        """Broker -> (when it said so, bytes)."""

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + REPORT_MS, self._begin)

    # -- telling ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + REPORT_MS, self._begin)
        image = self._group_manager.image
        if self._report or image is None or image.feature_level < MEMBERS_LEVEL:
            return
        led = self._host.heartbeats.led()
        self._meters = {group: meters for group, meters in self._meters.items() if group in led}
        self._report = [group for group in led if group in self._group_manager.logs]
        self._slice()

    def _slice(self) -> None:
        some, self._report = self._report[:SLICE_GROUPS], self._report[SLICE_GROUPS:]
        rows = [(group, weight) for group in some if (weight := self._weight(group)) is not None]
        self._tell(self._room(), rows)
        if self._report:
            self._loop.call_at(self._loop.monotonic_ms() + SLICE_MS, self._slice)

    def _weight(self, number: GroupNo) -> Weight | None:
        """None: it is not led here, or its log is closed now."""
        group, log = self._host.groups.get(number), self._group_manager.logs.get(number)
        if group is None or log is None or not group.serves or log.state.closed:
            return None
        now_ms = self._loop.monotonic_ms()
        meters = self._meters.get(number)
        if meters is None:
            meters = _Meters(Meter(now_ms, group.applied_bytes), Meter(now_ms, log.read_bytes))
            self._meters[number] = meters
        written, read = meters.written.look(now_ms, group.applied_bytes), meters.read.look(now_ms, log.read_bytes)
        return Weight(log.size_bytes(), written, read)

    def _room(self) -> int:
        free_bytes = self._space.free_bytes
        return UNKNOWN if free_bytes < 0 else max(0, free_bytes - self._settings.disk_low_bytes)

    def _tell(self, room_bytes: int, rows: Sequence[WeightRow]) -> None:
        leader = self._host.leaders.of(CONTROLLER_GROUP).leader
        if leader == self._host.broker:
            self._take(leader, room_bytes, rows)
        elif leader is not None:
            self._host.net.send(leader, channels.CONTROL, encode_weights(room_bytes, rows))

    # -- knowing ---------------------------------------------------------------------------------------------------

    def received(self, peer: BrokerId, payload: bytes) -> None:
        """Raises `WireError`."""
        room_bytes, rows = decode_weights(payload)
        self._take(peer, room_bytes, rows)

    def _take(self, replica: BrokerId, room_bytes: int, rows: Sequence[WeightRow]) -> None:
        now_ms = self._loop.monotonic_ms()
        self._rooms[replica] = (now_ms, room_bytes)
        for group, weight in rows:
            if self._host.leaders.of(group).leader == replica:
                self._told[group] = _Told(replica, now_ms, weight)

    def lack_of_room(self, group: GroupNo, broker: BrokerId) -> str:
        """Why a copy of the group to that broker would get no room, as far as was told here; "": nothing says so."""
        since_ms = self._loop.monotonic_ms() - COUNTS_MS
        said, told = self._rooms.get(broker), self._told.get(group)
        if said is None or told is None or min(said[0], told.at_ms) < since_ms or said[1] == UNKNOWN:
            return ""
        room_bytes, size_bytes = said[1], told.weight.size_bytes
        if size_bytes <= room_bytes:
            return ""
        return f"broker {broker} has room for {room_bytes} bytes before its disk is low, and it takes {size_bytes}"

    def known(self) -> Weights:
        """The weights that count now."""
        since_ms = self._loop.monotonic_ms() - COUNTS_MS
        leaders = self._host.leaders
        self._told = {
            group: told
            for group, told in self._told.items()
            if told.at_ms >= since_ms and leaders.of(group).leader == told.replica
        }
        self._rooms = {replica: said for replica, said in self._rooms.items() if said[0] >= since_ms}
        return Weights(
            {group: told.weight for group, told in self._told.items()},
            {replica: room for replica, (_, room) in self._rooms.items() if room != UNKNOWN},
            self._settings.balancer_difference_percent,
            self._settings.balancer_difference_min_bytes,
        )
