"""Two producers, plain commits, markers, late packets, deposed leaders and checkpoints, in any order: offsets become
visible with their marker and never before, and nobody who is fenced or late writes.

The oracle is a fold over what was committed to the log, in its order, by the rules of protocol notes 4.4; it knows
nothing of batches, epochs or replay. Beside it, the transaction coordinator is as small as it can be: who is in a
transaction, and with which epoch.
"""

from collections import Counter, deque
from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import example, given, settings
from muster_coordinator.errors import Code

from tests.groups.host import Host, commit, fetch
from tests.groups.offsets.test_txn_commits import code, end, txn

PRODUCERS = (7, 8)
PARTITIONS = (0, 1)
_VERSION = {7: 2, 8: 0}
"""One producer whose epoch rises with each transaction (KIP-890), and one whose epoch stays."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.sampled_from(PARTITIONS)),
        st.tuples(st.just("pend"), st.sampled_from(PRODUCERS), st.sampled_from(PARTITIONS)),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("held up"), st.sampled_from(PRODUCERS)),
        st.tuples(st.just("late"), st.sampled_from(PRODUCERS)),
        st.tuples(st.just("late marker")),
        st.tuples(st.just("zombie"), st.sampled_from(PRODUCERS)),
        st.tuples(st.just("stored"), st.integers(1, 3)),
        st.tuples(st.just("deposed"), st.integers(0, 2)),
        st.tuples(st.just("handed over")),
        st.tuples(st.just("checkpoint")),
    ),
    max_size=40,
)  # fmt: skip
Change = Callable[[bool], None]


class World:
    """A leading shard, the coordinator of two transactions, and what a reader must see."""

    def __init__(self) -> None:
        self.host = Host(followers=2)
        self.host.hold = True
        self.changes: deque[Change] = deque()
        """One for each batch in flight: what it means once it is in the log."""
        self.place = 0
        self.value = 0
        self.committed: dict[int, tuple[int, int]] = {}
        """partition -> (place in the log, offset)"""
        self.pending: dict[int, dict[int, tuple[int, int]]] = {producer: {} for producer in PRODUCERS}
        self.epoch = dict.fromkeys(PRODUCERS, 0)
        self.open = dict.fromkeys(PRODUCERS, False)
        self.ending: dict[int, bool] = {}
        """Producer -> how its transaction ends: its coordinator sends markers until one is acknowledged."""
        self.markers = Counter[int]()
        """Producer -> markers in flight."""
        self.ends = Counter[int]()
        """Producer -> markers that were ever sent."""
        self.words: dict[int, tuple[int, int]] = {}
        """Producer -> a verification whose request is still on its way, and how many markers were sent before it."""

    def step(self, what: tuple[str | int | bool, ...]) -> None:
        name, *rest = what
        getattr(self, str(name).replace(" ", "_"))(*rest)
        assert len(self.changes) == len(self.host.in_flight)
        self.look()

    def look(self) -> None:
        for partition in PARTITIONS:
            _, offset = self.committed.get(partition, (-1, -1))
            assert fetch(self.host, partition=partition).offset == offset
            stable = fetch(self.host, partition=partition, stable=True)
            unstable = any(partition in held for held in self.pending.values())
            assert (stable.offset, stable.error) == ((-1, Code.UNSTABLE_OFFSET_COMMIT) if unstable else (offset, 0))

    # What clients and the coordinator do.

    def plain(self, partition: int) -> None:
        value = self.next_value()
        self.host.send(commit(offset=value, partition=partition))
        self.changes.append(lambda _: self.committed.update({partition: (self.place, value)}))

    def pend(self, producer: int, partition: int) -> None:
        """The producer commits in its transaction; it begins the next one only once the last has ended."""
        if producer in self.ending:
            return
        value = self.next_value()
        ticket = txn(self.host, value, producer=producer, epoch=self.epoch[producer], partition=partition)
        assert ticket not in self.host.answers, "answered before it is in the log, or refused"
        self.open[producer] = True
        self.changes.append(lambda _: self.pending[producer].update({partition: (self.place, value)}))

    def end(self, producer: int, commits: bool) -> None:
        """EndTxn, or the marker again."""
        if not self.open[producer]:
            return
        commits = self.ending.setdefault(producer, commits)
        version = _VERSION[producer]
        epoch = self.epoch[producer] + (version == 2)
        before = len(self.host.in_flight)
        ticket = end(self.host, producer=producer, epoch=epoch, commit=commits, version=version)
        if len(self.host.in_flight) == before:
            assert code(self.host, ticket) == 0, "the coordinator cannot complete"
            self.complete(producer, epoch)
            return

        self.markers[producer] += 1
        self.ends[producer] += 1

        def ended(told: bool) -> None:
            self.markers[producer] -= 1
            held, self.pending[producer] = self.pending[producer], {}
            for partition, (place, value) in held.items():
                if commits and place > self.committed.get(partition, (-1, -1))[0]:
                    self.committed[partition] = (place, value)
            if told and producer in self.ending:
                self.complete(producer, epoch)

        self.changes.append(ended)

    def complete(self, producer: int, epoch: int) -> None:
        """The coordinator was told that the marker is stored, and lets the producer go on."""
        assert not self.pending[producer], "told before the marker was in the log"
        del self.ending[producer]
        self.open[producer], self.epoch[producer] = False, epoch

    def held_up(self, producer: int) -> None:
        """A commit is verified, perhaps as the first of its transaction, and stays on its way."""
        if producer not in self.ending and producer not in self.words:
            number = self.host.leader.begin_verification(producer, self.epoch[producer])
            self.words[producer] = (number, self.ends[producer])

    def late(self, producer: int) -> None:
        """It arrives, behind the marker that ended its transaction, and before the next has begun."""
        behind = producer in self.ending and self.markers[producer] > 0
        if producer not in self.words or (self.open[producer] and not behind):
            return
        number, ends = self.words[producer]
        if self.ends[producer] == ends:
            return  # its transaction goes on
        del self.words[producer]
        epoch = self.epoch[producer] - (_VERSION[producer] == 2 and not behind)
        ticket = txn(self.host, 999_999, producer=producer, epoch=epoch, verification=number)
        assert code(self.host, ticket) in (Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_EPOCH)

    def late_marker(self) -> None:
        """The marker of the transaction before, sent twice, arrives in the next one, which it must not end."""
        if self.open[7] and 7 not in self.ending and self.epoch[7]:
            ticket = end(self.host, producer=7, epoch=self.epoch[7], commit=True, version=2)
            assert code(self.host, ticket) == Code.INVALID_PRODUCER_EPOCH

    def zombie(self, producer: int) -> None:
        """An instance from before an epoch that the log has heard of; no coordinator would agree."""
        if self.epoch[producer]:
            ticket = txn(self.host, 999_999, producer=producer, epoch=self.epoch[producer] - 1, verified=False)
            assert code(self.host, ticket) in (Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_EPOCH)

    # What happens to the log and to leaders.

    def stored(self, count: int) -> None:
        for _ in range(min(count, len(self.changes))):
            self.host.commit()
            self.happened(told=True)

    def deposed(self, count: int) -> None:
        """The leader is gone; `count` of its batches are in the log all the same, the others nowhere."""
        kept = min(count, len(self.changes))
        self.host.crash(kept)
        for _ in range(kept):
            self.happened(told=False)
        self.lost()

    def handed_over(self) -> None:
        self.host.hand_over()
        self.lost()

    def checkpoint(self) -> None:
        self.host.check_replicas()

    def happened(self, *, told: bool) -> None:
        """`told`: whoever sent it gets its answer."""
        change = self.changes.popleft()
        self.place += 1
        change(told)

    def lost(self) -> None:
        self.changes.clear()
        self.words.clear()
        self.markers.clear()
        for producer in PRODUCERS:
            if not self.pending[producer] and producer not in self.ending:
                self.open[producer] = False  # its first commits are lost with the leader: it begins anew

    def next_value(self) -> int:
        self.value += 1
        return self.value


FIRST = [("held up", 7), ("held up", 8), ("pend", 7, 0), ("pend", 8, 0), ("stored", 2)]
BOTH_END = [("end", 7, True), ("end", 8, False)]
"""What draws seldom make."""


@settings(max_examples=120, deadline=None)
@example([*FIRST, *BOTH_END, ("late", 7), ("late", 8), ("stored", 2), ("checkpoint",)])
@example([*FIRST, *BOTH_END, ("stored", 2), ("late", 7), ("late", 8), ("zombie", 7)])
@example([*FIRST, *BOTH_END, *BOTH_END, ("deposed", 0), *BOTH_END, ("stored", 3)])
@example([*FIRST, *BOTH_END, ("deposed", 2), *BOTH_END, ("stored", 3)])
@example([*FIRST, *BOTH_END, ("stored", 2), ("pend", 7, 1), ("late marker",), ("stored", 1), ("late marker",)])
@given(STEPS)
def test_pending_offsets_become_visible_with_their_marker_and_never_before(steps: list[tuple[str | int, ...]]) -> None:
    run(steps)


def run(steps: list[tuple[str | int, ...]]) -> None:
    world = World()
    for what in steps:
        world.step(what)
    while world.changes:
        world.stored(3)
    for producer in PRODUCERS:
        world.end(producer, True)
    world.stored(len(world.changes))
    world.look()
    assert world.host.leader.first_open_offset() == -1, "every transaction has ended"
    world.checkpoint()
