"""The part of a run with transactional clients: who is there, when all is ended, what came of it."""

from collections.abc import Sequence
from functools import partial

from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo
from muster_coordinator.records.batch import iter_records, parse_header

from tests.sim.check_transactions import TransactionsCheck
from tests.sim.cluster import Cluster, Replica
from tests.sim.history import Op, Violation
from tests.sim.logs import cleaned_here, compare_logs
from tests.sim.oracle import Oracle
from tests.sim.plan import SeatPlan, TransactionPlan
from tests.sim.producers import DATA, TopicClient
from tests.sim.transaction_watch import TransactionWatch
from tests.sim.transactors import (
    COMPACTED,
    KEYED_AFTER_MS,
    OUTPUT,
    CommittedReader,
    Copier,
    KeyedLife,
    LogAsk,
    OffsetReader,
    Seat,
    Writer,
)
from tests.sim.written import Written, check_whole, in_transaction

ENDED_MS_MAX = 20_000
"""A transaction whose client is gone ends after its time-out, and its markers are on their way for a while."""


class Transactions:
    """Seats and readers of `OUTPUT`."""

    def __init__(self, cluster: Cluster, oracle: Oracle, plan: TransactionPlan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.seats = [self._seat(seat) for seat in plan.seats]
        self.watch = TransactionWatch(cluster, oracle, [seat.name for seat in self.seats], plan.deaths)
        self.readers = [
            CommittedReader(cluster, f"tx-reader/{partition}", partition) for partition in range(plan.partitions)
        ]
        keys = [
            (f"g-{seat.name}", *((OUTPUT, 0) if seat.copies is None else (DATA, seat.copies)))
            for seat in plan.seats
            if not seat.keys
        ]
        self.offset_reader = OffsetReader(cluster, "tx-offsets", keys)
        self.groups = frozenset(key[0] for key in keys)
        """Groups whose offsets are judged here."""
        self.clients: list[Seat | OffsetReader | TopicClient] = [*self.seats, self.offset_reader, *self.readers]
        self._offsets = Written(oracle, self._of_offsets)
        cluster.on_answered.append(self._answered)

    def _seat(self, plan: SeatPlan) -> Seat:
        group = f"g-{plan.name}"
        if plan.keys:
            make = partial(KeyedLife, keys=plan.keys)
        elif plan.copies is None:
            make = partial(Writer, partitions=self.plan.partitions, group=group)
        else:
            make = partial(Copier, partition=plan.copies, partitions=self.plan.partitions, group=group)
        begins_ms = KEYED_AFTER_MS if plan.keys else 0
        return Seat(self.cluster, plan.name, plan.timeout_ms, make, second=plan.second, begins_ms=begins_ms)

    def _of_offsets(self, _replica: Replica, group: int, batch: bytes) -> bool:
        """Is it of a transaction, in a partition of the offsets topic?"""
        return 0 <= group - FIRST_OFFSETS_GROUP < self.cluster.setup.partitions and in_transaction(batch)

    def _answered(self, op: Op) -> None:
        """The term in which a partition's leader answered."""
        if isinstance(op.ask, LogAsk):
            replica = self.cluster.everyone[op.broker]
            image = replica.node.image()
            if image is not None and op.ask.topic in image.topics:
                group = image.topics[op.ask.topic].partitions[op.ask.partition].group
                held = replica.node.host.groups.get(group)
                op.term = held.core.term if held is not None and held.leads else -1

    def calm(self) -> None:
        """The storm is over."""
        self.watch.over = True
        for seat in self.seats:
            seat.quiet = True

    def judge(self, compacted: Sequence[bytes]) -> list[Violation]:
        """`compacted`: the log of the compacted topic as it was written."""
        cluster = self.cluster
        check = TransactionsCheck(cluster.history, [txn for seat in self.seats for txn in seat.txns])
        image = cluster.image()
        assert image is not None
        for number, place in enumerate(image.topics[OUTPUT].partitions):
            batches, differences = compare_logs(cluster, GroupNo(place.group))
            check.found += differences
            readers = [reader for reader in self.readers if reader.partition == number]
            check.log(OUTPUT, number, batches, [(reader.name, one) for reader in readers for one in reader.passes])
        check.log(COMPACTED, 0, compacted)
        for number in range(cluster.setup.partitions):
            group = GroupNo(FIRST_OFFSETS_GROUP + number)
            written = self._offsets.log(group)
            check.offsets(written)
            if not any(cleaned_here(replica, group) for replica in cluster.holders(group)):
                check.found += check_whole(group, written, compare_logs(cluster, group)[0])
        copied = {}
        for seat in self.plan.seats:
            if seat.copies is not None:
                group = image.topics[DATA].partitions[seat.copies].group
                batches = compare_logs(cluster, GroupNo(group))[0]
                copied[seat.copies] = [
                    r.offset for batch in batches if not parse_header(batch).is_control for r in iter_records(batch)
                ]
        return check.finish(copied)
