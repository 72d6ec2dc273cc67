"""A replica as the admin room sees it, without a cluster behind it."""

from collections.abc import Callable, Iterator, Mapping

from muster_coordinator.context import RequestContext
from muster_coordinator.controller.balancing import Planner
from muster_coordinator.controller.commands import Command, CommandResult, SetDraining
from muster_coordinator.controller.image import OFFSETS_TOPIC, Broker, ClusterImage, Endpoint, Partition, Routing, Topic
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, Heartbeat
from muster_coordinator.groups.stats import ShardStats
from muster_coordinator.ids import CONTROLLER_GROUP, FIRST_OFFSETS_GROUP, BrokerId, GroupNo, member_no
from muster_coordinator.ports import Loop
from muster_coordinator.raft.quorum import Config
from muster_coordinator.redis_streams.lag import UNKNOWN, Records
from muster_coordinator.replica.maintenance.balancer import BalancerStatus, State, Weighed
from muster_coordinator.replica.maintenance.disk_space import DiskStatus
from muster_coordinator.replica.multiraft.leaders import Leadership
from muster_coordinator.replica.multiraft.status import (
    CleanerStatus,
    CopyWithoutRoom,
    DamagedFile,
    GroupStatus,
    InstallStatus,
    LateMarker,
    OpenTransactions,
    ScrubStatus,
    TransactionStatus,
    WorkDone,
)
from muster_coordinator.replica.multiraft.stopped_entry import StoppedEntry
from muster_coordinator.replica.multiraft.wal_writer import WalStatus

VOTERS = (BrokerId(0), BrokerId(1), BrokerId(2))
MEMBERS = tuple(member_no(voter, 0) for voter in VOTERS)
OFFSETS_PARTITIONS = 4


def broker(number: int, *, draining: bool = False) -> Broker:
    return Broker(
        broker=BrokerId(number),
        replica_uuid=bytes([number + 1]) * 16,
        incarnation=number + 1,
        endpoints=(Endpoint(listener="PLAINTEXT", host="127.0.0.1", port=9092 + number),),
        admin=f"127.0.0.1:{9392 + number}",
        draining=draining,
        feature_max=1,
    )


def image(draining: frozenset[int] = frozenset()) -> ClusterImage:
    partitions = tuple(Partition(group=GroupNo(FIRST_OFFSETS_GROUP + n), members=MEMBERS) for n in range(4))
    topic = Topic(name=OFFSETS_TOPIC, topic_id=b"o" * 16, partitions=partitions, configs=(), internal=True)
    return ClusterImage(
        applied=7,
        cluster_id="c" * 22,
        voters=VOTERS,
        brokers={BrokerId(n): broker(n, draining=n in draining) for n in VOTERS},
        topics={OFFSETS_TOPIC: topic},
        names_by_id={b"o" * 16: OFFSETS_TOPIC},
        deleted_topic_ids=frozenset(),
        routing=Routing(offsets_partitions=OFFSETS_PARTITIONS),
        feature_level=1,
        next_group=GroupNo(5),
        next_producer_id=0,
    )


class FakeReplica:
    """Broker 0 of three. Tests set who leads what and what commands and transfers do."""

    def __init__(self, loop: Loop, rand: object = None) -> None:
        self.loop = loop
        self.rand = rand
        self.broker = BrokerId(0)
        self.known_image: ClusterImage | None = image()
        self.leaders: dict[GroupNo, BrokerId | None] = {GroupNo(n): BrokerId(0) for n in range(5)}
        self.damaged: dict[GroupNo, tuple[DamagedFile, ...]] = {}
        self.match: dict[GroupNo, Mapping[BrokerId, int]] = {}
        self.left_over: set[GroupNo] = set()
        """Groups of which this replica holds what is no member any more: it is not told who leads them."""
        self.weighed = Weighed()
        self.without_room: tuple[CopyWithoutRoom, ...] = ()
        self.down: set[BrokerId] = set()
        self.low: set[BrokerId] = set()
        self.reasons: tuple[str, ...] = ()
        self.answers: dict[type, GroupAnswer] = {}
        self.commands: list[Command] = []
        self.controller_answers = True
        self.transfers: list[tuple[GroupNo, BrokerId]] = []
        self.transfer_works = True
        self.transfer_ms = 5
        self.current = True
        """Whether a round shows that this replica's image is current."""
        self.stopped: list[StoppedEntry] = []
        self.transactions: list[OpenTransactions] = []
        self.late: list[LateMarker] = []
        self.behind: dict[tuple[str, int], Records] = {}
        """What is known of a group's partition in Redis."""
        self.skips: list[GroupNo] = []
        self.skip_agreed: bool | None = True
        """None: nobody answers."""

    def image(self) -> ClusterImage | None:
        return self.known_image

    def records_behind(self, group: str, topic: Topic, partition: int, committed: int) -> Records:
        return self.behind.get((group, partition), UNKNOWN)

    def leadership(self, group: GroupNo) -> Leadership:
        return Leadership(self.leaders.get(group), 3)

    def alive(self, broker: BrokerId) -> bool:
        return broker not in self.down

    def own_folder(self) -> bytes | None:
        return bytes([self.broker + 1]) * 16

    def recorded_folder(self, broker: BrokerId) -> bytes | None:
        return bytes([broker + 1]) * 16 if broker in VOTERS else None

    def linked(self, broker: BrokerId) -> bool:
        return broker not in self.down

    def when_image_current(self, call: Callable[[bool], None]) -> None:
        call(True)

    def when_topics_current(self, call: Callable[[bool], None]) -> None:
        call(self.current)

    def when_leader_known(self, group: GroupNo, wait_ms: int, call: Callable[[], None]) -> None:
        call()

    def group_request(
        self, partition: int, request: GroupRequest, context: RequestContext, done: Callable[[GroupAnswer], None]
    ) -> None:
        done(self.answers[type(request)])

    def heartbeat_at_once(self, partition: int, request: Heartbeat, times: int) -> Code | None:
        return None

    def offsets_led(self) -> tuple[int, ...]:
        return tuple(n - FIRST_OFFSETS_GROUP for n, leader in self.leaders.items() if n and leader == self.broker)

    def submit(self, command: Command, *, deadline_ms: int, done: Callable[[CommandResult], None]) -> None:
        self.commands.append(command)
        if not self.controller_answers:
            self.loop.call_at(deadline_ms, lambda: done(CommandResult(7)))
            return

        def apply() -> None:
            if isinstance(command, SetDraining):
                assert self.known_image is not None
                draining = {int(n) for n, known in self.known_image.brokers.items() if known.draining}
                own = {int(command.broker)}
                self.known_image = image(frozenset(draining | own if command.draining else draining - own))
            done(CommandResult(0))

        self.loop.call_soon(apply)

    def not_ready(self) -> tuple[str, ...]:
        return self.reasons

    def local_groups(self) -> Iterator[GroupStatus]:
        for group, leader in sorted(self.leaders.items()):
            yield GroupStatus(
                group=group,
                role="leader" if leader == self.broker else "follower",
                term=3,
                leader=None if group in self.left_over else leader,
                commit=10,
                applied=10,
                last_index=10,
                voters=VOTERS,
                match=self.match.get(group, {BrokerId(1): 10, BrokerId(2): 9}) if leader == self.broker else {},
                damaged=self.damaged.get(group, ()),
                config=Config((*MEMBERS[1:], 4)) if group in self.left_over else Config(MEMBERS),
            )

    def log_bytes(self, group: GroupNo) -> int | None:
        """Only the second group has records."""
        return 4_096 if group == GroupNo(2) else None

    def groups_to_change(self) -> int:
        return 0

    def balancer_status(self) -> BalancerStatus:
        return BalancerStatus(State.QUIET, "broker 2 is not connected", 1)

    def balancer_plan(self, image: ClusterImage, *, level: bool = True) -> Planner:
        return Planner(image, image.brokers.keys() - self.down, level=level)

    def balancer_weighed(self) -> Weighed:
        return self.weighed

    def copies_without_room(self) -> tuple[CopyWithoutRoom, ...]:
        return self.without_room

    def leaderships(self) -> int:
        return sum(1 for leader in self.leaders.values() if leader == self.broker)

    def group_status(self, group: GroupNo) -> GroupStatus | None:
        return next((status for status in self.local_groups() if status.group == group), None)

    def free_bytes(self) -> int:
        return -1

    def install_status(self) -> InstallStatus:
        return InstallStatus(2, 300, 40, 50, 6)

    def work_done(self) -> WorkDone:
        return WorkDone(turns=21, proposals_refused=22, checkpoints=23, flushes=24, late_timers=25, group_requests=26)

    def group_stats(self) -> ShardStats:
        return ShardStats(
            rebalances_started=11,
            rebalances_completed=10,
            rebalances_timed=4,
            rebalances_ms=6_000,
            sessions_expired=12,
            offsets_committed=13,
            offsets_expired=14,
            offsets_deleted=15,
            requests_refused_waiting=16,
            faults=17,
        )

    def wals(self) -> list[WalStatus]:
        return [WalStatus("wal-topics", used_bytes=60, room_bytes=4, carried_bytes=7, slowed=9, parked=3)]

    def disk_status(self) -> DiskStatus:
        return DiskStatus(900, 1_000, 1_500, low=True, full=False, refused=(("checkpoint", 2), ("sidecar", 5)))

    def low_disks(self) -> frozenset[BrokerId]:
        return frozenset(self.low)

    def cleaner_status(self) -> CleanerStatus:
        return CleanerStatus(rounds=6, failures=1, done_bytes=80, freed_bytes=30, due=2, uncleanable=3, cleaning="t-0")

    def scrub_status(self) -> ScrubStatus:
        return ScrubStatus(checked_bytes=70, passes=2, damaged=1, repaired=3, repair_failures=4)

    def transfer(self, group: GroupNo, target: BrokerId) -> bool:
        if not self.transfer_works or self.leaders[group] != self.broker:
            return False
        self.transfers.append((group, target))

        def moved() -> None:
            self.leaders[group] = target

        self.loop.call_at(self.loop.monotonic_ms() + self.transfer_ms, moved)
        return True

    def open_transactions(self) -> Iterator[OpenTransactions]:
        return iter(self.transactions)

    def transaction_status(self) -> TransactionStatus:
        return TransactionStatus(9, 4, 2, committed=30, aborted=7, timed_out=3, fenced=5, ids_expired=11)

    def late_markers(self) -> Iterator[LateMarker]:
        return iter(self.late)

    def stopped_entries(self) -> list[StoppedEntry]:
        return self.stopped

    def skip_entry(self, group: GroupNo, done: Callable[[bool], None]) -> bool:
        if group in self.skips:
            return False
        self.skips.append(group)
        agreed = self.skip_agreed
        if agreed is not None:
            self.loop.call_soon(lambda: done(agreed))
        return True

    def stop_skipping(self, group: GroupNo) -> None:
        self.skips.remove(group)


assert CONTROLLER_GROUP == 0
