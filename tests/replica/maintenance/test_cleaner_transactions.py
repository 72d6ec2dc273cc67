"""The log cleaner of whole replicas on a topic with transactions: readers of committed records cannot tell a replica
that cleaned, one that installed what another had cleaned, one that lost its indexes, or one that deletes as well."""

from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.events import INSTALLED
from muster_coordinator.records.batch import encode_batch, iter_records
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica import limits

from tests.replica.maintenance.test_cleaner import COMPACT, Table
from tests.topics.read_committed import batches, delivered

CONFIGS = {**COMPACT, "delete.retention.ms": "2000", "min.insync.replicas": "1"}
PRODUCERS = (1, 2, 3)


class Transactional(Table):
    """Three producers with transactions at the same time, 40 % aborted. The test plays their coordinator."""

    def __init__(self, seed: int, *, configs: dict[str, str] = CONFIGS, **settings: Any) -> None:
        super().__init__(seed, configs=configs, **settings)
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.open: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
        self.committed: list[tuple[int, bytes, bytes | None]] = []
        # Ahead of the clock, which markers have their time from: a segment that begins with one is rolled by a record.
        self.begin_ms = self.cluster.loops[0].wall_ms() + 60_000

    def _ask(self, send: Any) -> Any:
        """Retried until a leader has taken it; `send` is given the leader's log, a deadline and where to answer."""
        while True:
            leader = self.cluster.wait_leader(self.group, 20_000)
            results: list[Any] = []
            deadline_ms = self.cluster.loops[leader].monotonic_ms() + 5_000
            send(self.cluster.nodes[leader].local_log(self.group), deadline_ms, results.append)
            self.run_until("an answer", lambda results=results: results, 10_000)
            code = results[0] if isinstance(results[0], Code) else results[0].code
            if code == Code.NONE:
                return results[0]
            assert code not in (Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND), code
            self.cluster.world.run_for(20)

    def produce(self, producer: int) -> None:
        keys = [b"k%d" % self.rand.randrange(7) for _ in range(2)]
        records = [(key, None if self.rand.random() < 0.2 else self.rand.randbytes(30)) for key in keys]
        raw = encode_batch(
            records, timestamp_ms=self.begin_ms + 1_000 * self.written, producer_id=producer, producer_epoch=0,
            base_sequence=self.sequences[producer], transactional=True,
        )  # fmt: skip

        def send(log: Any, deadline_ms: float, done: Any) -> None:
            number = log.verify(producer, 0, self.sequences[producer], implicit=False)
            log.produce(raw, configs={}, deadline_ms=deadline_ms, done=done, verification=number)

        base = self._ask(send).base_offset
        self.sequences[producer] += len(records)
        self.written += 1
        self.open.setdefault(producer, []).extend((base + n, *record) for n, record in enumerate(records))

    def mark(self, producer: int, *, commit: bool) -> None:
        marker = TransactionMarker(producer, 0, EndMarker(commit, 1), 1)
        self._ask(lambda log, deadline_ms, done: log.write_marker(marker, deadline_ms=deadline_ms, done=done))
        records = self.open.pop(producer, [])
        if commit:
            self.committed = sorted(self.committed + records)

    def transactions(self, count: int) -> None:
        """Batches and markers; none is open at the end."""
        for _ in range(count):
            producer = self.rand.choice(PRODUCERS)
            self.produce(producer)
            if self.rand.random() < 0.5:
                self.mark(self.rand.choice(list(self.open)), commit=self.rand.random() < 0.6)
        for producer in list(self.open):
            self.mark(producer, commit=False)

    def consumed(self, broker: int, offset: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """By a read_committed consumer that begins at `offset`."""
        log, found, begin = self.cluster.nodes[broker].local_log(self.group), [], offset
        while True:
            result = log.read(offset, 1_000, whole_first_batch=True, committed=True)
            assert result.code == Code.NONE
            if not result.records:
                return found
            shown = delivered(result.records, [(one.producer_id, one.first_offset) for one in result.aborted])
            bases = {header.base_offset for header in shown}
            for header, batch in batches(result.records):
                if header.base_offset in bases:
                    found += [(r.offset, r.key, r.value) for r in iter_records(batch) if r.offset >= begin]
                offset = header.next_offset

    def assert_committed(self) -> None:
        """Each replica tells what was committed and not replaced, from wherever one begins, and nothing else."""
        self.cluster.converge([self.group], 30_000)
        for broker in self.cluster.nodes:
            state = self.state(broker)
            start = state.log_start
            for at in range(start, state.next_offset, max(1, (state.next_offset - start) // 12)):
                wanted = [one for one in self.committed if one[0] >= at]
                found = self.consumed(broker, at)
                assert set(found) <= set(wanted), (broker, at)
                assert found == sorted(found), (broker, at)
                newest = {key: value for _, key, value in wanted}
                told = {key: value for _, key, value in found}
                assert all(told.get(key) == value for key, value in newest.items()), (broker, at)


def test_replicas_clean_over_transactions_and_a_start_or_a_follower_without_a_disk_changes_nothing() -> None:
    table = Transactional(40)
    table.transactions(30)
    table.cluster.world.run_for(1_500)
    table.wait_cleaned()
    table.assert_committed()
    for broker in table.cluster.nodes:
        log = table.state(broker).log
        there = {header.base_offset for header, _ in batches(b"".join(table.batches(broker))) if header.count}
        assert log.cleaned.cleaned_to > 10
        assert len(there) < table.written, "batches are gone"
    clean = table.clean_to(0)
    table.transactions(20)
    table.wait_cleaned(more_than=clean)
    table.cluster.world.run_for(3_000)
    for broker in list(table.cluster.nodes):
        table.cluster.kill(broker)
    for broker in table.cluster.brokers:
        table.cluster.restart(broker)
    table.cluster.wait_ready()
    table.transactions(10)
    table.assert_committed()


def test_a_follower_that_installs_what_the_leader_has_cleaned_tells_the_same_transactions() -> None:
    table = Transactional(41)
    table.transactions(20)
    table.wait_cleaned()
    leader = table.cluster.wait_leader(table.group)
    lost = next(int(broker) for broker in table.cluster.brokers if broker != leader)
    far = table.clean_to(leader)
    table.cluster.kill(lost)
    table.transactions(50)
    table.wait_cleaned([leader], more_than=far)
    table.cluster.restart(lost)
    table.run_until("installed", lambda: table.cluster.told(INSTALLED, lost), 30_000)
    table.cluster.wait_ready()
    assert table.state(lost).log.touched(0)
    table.assert_committed()
    for name in [name for name in table.cluster.disks[lost].listdir(table.folder) if name.endswith("index")]:
        table.cluster.disks[lost].damage(f"{table.folder}/{name}", 20, b"\xff")
    table.cluster.kill(lost)
    table.cluster.restart(lost)
    table.cluster.wait_ready()
    table.transactions(5)
    table.assert_committed()


@pytest.mark.parametrize("leads", [True, False])
def test_damage_inside_a_cleaned_range_with_transactions_is_healed(leads: bool, monkeypatch) -> None:
    monkeypatch.setattr(limits, "REPAIR_RETRY_MS", 2_000)
    table = Transactional(42)
    table.transactions(30)
    table.wait_cleaned()
    leader = table.cluster.wait_leader(table.group)
    broker = leader if leads else next(int(b) for b in table.cluster.brokers if b != leader)
    table.cluster.kill(broker)
    table.cluster.restart(broker)
    table.cluster.wait_ready()
    name = f"{table.folder}/{0:020d}.log"
    sound = table.cluster.disks[broker].content(name)
    table.cluster.disks[broker].damage(name, 45, bytes([sound[45] ^ 0x04]))
    result = table.cluster.nodes[broker].local_log(table.group).read(0, 1 << 20, whole_first_batch=True, committed=True)
    assert result.code == Code.KAFKA_STORAGE_ERROR
    table.run_until("installed anew", lambda: table.cluster.told(INSTALLED, broker), 60_000)
    table.cluster.wait_ready()
    table.transactions(3)
    table.assert_committed()


def test_records_are_deleted_in_the_middle_of_a_transaction_of_a_compacted_topic() -> None:
    """DeleteRecords, and `delete` beside `compact`: the log begins in the middle of what was open then."""
    table = Transactional(43, replicas=1, configs={**CONFIGS, "cleanup.policy": "compact,delete", "retention.ms": "-1"})
    table.transactions(25)
    table.wait_cleaned()
    for _ in range(2):
        clean = table.clean_to(0)
        table.transactions(15)
        table.produce(2)  # It stays open while the log's begin moves.
        at = table.state(0).log_start + clean // 2
        table._ask(lambda log, deadline_ms, done, at=at: log.delete_records(at, deadline_ms=deadline_ms, done=done))
        assert table.state(0).log_start == at
        table.assert_committed()
        table.mark(2, commit=True)
        table.transactions(5)
        table.wait_cleaned(more_than=clean)
        table.assert_committed()
        table.cluster.kill(0)
        table.cluster.restart(0)
        table.cluster.wait_ready()
        table.assert_committed()
