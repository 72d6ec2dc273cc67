"""Any interleaving of two incarnations of a producer, another producer, deaths of the coordinator, time and duplicates.

The model has what the coordinator promises, and nothing of how it keeps it: data partitions that accept a batch only
after the coordinator has verified it, refuse older producer and coordinator epochs, and take markers in any order, late
and twice. In the end every partition must be closed (nothing hangs), all records of one transaction must have one fate,
and that must be the one its producer was told.
"""

import random
from dataclasses import dataclass, field

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.records.transaction_log import TopicPartition
from muster_coordinator.transactions.effects import SendMarkers
from muster_coordinator.transactions.requests import (
    AddPartitions,
    Answer,
    EndTransaction,
    Expected,
    InitProducer,
    VerifyPartitions,
)

from tests.transactions.host import A0, A1, B0, TransactionHost

PLACES = (A0, A1, B0)
STEPS = 120


@dataclass
class Partition:
    """A data partition, by producer id."""

    epochs: dict[int, int] = field(default_factory=dict)
    coordinators: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[str]] = field(default_factory=dict)
    fates: dict[str, list[bool]] = field(default_factory=dict)

    def write(self, producer_id: int, epoch: int, transaction: str) -> bool:
        if epoch < self.epochs.get(producer_id, -1):
            return False
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, []).append(transaction)
        return True

    def mark(self, marker: TransactionMarker) -> bool:
        """True: the marker is there, now or before."""
        of, epoch = marker.producer_id, marker.end.coordinator_epoch
        if epoch < self.coordinators.get(of, -1) or marker.producer_epoch < self.epochs.get(of, -1):
            return False
        self.coordinators[of], self.epochs[of] = epoch, marker.producer_epoch
        for transaction in self.open.pop(of, []):
            self.fates.setdefault(transaction, []).append(marker.end.commit)
        return True


@dataclass
class Client:
    """One incarnation of a producer, which does one thing at a time and asks again when it is told to."""

    name: str
    transactional_id: str
    version: int
    producer: Answer | None = None
    ticket: int | None = None
    doing: str = ""
    count: int = 0
    wrote: bool = False
    commits: bool = True

    @property
    def transaction(self) -> str:
        return f"{self.name}-{self.count}"


class World:
    def __init__(self, seed: int) -> None:
        self.rand = random.Random(seed)
        self.host = TransactionHost()
        self.partitions = {place: Partition() for place in PLACES}
        version = self.rand.choice((0, 2))
        self.clients = [Client("x", "t", version), Client("y", "t", version), Client("z", "u", 2 - version)]
        self.late: list[tuple[SendMarkers, TopicPartition]] = []
        """Markers on their way from any coordinator there ever was."""
        self.told: dict[str, bool] = {}
        self.done = 0

    def step(self) -> None:
        roll = self.rand.random()
        host = self.host
        if roll < 0.5:
            self.act(self.rand.choice(self.clients))
        elif roll < 0.75 and host.in_flight:
            host.commit()
        elif roll < 0.77 and host.in_flight:
            host.drop()
        elif roll < 0.93:
            self.move_markers()
        elif roll < 0.96:
            self.move_markers()
            host.fail_over(lost=self.rand.randrange(3))
        else:
            host.mono += self.rand.choice((10, 1_000, 40_000))
            due_ms = host.leader.next_deadline_ms()
            if due_ms is not None and due_ms <= host.mono:
                host.run(host.leader.on_timer(host.now))
        for client in self.clients:
            self.hear(client)

    def move_markers(self) -> None:
        while self.host.markers:
            sent = self.host.markers.popleft()
            self.late += [(sent, place) for place in sent.partitions]
        if not self.late:
            return
        sent, place = self.rand.choice(self.late)
        if self.rand.random() < 0.8:
            self.late.remove((sent, place))
        # Whoever sent it, the partition's leader answers the coordinator that leads only if that is who sent it.
        if self.partitions[place].mark(sent.marker) and sent.marker.end.coordinator_epoch == self.host.term:
            self.host.deliver_one(sent, place)

    def act(self, client: Client) -> None:
        if client.ticket is not None:
            return
        if client.producer is None or (client.name == "y" and self.rand.random() < 0.1):
            expected = None
            if client.producer is not None and self.rand.random() < 0.5:
                expected = Expected(client.producer.producer_id, client.producer.producer_epoch)
            self._give_up(client)
            client.doing = "init"
            client.ticket = self.host.ask(InitProducer(client.transactional_id, 60_000, expected))
            return
        me = (client.transactional_id, client.producer.producer_id, client.producer.producer_epoch)
        if client.doing == "end" or (client.wrote and self.rand.random() < 0.4):
            if client.doing != "end":
                client.commits = self.rand.random() < 0.6
            client.doing = "end"
            client.ticket = self.host.ask(EndTransaction(*me, client.commits, client.version))
            return
        place = self.rand.choice(PLACES)
        if client.doing == "write":
            self._write(client, place)
            client.doing = ""
            return
        client.doing = "add"
        client.ticket = self.host.ask(AddPartitions(*me, frozenset(PLACES if self.rand.random() < 0.5 else {place})))

    def _give_up(self, client: Client) -> None:
        client.count += 1
        client.wrote = False

    def _write(self, client: Client, place: TopicPartition) -> None:
        producer = client.producer
        assert producer is not None
        epoch = producer.producer_epoch
        request = VerifyPartitions(client.transactional_id, producer.producer_id, epoch, frozenset({place}))
        verified = self.host.answers[self.host.ask(request)]
        if verified.code is Code.NONE and not verified.missing:
            client.wrote |= self.partitions[place].write(producer.producer_id, epoch, client.transaction)

    def hear(self, client: Client) -> None:
        if client.ticket is None or client.ticket not in self.host.answers:
            return
        answer = self.host.answers[client.ticket]
        client.ticket = None
        if answer.code in (Code.CONCURRENT_TRANSACTIONS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR):
            return  # the same again, some time
        if answer.code is not Code.NONE:
            assert answer.code in (
                Code.PRODUCER_FENCED,
                Code.INVALID_PRODUCER_ID_MAPPING,
                Code.INVALID_TXN_STATE,
            ), answer
            self._give_up(client)
            client.producer, client.doing = None, ""
            return
        if client.doing == "init":
            client.producer, client.doing = answer, ""
        elif client.doing == "add":
            client.doing = "write"
        elif client.doing == "end":
            self.told[client.transaction] = client.commits
            self.done += 1
            self._give_up(client)
            client.doing = ""
            if client.version == 2:
                client.producer = answer

    def settle(self) -> None:
        """Nobody asks for anything any more: what is open runs out of its time, and all markers arrive."""
        for _ in range(200):
            while self.host.in_flight:
                self.host.commit()
            while self.host.markers or self.late:
                self.move_markers()
            if not self.host.in_flight:
                self.host.mono += 60_000
                self.host.run(self.host.leader.on_timer(self.host.now))
                if not self.host.in_flight and not self.host.markers:
                    return
        raise AssertionError("the coordinator does not come to rest")


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_every_transaction_has_one_fate_and_that_its_producer_was_told(first: int) -> None:
    done = 0
    for seed in range(first, first + 20):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        world.settle()
        done += world.done
        fates: dict[str, set[bool]] = {}
        for place, partition in world.partitions.items():
            assert not partition.open, f"seed {seed}: {place} has an open transaction for ever"
            for transaction, ends in partition.fates.items():
                fates.setdefault(transaction, set()).update(ends)
        for transaction, ends in fates.items():
            assert len(ends) == 1, f"seed {seed}: {transaction} is committed in part"
            if transaction in world.told:
                assert ends == {world.told[transaction]}, f"seed {seed}: {transaction} has another fate than was told"
    assert done > 20, "the interleavings reach the end of transactions"
