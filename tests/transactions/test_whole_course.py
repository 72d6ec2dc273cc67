"""The coordinator, two partitions and the offsets of a group together, the product's own cores, each dying by itself.

Two incarnations of one producer and another producer interleave with deaths of the transaction's coordinator, of the
partitions' leaders and of the group's coordinator, with time-outs, batches that are held up between their verification
and their append, and markers that come late, twice, and from coordinators of before. Of all that: no reader of
committed records ever sees an aborted one or a hole in the order, the last stable offset never goes back, pending
offsets become visible with their marker and never before, and a transaction has one fate everywhere, the one that its
producer was told.
"""

from functools import partial

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.records.transaction_log import TopicPartition
from muster_coordinator.transactions.requests import VerifyPartitions
from typing_extensions import override

from tests.transactions.host import A0, A1, B0
from tests.transactions.places import DataPlace, OffsetsPlace
from tests.transactions.test_interleavings import STEPS, Client, World

HELD_UP = 0.3


class Course(World):
    """`World` with the cores in place of its model of partitions; `B0` is the offsets topic's."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.places: dict[TopicPartition, DataPlace | OffsetsPlace] = {
            A0: DataPlace(),
            A1: DataPlace(),
            B0: OffsetsPlace(),
        }
        self.held: list[tuple[TopicPartition, tuple[int, int], str, int | None]] = []
        self.deaths = 0

    @override
    def step(self) -> None:
        roll, rand = self.rand.random(), self.rand
        place = self.places[rand.choice((A0, A1, B0))]
        if roll < 0.02:
            self.deaths += 1
            place.die(rand.randrange(3))
        elif roll < 0.07 and self.held:
            where, producer, transaction, number = self.held.pop(rand.randrange(len(self.held)))
            self.places[where].write(producer, transaction, number)
        elif roll < 0.35 and place.busy:
            place.commit()
        else:
            super().step()
        for one in self.places.values():
            one.look()
        for client in self.clients:
            self.hear(client)

    @override
    def _write(self, client: Client, place: TopicPartition) -> None:
        """A number, the coordinator's word, and the batch: at once, or much later."""
        assert client.producer is not None
        producer = (client.producer.producer_id, client.producer.producer_epoch)
        number = self.places[place].verification(producer)
        request = VerifyPartitions(client.transactional_id, *producer, frozenset({place}))
        verified = self.host.answers[self.host.ask(request)]
        if verified.code is not Code.NONE or verified.missing:
            return
        client.wrote = True
        # Below version 2 the epoch stays, and what keeps a late batch out of the next transaction is its client, which
        # ends nothing while one is on its way.
        if client.version == 2 and self.rand.random() < HELD_UP:
            self.held.append((place, producer, client.transaction, number))
        else:
            self.places[place].write(producer, client.transaction, number)

    @override
    def move_markers(self) -> None:
        while self.host.markers:
            sent = self.host.markers.popleft()
            self.late += [(sent, place) for place in sent.partitions]
        if not self.late:
            return
        sent, place = self.rand.choice(self.late)
        # A marker is sent until it is known to be there; by then others of it may be on their way.
        self.places[place].mark(sent.marker, partial(self._marked, sent, place))

    def _marked(self, sent, place: TopicPartition) -> None:  # type: ignore[no-untyped-def]
        if (sent, place) in self.late:
            self.late.remove((sent, place))
        if sent.marker.end.coordinator_epoch == self.host.term:
            self.host.deliver_one(sent, place)

    @override
    def settle(self) -> None:
        """Nobody asks any more: the held-up batches arrive, what is open runs out of its time, all markers arrive."""
        for where, producer, transaction, number in self.held:
            self.places[where].write(producer, transaction, number)
        for _ in range(400):
            while self.host.in_flight:
                self.host.commit()
            # Nobody sends the markers of a coordinator that was deposed.
            self.late = [(sent, at) for sent, at in self.late if sent.marker.end.coordinator_epoch == self.host.term]
            self.move_markers()
            for place in self.places.values():
                while place.busy:
                    place.commit()
            if not self.host.in_flight and not self.host.markers and not self.late:
                self.host.mono += 60_000
                self.host.run(self.host.leader.on_timer(self.host.now))
                if not self.host.in_flight and not self.host.markers:
                    return
        raise AssertionError("the coordinator does not come to rest")


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_no_reader_sees_what_is_not_committed_and_every_transaction_has_one_fate(first: int) -> None:
    done = deaths = read = 0
    for seed in range(first, first + 20):
        course = Course(seed)
        try:
            for _ in range(4 * STEPS):
                course.step()
            course.settle()
            fates: dict[str, set[bool]] = {}
            for place in course.places.values():
                place.finish()
                for transaction, ends in place.decisions.fates.items():
                    fates.setdefault(transaction, set()).update(ends)
            for transaction, ends in fates.items():
                assert len(ends) == 1, f"{transaction} is committed in part"
                assert ends == {course.told.get(transaction, *ends)}, f"{transaction} has another fate than was told"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        done += course.done
        deaths += course.deaths
        read += sum(len(place.read) for place in course.places.values() if isinstance(place, DataPlace))
    assert done > 40
    assert deaths > 20
    assert read > 10
