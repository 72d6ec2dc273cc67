"""A replica that is nothing but tables: what the handlers see, under the control of a test, on virtual time."""

import heapq
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import TypeVar

from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import (
    AddPartitions,
    AlterBrokerConfigs,
    Command,
    CommandResult,
    CreateTopic,
    DeleteScramCredential,
    FinalizeFeatures,
    MovePartition,
    SetScramCredential,
)
from muster_coordinator.controller.image import (
    MEMBERS_LEVEL,
    OFFSETS_TOPIC,
    Broker,
    ClusterImage,
    Endpoint,
    Partition,
    Routing,
    Topic,
)
from muster_coordinator.controller.moves import move_partition
from muster_coordinator.controller.scram_credentials import Users, delete_credential, set_credential
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, Heartbeat, TxnOffsetCommit, refusal
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo, MemberNo
from muster_coordinator.ports import Loop, Rand
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.replica.multiraft.leaders import Leadership
from muster_coordinator.replica.multiraft.status import GroupStatus
from muster_coordinator.replica.partitions.surface import EpochEnd, LocalLog, OffsetResult, ReadResult, Surface
from muster_coordinator.storage.aborted import Aborted
from muster_coordinator.topics.machine import ActiveProducer, ProduceResult, Refused
from muster_coordinator.topics.stores import EMBEDDED, TopicStore
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import Answer
from muster_coordinator.transactions.requests import Request as TransactionRequest
from typing_extensions import override

from tests.sim.loop import finish

T = TypeVar("T")
CLUSTER_ID = "Q0xVU1RFUi1JRC1GT1ItVQ"
OFFSETS_PARTITIONS = 4
FIRST_TOPIC_GROUP = 100


class FakeTimer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class FakeLoop:
    """`ports.Loop` on virtual time. `run` makes the calls that are due."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self._calls: list[tuple[int, int, FakeTimer]] = []
        self._order = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms + 1_700_000_000_000

    def call_soon(self, call: Callable[[], None]) -> None:
        self.call_at(self.now_ms, call)

    def call_at(self, monotonic_ms: int, call: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(call)
        self._order += 1
        heapq.heappush(self._calls, (monotonic_ms, self._order, timer))
        return timer

    def submit(self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        done(job())

    def submit_paced(
        self, queue: str, steps: Generator[None, None, T], done: Callable[[T | BaseException], None]
    ) -> None:
        done(finish(steps))

    def run(self, for_ms: int = 0) -> None:
        """Let time pass."""
        until = self.now_ms + for_ms
        while self._calls and self._calls[0][0] <= until:
            self.step()
        self.now_ms = until

    def step(self) -> None:
        """Make the next call, whenever it is due."""
        at, _, timer = heapq.heappop(self._calls)
        self.now_ms = max(self.now_ms, at)
        call, timer.call = timer.call, None
        if call is not None:
            call()

    def due(self, at_ms: int) -> bool:
        """Whether a call is to be made by then."""
        return bool(self._calls) and self._calls[0][0] <= at_ms

    @property
    def pending(self) -> int:
        """Calls that are set and not cancelled."""
        return sum(1 for _, _, timer in self._calls if timer.call is not None)


class FakeLog:
    """`LocalLog` of opaque batches, ten records each unless said otherwise."""

    store: TopicStore = EMBEDDED
    reads_at_once: bool = True

    def __init__(self, group: GroupNo, term: int = 3) -> None:
        self.group = group
        self.code = Code.NONE
        self.start = 0
        self.stable: int | None = None
        """Last stable offset; None: the end."""
        self.batches: list[tuple[int, int, bytes]] = []
        """(base offset, next offset, bytes)"""
        self.epoch = term
        self.epochs: dict[int, EpochEnd] = {}
        self.watchers: list[Callable[[], None]] = []
        self.produced: list[tuple[bytes, Mapping[str, str], int]] = []
        self.produce_result: ProduceResult | None = ProduceResult(Code.NONE, 42, -1, 0)
        self.waiting: list[Callable[[ProduceResult], None]] = []
        self.room: bool | None = True
        """May batches be produced? None: they wait in `parked`."""
        self.parked: list[Callable[[bool], None]] = []
        self.room_until_ms: list[int] = []
        """Until when each batch waits for that."""
        self.asked_offsets: list[int] = []
        self.offset_result = OffsetResult(Code.NONE, 7, -1, 3)
        self.reads = 0
        self.leads: bool | None = True
        """What a round shows; None: it takes its time, `confirming` has who waits."""
        self.confirming: list[Callable[[bool], None]] = []
        self.deleted: list[int] = []
        self.undeletable: Code | None = None
        """Why it refuses to delete records."""
        self.follows = False
        """Whether a follower may answer from it."""
        self.markers: list[TransactionMarker] = []
        self.open_transactions: set[tuple[int, int]] = set()
        """(producer id, epoch)"""
        self.verification: int | Refused = 9
        self.verified: list[int | None] = []
        """What each batch was produced with."""
        self.active: list[ActiveProducer] = []
        self.aborted: list[Aborted] = []
        self.asked_committed: list[bool] = []

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else self.start

    def append(self, data: bytes, records: int = 10) -> None:
        self.batches.append((self.end, self.end + records, data))
        self.moved()

    def moved(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    def serving(self, current_leader_epoch: int) -> Code:
        if current_leader_epoch >= 0 and current_leader_epoch < self.epoch:
            return Code.FENCED_LEADER_EPOCH
        if current_leader_epoch > self.epoch:
            return Code.UNKNOWN_LEADER_EPOCH
        return self.code

    def size_bytes(self) -> int:
        return sum(len(batch) for _, _, batch in self.batches)

    def term(self) -> int:
        return self.epoch

    def read(self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False) -> ReadResult:
        self.reads += 1
        if not self.start <= offset <= self.end:
            return ReadResult(Code.OFFSET_OUT_OF_RANGE, unproven=offset > self.end)
        data = b""
        stable = self.end if self.stable is None else self.stable
        for base, after, batch in self.batches:
            if after <= offset:
                continue
            if committed and base >= stable:
                break
            if len(data) + len(batch) > max_bytes and not (whole_first_batch and not data):
                break
            data += batch
        aborted = tuple(self.aborted) if committed and data else ()
        return ReadResult(Code.NONE, data, self.end, stable, self.start, aborted=aborted)

    def read_following(
        self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False
    ) -> ReadResult:
        if not self.follows:
            return ReadResult(Code.NOT_LEADER_OR_FOLLOWER)
        if offset > self.end:
            return ReadResult(Code.NONE, b"", self.end, self.end, self.start)
        return self.read(offset, max_bytes, whole_first_batch=whole_first_batch, committed=committed)

    def read_later(self, offset: int, max_bytes: int, *, committed: bool, done: Callable[[ReadResult], None]) -> None:
        result = self.read(offset, max_bytes, whole_first_batch=True, committed=committed)
        done(result._replace(unproven=False))

    def confirm(self, done: Callable[[bool], None]) -> None:
        if self.leads is None:
            self.confirming.append(done)
        else:
            done(self.leads)

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(notify)
        return lambda: self.watchers.remove(notify)

    def when_room(self, size_bytes: int, deadline_ms: int, go: Callable[[bool], None]) -> None:
        self.room_until_ms.append(deadline_ms)
        if self.room is None:
            self.parked.append(go)
        else:
            go(self.room)

    def produce(
        self,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        deadline_ms: int,
        done: Callable[[ProduceResult], None],
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        self.verified.append(verification)
        self.produced.append((batch, configs, deadline_ms))
        if self.produce_result is None:
            self.waiting.append(done)
        else:
            done(self.produce_result)
        return False

    def list_offset(self, timestamp_ms: int, *, committed: bool = False, done: Callable[[OffsetResult], None]) -> None:
        self.asked_offsets.append(timestamp_ms)
        self.asked_committed.append(committed)
        done(self.offset_result)

    def epoch_end(self, epoch: int) -> EpochEnd:
        return self.epochs.get(epoch, EpochEnd(Code.NONE))

    def delete_records(self, offset: int, *, deadline_ms: int, done: Callable[[OffsetResult], None]) -> None:
        if self.undeletable is not None:
            done(OffsetResult(self.undeletable))
            return
        self.deleted.append(offset)
        done(OffsetResult(Code.NONE, self.end if offset < 0 else offset))

    def write_marker(self, marker: TransactionMarker, *, deadline_ms: int, done: Callable[[Code], None]) -> None:
        self.markers.append(marker)
        done(self.code)

    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return (producer_id, producer_epoch) in self.open_transactions

    def verify(self, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | Refused | None:
        return None if self.open_transaction(producer_id, epoch) else self.verification

    def producers(self) -> tuple[ActiveProducer, ...]:
        return tuple(self.active)


class Watched(Mapping[str, Topic]):
    """The topics of an image; counts look-ups."""

    def __init__(self, topics: Mapping[str, Topic], note: Callable[[str], None]) -> None:
        self._topics = topics
        self._note = note

    @override
    def __getitem__(self, key: str) -> Topic:
        self._note("topic")
        return self._topics[key]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    @override
    def __len__(self) -> int:
        return len(self._topics)


def broker(number: int, *, listeners: tuple[str, ...] = ("PLAINTEXT", "EXTERNAL")) -> Broker:
    return Broker(
        broker=BrokerId(number),
        replica_uuid=bytes([number]) * 15 + b"u",
        incarnation=1,
        endpoints=tuple(
            Endpoint(listener=name, host=f"{name.lower()}-{number}", port=9092 + i) for i, name in enumerate(listeners)
        ),
        admin=f"admin-{number}:8081",
        draining=False,
        feature_max=MEMBERS_LEVEL,
    )


def topic(
    name: str,
    partitions: int,
    *,
    first_group: int = FIRST_TOPIC_GROUP,
    topic_id: bytes | None = None,
    configs: tuple[tuple[str, str], ...] = (),
    internal: bool = False,
    voters: tuple[int, ...] = (0, 1, 2),
) -> Topic:
    return Topic(
        name=name,
        topic_id=topic_id or name.encode().ljust(16, b"-")[:16],
        partitions=tuple(
            Partition(group=GroupNo(first_group + i), members=tuple(map(MemberNo, voters))) for i in range(partitions)
        ),
        configs=configs,
        internal=internal,
    )


def _placed(partitions: tuple[Partition, ...], placed: tuple[tuple[BrokerId, ...], ...]) -> tuple[Partition, ...]:
    if not placed:
        return partitions
    return tuple(
        replace(partition, members=tuple(map(MemberNo, brokers)), placed=True)
        for partition, brokers in zip(partitions, placed, strict=True)
    )


class FakeSurface:
    """`Surface`: three brokers, this is number 0, topic `orders` with three partitions led by 0, 1, 2."""

    def __init__(self) -> None:
        self.fake_loop = FakeLoop()
        self.loop: Loop = self.fake_loop
        self.rand: Rand = Random(7)
        self.broker = BrokerId(0)
        self.lookups: list[str] = []
        """Every look at state that a denied request must not get."""
        self.topics: dict[str, Topic] = {}
        self.brokers = {BrokerId(n): broker(n) for n in range(3)}
        self.dead: set[int] = set()
        self.just_gone: set[int] = set()
        """Of the dead: whose link broke a moment ago."""
        self.formed = True
        self.deleted_ids: frozenset[bytes] = frozenset()
        self.leaders: dict[int, Leadership] = {0: Leadership(BrokerId(1), 2)}
        self.logs: dict[int, FakeLog] = {}
        self.waiting_for_leader: list[tuple[int, FakeTimer, Callable[[], None]]] = []
        self.group_requests: list[tuple[int, GroupRequest, RequestContext]] = []
        self.on_group: Callable[[GroupRequest], GroupAnswer | None] = lambda r: refusal(r, Code.NOT_COORDINATOR)
        self.on_heartbeat: Callable[[Heartbeat], Code | None] = lambda _: None
        """The answer to a heartbeat that asks for one at once."""
        self.heartbeats_at_once = 0
        self.parked: list[Callable[[GroupAnswer], None]] = []
        self.led: tuple[int, ...] = (0, 2)
        self.transaction_requests: list[tuple[GroupNo, TransactionRequest]] = []
        self.on_transaction: Callable[[TransactionRequest], Answer] = lambda _: Answer(Code.NONE)
        self.transactional_ids: dict[int, dict[str, Transaction]] = {}
        """Raft group of a partition of the transaction log that is led here -> its ids."""
        self.commands: list[Command] = []
        self.command_deadlines: list[int] = []
        self.on_command: Callable[[Command], CommandResult | None] = lambda _: CommandResult(0)
        self.image_questions = self.topic_questions = 0
        """Of commits, and of all others."""
        self.on_image_question: Callable[[], bool] = lambda: True
        """Whether the image is shown to be current; may change it first, as a late replica's does."""
        self.hold_topic_question: Callable[[Callable[[bool], None]], None] | None = None
        """Gets what waits for an answer to such a question."""
        self.elections_wanted: list[GroupNo] = []
        self.without_room: dict[tuple[GroupNo, BrokerId], str] = {}
        """Copies that would get no room, and why."""
        self.on_election: Callable[[GroupNo], None] = lambda _: None
        """What the leader makes of a wanted election; nothing, as when the message is lost."""
        self.producer = 4_000
        self.next_group = 1_000
        self.voters = tuple(self.brokers)
        self.feature_level = MEMBERS_LEVEL
        self.broker_configs: dict[BrokerId, tuple[tuple[str, str], ...]] = {}
        self.scram_users: Users = {}
        self.scram_secret = b""
        self.statuses = {0: GroupStatus(CONTROLLER_GROUP, "follower", 2, BrokerId(1), 41, 41, 42, self.voters, {})}
        self.elected = True
        self.behind = False
        """Commands are taken and not seen in the image here."""
        self.add_topic(
            topic(
                OFFSETS_TOPIC,
                OFFSETS_PARTITIONS,
                first_group=1,
                internal=True,
                configs=(("cleanup.policy", "compact"),),
            )
        )
        self.add_topic(topic("orders", 3))

    def add_topic(self, added: Topic) -> None:
        """Leaders go round the voters; partitions led here have a log here."""
        self.topics[added.name] = added
        for index, partition in enumerate(added.partitions):
            leader = partition.voters[index % len(partition.voters)]
            self.leaders[partition.group] = Leadership(leader, 3)
            if leader == self.broker:
                self.logs[partition.group] = FakeLog(partition.group)

    def log_of(self, name: str, index: int) -> FakeLog:
        return self.logs[self.topics[name].partitions[index].group]

    # -- Surface

    def image(self) -> ClusterImage | None:
        if not self.formed:
            return None
        return ClusterImage(
            applied=9,
            cluster_id=CLUSTER_ID,
            voters=self.voters,
            brokers=MappingProxyType(self.brokers),
            topics=Watched(self.topics, self.lookups.append),
            names_by_id={t.topic_id: t.name for t in self.topics.values()},
            deleted_topic_ids=self.deleted_ids,
            routing=Routing(offsets_partitions=OFFSETS_PARTITIONS),
            feature_level=self.feature_level,
            next_group=GroupNo(500),
            next_producer_id=0,
            broker_configs=MappingProxyType(dict(self.broker_configs)),
            scram_users=self.scram_users,
            scram_secret=self.scram_secret,
        )

    def when_image_current(self, call: Callable[[bool], None]) -> None:
        self.image_questions += 1
        call(self.on_image_question())

    def when_topics_current(self, call: Callable[[bool], None]) -> None:
        self.topic_questions += 1
        if self.hold_topic_question is not None:
            self.hold_topic_question(call)
        else:
            call(self.on_image_question())

    def leadership(self, group: GroupNo) -> Leadership:
        if group != CONTROLLER_GROUP:  # that one is in every Metadata answer, whatever is asked
            self.lookups.append("leadership")
        return self.leaders.get(group, Leadership(None, 0))

    def elect_preferred(self, group: GroupNo) -> None:
        self.elections_wanted.append(group)
        self.on_election(group)

    def lack_of_room(self, group: GroupNo, broker: BrokerId) -> str:
        return self.without_room.get((group, broker), "")

    def group_status(self, group: GroupNo) -> GroupStatus | None:
        self.lookups.append("status")
        return self.statuses.get(group)

    def free_bytes(self) -> int:
        self.lookups.append("disk")
        return 5_000_000

    def alive(self, broker: BrokerId) -> bool:
        return broker not in self.dead

    def alive_lately(self, broker: BrokerId) -> bool:
        return broker not in self.dead or broker in self.just_gone

    def when_leader_known(self, group: GroupNo, wait_ms: int, call: Callable[[], None]) -> None:
        if self.leaders.get(group, Leadership(None, 0)).leader is not None:
            call()
            return

        def once() -> None:
            self.waiting_for_leader[:] = [w for w in self.waiting_for_leader if w[2] is not once]
            call()

        timer = self.fake_loop.call_at(self.fake_loop.now_ms + wait_ms, once)
        self.waiting_for_leader.append((group, timer, once))

    def elect(self, group: int, leader: int, term: int) -> None:
        self.leaders[group] = Leadership(BrokerId(leader), term)
        for waiting, timer, call in list(self.waiting_for_leader):
            if waiting == group:
                timer.cancel()
                call()

    def group_request(
        self, partition: int, request: GroupRequest, context: RequestContext, done: Callable[[GroupAnswer], None]
    ) -> None:
        self.lookups.append("group")
        self.group_requests.append((partition, request, context))
        answer = self.on_group(request)
        if answer is None:
            self.parked.append(done)
        else:
            done(answer)

    def transactional_commit(
        self,
        partition: int,
        request: TxnOffsetCommit,
        context: RequestContext,
        verify: Callable[[Callable[[Code], None]], None],
        done: Callable[[GroupAnswer], None],
    ) -> None:
        """Every commit is the first of its transaction."""

        def agreed(code: Code) -> None:
            if code is Code.NONE:
                self.group_request(partition, request, context, done)
            else:
                done(refusal(request, code))

        verify(agreed)

    def heartbeat_at_once(self, partition: int, request: Heartbeat, times: int) -> Code | None:
        self.lookups.append("group")
        code = self.on_heartbeat(request)
        if code is not None:
            self.heartbeats_at_once += times
        return code

    def local_log(self, group: GroupNo) -> LocalLog | None:
        self.lookups.append("log")
        return self.logs.get(group)

    def offsets_led(self) -> tuple[int, ...]:
        return self.led

    def transaction_request(self, group: GroupNo, request: TransactionRequest, done: Callable[[Answer], None]) -> None:
        self.lookups.append("transaction")
        self.transaction_requests.append((group, request))
        done(self.on_transaction(request))

    def transactions_led(self) -> tuple[GroupNo, ...]:
        return tuple(GroupNo(group) for group in self.transactional_ids)

    def transactions(self, group: GroupNo) -> Iterator[tuple[str, Transaction]]:
        return iter(self.transactional_ids.get(group, {}).items())

    def submit(self, command: Command, *, deadline_ms: int, done: Callable[[CommandResult], None]) -> None:
        self.lookups.append("command")
        self.commands.append(command)
        self.command_deadlines.append(deadline_ms)
        result = self.on_command(command)
        if result is not None:
            if result.error == 0 and not self.behind:
                self.apply(command)
            done(result)

    def apply(self, command: Command) -> None:
        """What the image shows of a command that was taken. `elected` False: its partitions have no leaders yet."""
        if isinstance(command, CreateTopic):
            made = topic(command.name, command.partitions, first_group=self.next_group, topic_id=command.topic_id)
            made = replace(made, partitions=_placed(made.partitions, command.placed))
            self.add_topic(made)
            grown = made.partitions
        elif isinstance(command, AddPartitions):
            old = next(t for t in self.topics.values() if t.topic_id == command.topic_id)
            more = topic(old.name, command.total - len(old.partitions), first_group=self.next_group)
            more = replace(more, partitions=_placed(more.partitions, command.placed))
            grown = more.partitions
            self.add_topic(more)
            self.topics[old.name] = replace(old, partitions=old.partitions + grown)
        elif isinstance(command, MovePartition):
            self._move(command)
            return
        elif isinstance(command, AlterBrokerConfigs):
            self.broker_configs[command.broker] = command.configs
            return
        elif isinstance(command, SetScramCredential | DeleteScramCredential):
            self._users(command)
            return
        elif isinstance(command, FinalizeFeatures):
            self.feature_level = command.feature_level
            return
        else:
            return
        self.next_group += len(grown)
        if not self.elected:
            for partition in grown:
                del self.leaders[partition.group]

    def _users(self, command: SetScramCredential | DeleteScramCredential) -> None:
        image = self.image()
        assert image is not None
        sets = isinstance(command, SetScramCredential)
        image = set_credential(image, command) if sets else delete_credential(image, command)
        self.scram_users, self.scram_secret = image.scram_users, image.scram_secret

    def _move(self, command: MovePartition) -> None:
        image = self.image()
        assert image is not None
        old = self.topics[image.names_by_id[command.topic_id]]
        partitions = list(old.partitions)
        partitions[command.partition] = move_partition(image, partitions[command.partition], command.voters)
        self.topics[old.name] = replace(old, partitions=tuple(partitions))

    def producer_id(self, done: Callable[[int], None]) -> None:
        self.lookups.append("producer id")
        done(self.producer)


_PROOF: Callable[[], Surface] = FakeSurface
_LOG_PROOF: Callable[[GroupNo], LocalLog] = FakeLog
