"""Transactional clients: producers and copiers that die, come back under their id, and go on as zombies; and readers.

A *seat* is a transactional id. A *life* of it begins with InitProducerId and does transactions until it is fenced or
dies; then the next one begins, and the one before may go on for a while. A life asks again until it knows, as clients
do, and begins a new transaction only when the one before is decided. Everything that it did is in its `Txn`s, which
`check_transactions` holds against the logs. Half of the seats speak transaction version 2 (KIP-890).
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from muster_coordinator.records.batch import encode_batch, iter_records, parse_header
from typing_extensions import override

from tests.records.made import split_batches
from tests.sim import frames, topic_frames
from tests.sim import transaction_frames as made
from tests.sim.client import Client, Line, Steps
from tests.sim.cluster import Cluster
from tests.sim.history import Violation
from tests.sim.producers import DATA, READ_BYTES, RETRIABLE, TopicClient

OUTPUT = "tx-output"
COMPACTED = "compacted"
PADDING = b"." * 250
KEYED_AFTER_MS = 4_000
"""A compacted topic has something to clean by then, before its first transaction."""
RECORD_MS = 1_699_990_000_000
ASK_AGAIN = RETRIABLE | {13, 16, 51}
FENCED = frozenset({47, 49, 90})
ABORTABLE = frozenset({48, 120})
"""The transaction is to be aborted; the producer goes on."""
UNSTABLE = 88
ABORTS = 0.3
DIES = 0.08
STAYS = 0.5
"""Chance of one that dies to go on as a zombie."""
ZOMBIE_TRANSACTIONS = 3
Producer = tuple[int, int]
Row = tuple[str, int, int, int, str]


class Sent(NamedTuple):
    """One batch; `base_offset` is None while nobody knows."""

    topic: str
    partition: int
    values: tuple[bytes | None, ...]
    base_offset: int | None


@dataclass
class Txn:
    """One transaction as its producer knows it. `name` begins each of its values, with a slash behind."""

    name: str
    seat: str
    producer: Producer
    commits: bool
    sent: list[Sent] = field(default_factory=list)
    group: str = ""
    row: Row | None = None
    """The offset that it commits, of `group`."""
    row_known: bool = False
    end_us: int | None = None
    """When EndTxn was sent first."""
    told: bool | None = None
    """The outcome, once it was answered."""


class TxnAsk(NamedTuple):
    """What the history has of each request of a life."""

    seat: str
    producer: Producer
    first_us: int
    """When it was sent for the first time."""


class LogAsk(NamedTuple):
    """A fetch of committed records."""

    topic: str
    partition: int


class Over(Exception):
    """This life does no more."""


class Aborted(Exception):
    """This transaction has to be aborted."""


class Seat:
    """A transactional id; looks like a client to the run. `make(seat, number)` makes a life."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        timeout_ms: int,
        make: Callable[["Seat", int], "Life"],
        *,
        second: bool,
        begins_ms: int = 0,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.timeout_ms = timeout_ms
        self.second = second
        self.begins_ms = begins_ms
        self.rand = random.Random(f"{cluster.setup.seed}/seat/{name}")
        self.quiet = False
        """Nobody dies or falls asleep any more."""
        self.last_success_us = 0
        self.txns: list[Txn] = []
        self.lives: list[Life] = []
        self._make = make
        self._stopping = False

    @property
    def done(self) -> bool:
        return all(life.done for life in self.lives)

    def start(self, after_ms: int = 0) -> None:
        """Begin the next life."""
        if not self._stopping:
            begins_ms = 0 if self.lives else self.begins_ms
            self.lives.append(self._make(self, len(self.lives)))
            self.lives[-1].start(begins_ms + after_ms)

    def stop(self) -> None:
        self._stopping = True
        for life in self.lives:
            life.stop()

    def succeeded(self, life: "Life") -> None:
        """A transaction of the newest life was decided as it wished."""
        if life is self.lives[-1]:
            self.last_success_us = self.cluster.world.now_us


class Life(Client):
    """One life of a seat; `work` does what one transaction is there for."""

    def __init__(self, seat: Seat, number: int) -> None:
        super().__init__(seat.cluster, seat.name)
        self.seat = seat
        self.number = number
        self.rand = random.Random(f"{seat.cluster.setup.seed}/client/{seat.name}/{number}")
        self.producer: Producer = (-1, -1)
        self._lines: dict[str, Line] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._zombie: int | None = None
        """How many transactions it still does, since another life has begun."""
        self._dies_in = 0
        """After so many more requests; 0: not in this transaction."""

    def begin(self) -> Steps:
        """After the producer id is known."""
        yield from self.sleep(1)

    def work(self, txn: Txn) -> Steps:
        raise NotImplementedError

    def ended(self, txn: Txn) -> None:
        """The outcome is known."""

    # -- a life ----------------------------------------------------------------------------------------------------

    def steps(self) -> Steps:
        try:
            yield from self._init()
            yield from self.begin()
            while True:
                yield from self._transaction()
                if self._zombie is not None:
                    self._zombie -= 1
                    if self._zombie < 0:
                        break
        except Over:
            if self is self.seat.lives[-1]:
                self.seat.start(self.rand.randint(10, 300))
        self.hang_up()

    def _transaction(self) -> Steps:
        seat, rand = self.seat, self.rand
        yield from self.sleep(rand.uniform(1, 400))
        name = f"{seat.name}/{self.number}/{len(seat.txns)}"
        txn = Txn(name, seat.name, self.producer, rand.random() >= ABORTS)
        seat.txns.append(txn)
        self._dies_in = rand.randint(1, 6) if not seat.quiet and rand.random() < DIES else 0
        try:
            yield from self.work(txn)
            if not seat.quiet and rand.random() < 0.03:
                self.cluster.marks.add("a transaction ran out of its time")
                yield from self.sleep(seat.timeout_ms * rand.uniform(0.8, 1.5))
        except Aborted:
            txn.commits = False
        if txn.sent or txn.row is not None:
            yield from self._end(txn)
        if txn.told is not None:
            seat.succeeded(self)
            self.ended(txn)
            if rand.random() < 0.1:
                yield from self._init(again=True)

    @override
    def hang_up(self) -> None:
        super().hang_up()
        for line in self._lines.values():
            line.close()

    def _may_die(self) -> Steps:
        """Between two requests."""
        if self._dies_in and self._zombie is None:
            self._dies_in -= 1
            if self._dies_in == 0 and not self.seat.quiet:
                self.seat.start(self.rand.choice((1, 200, 1_500)))
                if self.rand.random() >= STAYS:
                    raise Over
                self._zombie = ZOMBIE_TRANSACTIONS
                self.cluster.marks.add("a zombie went on")
        if self._zombie is not None and self.rand.random() < 0.2:
            yield from self.sleep(self.rand.uniform(1, 2_000))

    # -- asking ----------------------------------------------------------------------------------------------------

    def _until_known(
        self, api: int, where: Callable[[], Steps], line: str, request: frames.Request, code: Callable[[object], int]
    ) -> Steps:
        """The answer, asked for until its code is none after which clients ask again. Raises `Over` and `Aborted`."""
        yield from self._may_die()
        ask = TxnAsk(self.seat.name, self.producer, self.world.now_us)
        while True:
            known = self._lines.get(line)
            if known is None or not known.open:
                known = self._lines[line] = yield from where()
            answer = yield from self.ask(known, api, "", ask, request)
            error = None if answer is None else code(answer)
            if error in FENCED:
                self.cluster.marks.add("a producer was fenced")
                raise Over
            if error in ABORTABLE:
                raise Aborted
            if error == 0:
                return answer
            assert error is None or error in ASK_AGAIN, f"API {api} answered {error}"
            if error != 51:
                known.close()
            yield from self.sleep(self.rand.uniform(5, 100))

    def _coordinator(self) -> Steps:
        return self._find(self.seat.name, 1)

    def _find(self, key: str, kind: int) -> Steps:
        self.line = None
        line = yield from self.coordinator(key, kind)
        self.line = None
        return line

    def _ask_coordinator(self, api: int, request: frames.Request, code: Callable[[object], int]) -> Steps:
        return self._until_known(api, self._coordinator, "coordinator", request, code)

    def _init(self, *, again: bool = False) -> Steps:
        """`again`: the next epoch, by the one that it has (KIP-360)."""
        had = self.producer if again else (-1, -1)
        request = made.init(self.seat.name, self.seat.timeout_ms, *had)
        api = topic_frames.INIT_PRODUCER_ID
        answer = yield from self._ask_coordinator(api, request, lambda named: named.error)  # type: ignore[attr-defined]
        self._is_now((answer.producer_id, answer.epoch))

    def _is_now(self, producer: Producer) -> None:
        if producer != self.producer:
            self.producer = producer
            self._sequences.clear()

    def _end(self, txn: Txn) -> Steps:
        seat = self.seat
        txn.end_us = self.world.now_us
        request = made.end(seat.name, self.producer, commit=txn.commits, second=seat.second)
        try:
            answer = yield from self._ask_coordinator(made.END_TXN, request, lambda named: named.error)  # type: ignore[attr-defined]
        except Aborted:
            # Nothing of it has come to the coordinator, which knows no transaction to end.
            if txn.commits:
                raise Over from None
            return
        txn.told = txn.commits
        self._is_now((answer.producer_id, answer.epoch))

    # -- what a transaction does -----------------------------------------------------------------------------------

    def add(self, topic: str, partitions: Iterable[int]) -> Steps:
        """A client of version 2 says it with its batches."""
        if not self.seat.second:
            request = made.add_partitions(self.seat.name, self.producer, topic, sorted(partitions))
            yield from self._ask_coordinator(made.ADD_PARTITIONS, request, _code)

    def produce(self, txn: Txn, topic: str, partition: int, records: list[tuple[bytes | None, bytes | None]]) -> Steps:
        """One batch."""
        place = (topic, partition)
        sequence = self._sequences.get(place, 0)
        batch = encode_batch(
            records,
            timestamp_ms=RECORD_MS + self.world.now_us // 1000,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        values = tuple(value for _, value in records)
        at = len(txn.sent)
        txn.sent.append(Sent(topic, partition, values, None))
        request = made.produce(self.seat.name, topic, partition, batch, second=self.seat.second)
        found = yield from self._until_known(
            topic_frames.PRODUCE,
            lambda: self._leader(topic, partition),
            f"{topic}/{partition}",
            request,
            lambda answer: answer[0],  # type: ignore[index]
        )
        txn.sent[at] = Sent(topic, partition, values, found[1])
        self._sequences[place] = sequence + len(records)

    def _leader(self, topic: str, partition: int) -> Steps:
        while True:
            line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
            found = yield from self.ask(line, topic_frames.METADATA, "", None, topic_frames.metadata(topic), 700)
            line.close()
            if found is not None and found[0] == 0 and found[1].get(partition, -1) >= 0:
                return Line(self, found[1][partition])
            yield from self.sleep(self.rand.uniform(20, 200))

    def commit(self, txn: Txn, group: str, topic: str, partition: int, offset: int) -> Steps:
        """An offset of the group, with the transaction."""
        seat = self.seat
        if not seat.second:
            request = made.add_offsets(seat.name, self.producer, group)
            yield from self._ask_coordinator(made.ADD_OFFSETS, request, _code)
        txn.group, txn.row = group, (topic, partition, offset, -1, f"x{self.cluster.history.uid()}")
        request = made.txn_commit(seat.name, self.producer, group, txn.row, second=seat.second)
        where = f"group {group}"
        yield from self._until_known(made.TXN_COMMIT, lambda: self._find(group, 0), where, request, _code)
        txn.row_known = True


def _code(answer: object) -> int:
    assert isinstance(answer, int)
    return answer


class Writer(Life):
    """Produces to some partitions, and commits an offset of its own group now and then."""

    def __init__(self, seat: Seat, number: int, partitions: int, group: str) -> None:
        super().__init__(seat, number)
        self.partitions = partitions
        self.group = group

    def work(self, txn: Txn) -> Steps:
        rand = self.rand
        places = sorted(rand.sample(range(self.partitions), rand.randint(1, self.partitions)))
        yield from self.add(OUTPUT, places)
        count = 0
        for place in places:
            for _ in range(rand.choice((1, 1, 2))):
                values = [f"{txn.name}/{count + n}".encode() for n in range(rand.randint(1, 3))]
                count += len(values)
                yield from self.produce(txn, OUTPUT, place, [(None, value) for value in values])
        if rand.random() < 0.4:
            yield from self.commit(txn, self.group, OUTPUT, 0, self.cluster.history.uid())


class KeyedLife(Life):
    """Writes records with keys to the compacted topic."""

    def __init__(self, seat: Seat, number: int, keys: int) -> None:
        super().__init__(seat, number)
        self.keys = keys

    def work(self, txn: Txn) -> Steps:
        yield from self.add(COMPACTED, (0,))
        for batch in range(self.rand.randint(1, 2)):
            value = f"{txn.name}/{batch}".encode() + PADDING
            yield from self.produce(txn, COMPACTED, 0, [(b"k%d" % self.rand.randrange(self.keys), value)])


class Copier(Life):
    """Consumes `DATA`, and produces a record for each with the offset that it got to; once each, whoever dies."""

    def __init__(self, seat: Seat, number: int, partition: int, partitions: int, group: str) -> None:
        super().__init__(seat, number)
        self.partition = partition
        self.partitions = partitions
        self.group = group
        self.position = 0
        self._next = 0

    def begin(self) -> Steps:
        """Go on where the last committed transaction of any life ended."""
        while True:
            line = yield from self._find(self.group, 0)
            request = made.fetch_offset(self.group, DATA, self.partition, stable=True)
            ask = OffsetAsk(self.group, DATA, self.partition, True)
            found = yield from self.ask(line, made.STABLE_FETCH, "", ask, request)
            line.close()
            if found is not None and found.error == 0:
                row = found.offsets[DATA, self.partition]
                assert row.error in (0, UNSTABLE), f"OffsetFetch answered {row.error}"
                if row.error == 0:
                    self.position = max(0, row.offset)
                    return
                self.cluster.marks.add("a pending offset was waited for")
            yield from self.sleep(self.rand.uniform(20, 200))

    def work(self, txn: Txn) -> Steps:
        records = []
        while not records:
            line = yield from self._leader(DATA, self.partition)
            request = made.fetch_committed(DATA, self.partition, self.position, READ_BYTES, wait_ms=100)
            ask = LogAsk(DATA, self.partition)
            part = yield from self.ask(line, frames.FETCH_LOG, "", ask, request)
            line.close()
            if part is not None and part.error == 0:
                batches = split_batches(part.records, allow_partial=True)
                records = [r for batch in batches for r in iter_records(batch) if r.offset >= self.position]
            yield from self.sleep(self.rand.uniform(1, 60))
        records = records[: self.rand.choice((1, 4, 20))]
        outputs: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
        for record in records:
            copied = f"{txn.name}/{self.partition}:{record.offset}".encode()
            outputs.setdefault(record.offset % self.partitions, []).append((None, copied))
        yield from self.add(OUTPUT, outputs)
        for partition, rows in outputs.items():
            yield from self.produce(txn, OUTPUT, partition, rows)
        self._next = records[-1].offset + 1
        yield from self.commit(txn, self.group, DATA, self.partition, self._next)

    @override
    def ended(self, txn: Txn) -> None:
        if txn.told:
            self.position = self._next


class OffsetAsk(NamedTuple):
    """A read of an offset that transactions commit."""

    group: str
    topic: str
    partition: int
    stable: bool


class OffsetReader(Client):
    """Reads such offsets all the time, stable ones or not."""

    def __init__(self, cluster: Cluster, name: str, keys: list[tuple[str, str, int]]) -> None:
        super().__init__(cluster, name)
        self.keys = keys
        self.last_success_us = 0

    def steps(self) -> Steps:
        while True:
            yield from self.sleep(self.rand.uniform(30, 500))
            ask = OffsetAsk(*self.rand.choice(self.keys), self.rand.random() < 0.5)
            self.line = None
            line = yield from self.coordinator(ask.group)
            request = made.fetch_offset(ask.group, ask.topic, ask.partition, stable=ask.stable)
            found = yield from self.ask(line, made.STABLE_FETCH, "", ask, request)
            line.close()
            if found is not None and found.error == 0:
                self.last_success_us = self.world.now_us
                if found.offsets[ask.topic, ask.partition].error == UNSTABLE:
                    self.cluster.marks.add("an unstable offset was told")


class Pass(NamedTuple):
    """One reading of a partition from `start` on."""

    start: int
    records: list[tuple[int, bytes | None]]


class CommittedReader(TopicClient):
    """Reads committed records as a consumer does: drops what is of an aborted transaction by the answer's list."""

    topic = OUTPUT

    def __init__(self, cluster: Cluster, name: str, partition: int) -> None:
        super().__init__(cluster, name, partition)
        self.passes: list[Pass] = []

    def steps(self) -> Steps:
        at = 0
        self.passes.append(Pass(0, []))
        while True:
            yield from self.sleep(self.rand.uniform(20, 400))
            line = yield from self.leader()
            request = made.fetch_committed(self.topic, self.partition, at, READ_BYTES, wait_ms=100)
            ask = LogAsk(self.topic, self.partition)
            part = yield from self.ask(line, frames.FETCH_LOG, "", ask, request)
            if part is None:
                continue
            if part.error:
                assert part.error in RETRIABLE or part.error == 78, f"Fetch at {at} answered {part.error}"
                self.hang_up()
                continue
            self.last_success_us = self.world.now_us
            at = self._take(part, at)
            if self.rand.random() < 0.03:
                at = self.rand.choice((0, self.rand.randint(0, at)))
                self.passes.append(Pass(at, []))

    def _take(self, part: made.CommittedPart, at: int) -> int:
        """What a consumer's fetcher does; returns the next offset."""
        aborting: set[int] = set()
        left = sorted(part.aborted, key=lambda one: one.first_offset)
        for batch in split_batches(part.records, allow_partial=True):
            header = parse_header(batch)
            if header.base_offset >= part.stable:
                self.cluster.violations.append(
                    Violation("D7", f"{self.name} got {header.base_offset}, and {part.stable} is the last stable one")
                )
            while left and left[0].first_offset <= header.next_offset - 1:
                aborting.add(left.pop(0).producer_id)
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                for record in iter_records(batch):
                    if record.offset >= at:
                        self.passes[-1].records.append((record.offset, record.value))
            at = max(at, header.next_offset)
        return at
