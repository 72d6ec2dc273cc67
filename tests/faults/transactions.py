"""Exactly once through kills: copiers in transactions, coordinators and leaders and copiers killed, and what is left.

The verdict is read from the logs alone. Output, read committed, is the input once: nothing missing, nothing twice.
The committed offsets of the group are the ends of the input. Where a coordinator of transactions died in the middle of
ending one is read from `__transaction_state` and from the markers: its records say by which leader epoch they were
written, and each marker says which epoch of the coordinator sent it.
"""

import json
import struct
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kio.static.primitive import i8, i16, i32, i64
from muster_coordinator.records.batch import HEADER_BYTES, LOG_OVERHEAD, iter_records, parse_header
from muster_coordinator.replica.partitions.surface import partition_of

from tests.cluster import wait_until
from tests.faults import short_transactions
from tests.faults.short_transactions import ShortTransactions
from tests.faults.sides import Servers
from tests.raw_client import Disconnected, RawClient, request

FETCH, FIND_COORDINATOR, INIT_PRODUCER_ID = 1, 10, 22
INPUT, OUTPUTS, GROUP = "tx-input", "tx-output", "tx-copiers"
LOG, OFFSETS = "__transaction_state", "__consumer_offsets"
LOG_PARTITIONS = 50
"""Of both of them: the default of Kafka and of Muster."""
BEGINNERS = 8
HOLD_S, REST_S = (0.05, 1.5), (0.2, 1.0)
"""How long a killed server is away, and how long everybody is let alone after it is back: drawn, as in `plan`. Slept,
since a pause of processes that know no clock but the machine's is the fault itself, and nothing is awaited by it."""
BURST_S = (0.2, 0.5)
PARTITIONS = 3
COPIERS = 3
READ_S_MAX = 120
END_S_MAX = 420
EMPTY, PREPARED, COMPLETED = 0, (2, 3), (4, 5)
"""States in a record of the log: PrepareCommit and PrepareAbort, CompleteCommit and CompleteAbort."""
WINDOWS = ("no marker", "some markers", "all markers", "epoch bump")
"""How far an end had come when its coordinator died: prepared in any case, completed in none. And an epoch that was
raised by one coordinator and never used, since the answer was lost, or came too late."""


class Ended(NamedTuple):
    """What became of all of it."""

    transactions: int
    aborted: int
    windows: Counter[str]
    missing: list[str]
    doubled: list[str]
    offsets: dict[int, int]
    """Committed offset of each partition of the input."""
    short: int
    """Ends of `short_transactions` that were told."""
    untrue: list[str]
    """Those of which the log says something else."""

    def __str__(self) -> str:
        hit = ", ".join(f"{self.windows[one]} {one}" for one in WINDOWS)
        return (
            f"{self.transactions:,} transactions, {self.aborted:,} of them aborted; coordinator died with {hit}; "
            f"{len(self.missing)} records missing, {len(self.doubled)} twice; "
            f"{self.short:,} short ones, {len(self.untrue)} told untruly"
        )


class Copiers:
    """Processes that are started again when they end; `with Copiers(...) as copiers`."""

    def __init__(self, bootstrap: str, count: int = COPIERS) -> None:
        self._bootstrap = bootstrap
        self._names = [f"copier-{n}" for n in range(count)]
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()
        self._watchers: list[threading.Thread] = []
        self._ended = False
        self.told: Counter[str] = Counter()
        self.words: list[str] = []

    def __enter__(self) -> "Copiers":
        for name in self._names:
            self._start(name)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        for process in self._running.values():
            if process.stdin is not None:
                process.stdin.close()
        for process in self._running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for watcher in self._watchers:
            watcher.join(30)

    def _start(self, name: str) -> None:
        about = {"bootstrap": self._bootstrap, "name": name, "group": GROUP, "input": INPUT, "outputs": OUTPUTS}
        command = [sys.executable, "-m", "tests.faults.copier", json.dumps({**about, "partitions": PARTITIONS})]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._running[name] = process
        watcher = threading.Thread(target=self._watch, args=(name, process), daemon=True)
        self._watchers.append(watcher)
        watcher.start()

    def _watch(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word = line.split(" ", 1)[0].strip()
            with self._lock:
                self.told[word] += 1
                if word not in ("committed", "aborted"):
                    self.words.append(f"{name}: {line.strip()}")
        process.wait()
        process.stdout.close()
        if process.stdin is not None:
            process.stdin.close()
        with self._lock:
            if not self._ended and self._running.get(name) is process:
                self.told["started again"] += 1
                self._start(name)

    def kill(self, rand: Random) -> str:
        name = rand.choice(self._names)
        self._running[name].kill()
        return name


def fill(bootstrap: str, per_partition: int) -> None:
    """0, 1, 2, ... in each partition of the input."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(per_partition):
        for partition in range(PARTITIONS):
            while True:
                try:
                    producer.produce(INPUT, str(number), partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
    assert producer.flush(READ_S_MAX) == 0


def coordinator_of(bootstrap: str, name: str, key_type: int) -> int | None:
    """Broker id, by the first broker that answers; `key_type` 0: of a group, 1: of a transactional id."""
    for address in bootstrap.split(","):
        host, port = address.rsplit(":", 1)
        try:
            with RawClient(host, int(port), timeout_s=5) as client:
                answer = client.call(request(FIND_COORDINATOR, 3, key=name, key_type=key_type))
        except Disconnected:
            continue
        if int(answer.error_code) == 0:
            return int(answer.node_id)
    return None


def leader_of(bootstrap: str, topic: str, partition: int) -> tuple[int, str, int]:
    """(broker id, host, port)."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = admin.list_topics(topic, timeout=30)
    broker = found.brokers[found.topics[topic].partitions[partition].leader]
    return broker.id, broker.host, broker.port


def stored(bootstrap: str, topic: str, partition: int) -> bytes:
    """All batches of a partition to the high watermark, fetched as they are."""
    _, host, port = leader_of(bootstrap, topic, partition)
    data, offset = b"", 0
    with RawClient(host, port) as client:
        while True:
            wanted = {
                "partition": i32(partition),
                "current_leader_epoch": i32(-1),
                "fetch_offset": i64(offset),
                "log_start_offset": i64(-1),
                "partition_max_bytes": i32(8 << 20),
            }
            answer = client.call(
                request(
                    FETCH,
                    11,
                    replica_id=i32(-1),
                    max_wait=timedelta(milliseconds=10),
                    min_bytes=i32(0),
                    max_bytes=i32(8 << 20),
                    isolation_level=i8(0),
                    session_id=i32(0),
                    session_epoch=i32(-1),
                    topics=[{"topic": topic, "partitions": [{**wanted}]}],
                    forgotten_topics_data=[],
                    rack_id="",
                )
            )
            (part,) = answer.responses[0].partitions
            assert int(part.error_code) == 0, (topic, partition, part.error_code)
            got = [b for b in split(bytes(part.records or b"")) if parse_header(b).next_offset > offset]
            if not got:
                return data
            data += b"".join(got)
            offset = parse_header(got[-1]).next_offset


def values(bootstrap: str, topic: str, partition: int) -> Iterator[str]:
    """Values of a partition, read committed, to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tx-verify",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + READ_S_MAX
        while True:
            assert time.monotonic() < deadline, "not read to the end"
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield (message.value() or b"").decode()
            elif error.code() == KafkaError._PARTITION_EOF:
                return
    finally:
        consumer.close()


def committed(bootstrap: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(INPUT, p) for p in range(PARTITIONS)])]
    found = admin.list_consumer_group_offsets(asked, require_stable=True)[GROUP].result(READ_S_MAX)
    return {one.partition: one.offset for one in found.topic_partitions}


def committed_now(bootstrap: str) -> dict[int, int] | str:
    """Or why that cannot be told: a coordinator is not back, or a transaction was open each time it was asked."""
    try:
        return committed(bootstrap)
    except KafkaException as error:
        return str(error)


class End(NamedTuple):
    """One transaction's end in the coordinator's log."""

    producer_id: int
    epoch: int
    prepared_by: int
    completed_by: int
    commit: bool


def ends(batches: Iterator[bytes]) -> list[End]:
    """Transactions whose prepare and completion are both in the log of one partition; by the leader epochs."""
    prepared: dict[bytes, tuple[int, int, int, int]] = {}
    found = []
    for batch in batches:
        header = parse_header(batch)
        if header.is_control:
            continue
        for record in iter_records(batch):
            if record.value is None or record.key is None:
                continue
            producer_id, epoch, state = _value(record.value)
            if state in PREPARED:
                prepared[record.key] = (producer_id, epoch, header.leader_epoch, state)
            elif state in COMPLETED and record.key in prepared:
                pid, at_epoch, by, before = prepared.pop(record.key)
                found.append(End(pid, at_epoch, by, header.leader_epoch, before == PREPARED[0]))
    return found


_VALUE_0 = struct.Struct(">hqhib")


def _value(value: bytes) -> tuple[int, int, int]:
    """(producer id, epoch, state) of TransactionLogValue v0 and v1: the fixed fields at its head are the same."""
    _, producer_id, epoch, _, state = _VALUE_0.unpack_from(value)
    return producer_id, epoch, state


def split(data: bytes) -> Iterator[bytes]:
    """Whole batches of a fetched or stored run of bytes."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + 12], "big")
        if at + size > len(data):
            return
        yield data[at : at + size]
        at += size


def markers(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(producer id, producer epoch, coordinator epoch) of the end markers in a partition's bytes."""
    for batch in split(data):
        header = parse_header(batch)
        if header.is_control:
            (record,) = iter_records(batch)
            assert record.value is not None
            yield header.producer_id, header.producer_epoch, int.from_bytes(record.value[2:6], "big", signed=True)


Sent = dict[tuple[int, int], dict[tuple[str, int], int]]
"""(producer id, epoch) -> partition -> the epoch of the coordinator that sent its first marker there. One that is
elected in the middle sends all of them again."""


def windows(found: list[End], sent: Sent) -> Counter[str]:
    """How far each end had come that one coordinator prepared and another completed.

    Ends of a producer that had several under one epoch are left out: nothing says which marker is whose.
    """
    count: Counter[str] = Counter()
    under = Counter((end.producer_id, end.epoch) for end in found)
    for end in found:
        producer = end.producer_id, end.epoch
        if end.prepared_by == end.completed_by or under[producer] > 1:
            continue
        by = sent.get(producer, {}).values()
        old = sum(epoch <= end.prepared_by for epoch in by)
        count["no marker" if old == 0 else "all markers" if old == len(by) else "some markers"] += 1
    return count


def untrue(found: list[End], told: dict[tuple[int, int], bool]) -> list[str]:
    """Ends that are otherwise in the coordinators' logs than their producers were told, or not there."""
    stands = {(end.producer_id, end.epoch): end.commit for end in found}
    return [
        f"producer {pid}, epoch {epoch}: told {'commit' if commit else 'abort'}, {stands.get((pid, epoch))} in the log"
        for (pid, epoch), commit in told.items()
        if stands.get((pid, epoch)) is not commit
    ]


def bumps(batches: Iterator[bytes]) -> int:
    """Epochs raised by one coordinator that the next one raised again before anything was done under them."""
    last: dict[bytes, tuple[int, int, int]] = {}
    count = 0
    for batch in batches:
        header = parse_header(batch)
        if header.is_control:
            continue
        for record in iter_records(batch):
            if record.value is None or record.key is None:
                continue
            _, epoch, state = _value(record.value)
            before = last.get(record.key)
            if (
                before is not None
                and state == EMPTY == before[2]
                and epoch > before[0]
                and header.leader_epoch > before[1]
            ):
                count += 1
            last[record.key] = (epoch, header.leader_epoch, state)
    return count


class Beginner(threading.Thread):
    """Raises the epoch of transactional ids that nobody uses, one after the other, all the while."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="beginner", daemon=True)
        self._address = bootstrap
        self.ended = threading.Event()
        self.raised = 0

    def run(self) -> None:
        number = 0
        while not self.ended.is_set():
            number = (number + 1) % BEGINNERS
            name = f"beginner-{number}"
            try:
                self._raise(name)
            except Disconnected:
                self.ended.wait(0.02)

    def _raise(self, name: str) -> None:
        broker = coordinator_of(self._address, name, 1)
        host, port = self._address.split(",")[broker or 0].rsplit(":", 1)
        with RawClient(host, int(port), timeout_s=5) as client:
            for _ in range(20):
                answer = client.call(
                    request(
                        INIT_PRODUCER_ID,
                        4,
                        transactional_id=name,
                        transaction_timeout=timedelta(seconds=20),
                        producer_id=i64(-1),
                        producer_epoch=i16(-1),
                    )
                )
                if int(answer.error_code) != 0:
                    return
                self.raised += 1
                if self.ended.wait(0.002):
                    return


def hurt(servers: Servers, copiers: Copiers, short: ShortTransactions | None, rand: Random, number: int) -> str:
    """One SIGKILL, in a burst of short transactions: three of four times the coordinator of a copier's, in turn with
    everybody else."""
    turn = ("transactions", "transactions", "group", "transactions", "output", "transactions", "copier", "transactions")
    what = turn[number % len(turn)]
    if what == "copier":
        return f"copier {copiers.kill(rand)}"
    if what == "transactions":
        name = rand.choice([f"copier-{n}" for n in range(COPIERS)])
        broker = coordinator_of(servers.bootstrap, name, 1)
    elif what == "group":
        broker = coordinator_of(servers.bootstrap, GROUP, 0)
    else:
        broker = leader_of(servers.bootstrap, OUTPUTS, rand.randrange(PARTITIONS))[0]
    if broker is None:
        return f"{what}: nobody just now"
    if short is not None:
        short.burst.set()
        time.sleep(rand.uniform(*BURST_S))
    servers.kill(broker)
    if short is not None:
        short.burst.clear()
    time.sleep(rand.uniform(*HOLD_S))
    servers.restart(broker)
    servers.wait_whole()
    return f"{what}: broker {broker}"


def run(
    servers: Servers,
    *,
    per_partition: int,
    kills: int,
    kills_max: int,
    bursts: bool,
    seed: int,
    say: Callable[[str], None],
) -> Ended:
    """`kills` at least, and until each window was hit or `kills_max`; then all of the input is copied, and judged.

    `bursts`: each kill falls into one of short transactions.
    """
    servers.create_topics({INPUT: PARTITIONS, OUTPUTS: PARTITIONS, short_transactions.TOPIC: PARTITIONS})
    rand, done = Random(seed), 0
    fill(servers.bootstrap, per_partition)
    beginner = Beginner(servers.bootstrap)
    short = ShortTransactions(servers.bootstrap, seed) if bursts else None
    with Copiers(servers.bootstrap) as copiers:
        wait_until("copying goes on", lambda: copiers.told["committed"] > 10, END_S_MAX)
        beginner.start()
        if short is not None:
            short.start()
        while done < kills or (done < kills_max and not all(found_windows(servers.bootstrap)[w] for w in WINDOWS)):
            say(f"{done + 1}: {hurt(servers, copiers, short, rand, done)}; {dict(copiers.told)}")
            done += 1
            time.sleep(rand.uniform(*REST_S))
        beginner.ended.set()
        beginner.join()
        if short is not None:
            short.finish()
        ends_wanted = dict.fromkeys(range(PARTITIONS), per_partition)
        try:
            wait_until("all is copied", lambda: committed_now(servers.bootstrap) == ends_wanted, END_S_MAX, 0.5)
        finally:
            say(f"committed: {committed_now(servers.bootstrap)}; {dict(copiers.told)}")
            for word in copiers.words:
                say(word)
        told = copiers.told
    wanted = Counter(f"{p}:{n}" for p in range(PARTITIONS) for n in range(per_partition))
    got = Counter(v for p in range(PARTITIONS) for v in values(servers.bootstrap, OUTPUTS, p))
    return Ended(
        told["committed"] + told["aborted"],
        told["aborted"],
        found_windows(servers.bootstrap),
        sorted((wanted - got).elements()),
        sorted((got - wanted).elements()),
        committed(servers.bootstrap),
        len(short.told) if short is not None else 0,
        untrue(found_ends(servers.bootstrap, short_transactions.NAMES), short.told) if short is not None else [],
    )


def found_ends(bootstrap: str, ids: list[str]) -> list[End]:
    """Of the partitions that coordinate these transactional ids."""
    numbers = {partition_of(name, LOG_PARTITIONS) for name in ids}
    return [end for number in numbers for end in ends(split(stored(bootstrap, LOG, number)))]


def found_windows(bootstrap: str) -> Counter[str]:
    """What the logs say of coordinators that died in the middle of an end."""
    sent: Sent = defaultdict(dict)
    bearers = [(topic, p) for topic in (OUTPUTS, short_transactions.TOPIC) for p in range(PARTITIONS)]
    bearers.append((OFFSETS, partition_of(GROUP, LOG_PARTITIONS)))
    for topic, partition in bearers:
        for producer_id, epoch, by in markers(stored(bootstrap, topic, partition)):
            sent[producer_id, epoch].setdefault((topic, partition), by)
    count: Counter[str] = Counter()
    names = [f"copier-{n}" for n in range(COPIERS)] + [f"beginner-{n}" for n in range(BEGINNERS)]
    count += windows(found_ends(bootstrap, names + short_transactions.NAMES), sent)
    for partition in {partition_of(name, LOG_PARTITIONS) for name in names}:
        count["epoch bump"] += bumps(split(stored(bootstrap, LOG, partition)))
    return count
