"""The high watermark of a partition in Redis, from what its hash says and which proofs there are, on virtual time."""

from collections.abc import Callable

import pytest
from muster_coordinator.redis_streams.append_ids import NO_APPEND, AppendId, parse_append
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.limits import PROOF_RETRY_MS, PROOF_RETRY_MS_MAX
from muster_coordinator.redis_streams.owned import Seen, seen
from muster_coordinator.replica.partitions.redis_proofs import Proofs

from tests.sim.loop import SimLoop, World

OFFSETS = Offsets.of_bits(10)
TERM = 3


class Owner:
    """Of a partition: what it asks, and what its readers are told."""

    def __init__(self) -> None:
        self.world = World()
        self.appending = self.watched = False
        self.moves = 0
        self.asked: list[Callable[[AppendId | None], None]] = []
        """The questions that have no answer yet."""
        self.told: list[tuple[int, bool]] = []
        """High watermarks, and whether they are the log's end."""
        loop = SimLoop(self.world)
        self.proofs = Proofs(
            loop, self.asked.append, lambda: self.appending, lambda: self.watched, self.moved
        )  # fmt: skip

    def moved(self) -> None:
        self.moves += 1

    def read(self, found: Seen, term: int = TERM) -> None:
        self.proofs.judge(found, term, lambda shown: self.told.append((shown.end, shown.whole)))

    def answer(self, proof: AppendId | None) -> None:
        self.asked.pop(0)(proof)


@pytest.fixture
def owner() -> Owner:
    return Owner()


def stream(last: int, append: tuple[int, int] | None = None, first: int = 0, start: bytes = b"") -> Seen:
    """Whose last entry has this sequence in millisecond 5. `first`: that of the entry from which on nothing is proved,
    if the last append is not."""
    appended = b"" if append is None else b"%d %d 5-%d" % (*append, last)
    before = b"" if append is None else b"5-%d" % (first - 1)
    return seen([b"OK", b"5-%d" % last, start, b"", appended, before, []], OFFSETS, "s")


def end(sequence: int) -> int:
    return OFFSETS.offset_of(EntryId(5, sequence), "")


def test_what_others_wrote_is_shown_at_once(owner: Owner) -> None:
    owner.read(stream(7))
    assert (owner.told, owner.asked) == ([(end(8), True)], [])


def test_an_append_is_shown_with_its_proof_and_those_before_it_too(owner: Owner) -> None:
    owner.appending = True
    owner.read(stream(7, (3, 2), 4))
    owner.proofs.ended(None)
    owner.read(stream(8, (3, 3), 4))
    owner.proofs.ended(AppendId(TERM, 3))
    owner.read(stream(8, (3, 3), 4))
    owner.read(stream(9, (3, 4), 9))
    assert owner.told == [(end(4), False), (end(4), False), (end(9), True), (end(9), False)]
    assert owner.moves == 1


def test_the_high_watermark_never_moves_back_but_with_the_log(owner: Owner) -> None:
    """What the hash says may be older than what is known to be proved: an append that was under way when it came."""
    owner.proofs.ended(AppendId(TERM, 6))
    owner.read(stream(6, (3, 6), 6))
    owner.read(stream(7, (3, 7), 2))
    assert owner.told == [(end(7), True), (end(7), False)]
    owner.read(stream(3, (3, 8), 3))
    assert owner.told[2:] == [(end(4), True)], "of a log that was lost there is no more"


def test_a_start_behind_what_is_not_proved_is_the_high_watermark(owner: Owner) -> None:
    owner.read(stream(7, (3, 2), 3, start=b"5-5"))
    assert owner.told == [(end(5), False)]


def test_the_first_readers_of_a_term_are_told_after_a_proof_and_later_ones_at_once(owner: Owner) -> None:
    before = stream(7, (2, 9), 6)
    owner.read(before)
    owner.read(before)
    assert (len(owner.asked), owner.told) == (1, [])
    owner.answer(AppendId(2, 9))
    assert owner.told == [(end(8), True)] * 2
    owner.read(before)
    assert (owner.asked, owner.told[2:]) == ([], [(end(8), True)])


def test_without_that_proof_they_are_told_what_was_proved_before(owner: Owner) -> None:
    owner.read(stream(7, (2, 9), 6))
    owner.answer(None)
    owner.read(stream(7, (2, 9), 6))
    assert (owner.told, owner.asked) == ([(end(6), False)] * 2, [])
    owner.read(stream(7, (2, 9), 6), TERM + 1)
    assert len(owner.asked) == 1, "the next term asks"


def test_who_reads_has_it_asked_for_and_at_a_growing_pace_while_somebody_watches(owner: Owner) -> None:
    owner.watched = True
    owner.read(stream(7, (3, 2), 6))
    pauses, pause_ms = [], PROOF_RETRY_MS
    while len(pauses) < 8:
        owner.world.run_for(pause_ms - 1)
        assert not owner.asked
        owner.world.run_for(2)
        owner.answer(None)
        pauses.append(pause_ms)
        pause_ms = min(2 * pause_ms, PROOF_RETRY_MS_MAX)
    assert pauses[-1] == PROOF_RETRY_MS_MAX
    owner.world.run_for(PROOF_RETRY_MS_MAX + 1)
    owner.answer(AppendId(TERM, 2))
    assert owner.moves == 1
    owner.world.run_for(60_000)
    assert owner.asked == [], "nothing is hidden any more"
    owner.read(stream(8, (3, 3), 8))
    owner.world.run_for(PROOF_RETRY_MS + 1)
    assert len(owner.asked) == 1, "and the pace is that of the beginning"


def test_it_is_asked_for_once_a_reader_who_does_not_watch(owner: Owner) -> None:
    for _ in range(2):
        owner.read(stream(7, (3, 2), 6))
        owner.world.run_for(PROOF_RETRY_MS_MAX + 1)
        owner.answer(None)
        owner.world.run_for(60_000)
        assert owner.asked == []


def test_nobody_asks_while_an_append_will_tell(owner: Owner) -> None:
    owner.watched = owner.appending = True
    owner.read(stream(7, (3, 2), 6))
    owner.world.run_for(10_000)
    assert owner.asked == []
    owner.appending = False
    owner.world.run_for(PROOF_RETRY_MS_MAX + 1)
    assert len(owner.asked) == 1, "it was given up"


def test_news_is_told_when_the_append_has_ended_however_it_did(owner: Owner) -> None:
    assert not owner.proofs.holds_news()
    owner.appending = True
    for proof in (AppendId(TERM, 1), None):
        before = owner.moves
        assert owner.proofs.holds_news()
        assert owner.moves == before
        owner.proofs.ended(proof)
        assert owner.moves == before + 1
    assert owner.proofs.holds_news()
    owner.appending = False
    owner.world.run_for(PROOF_RETRY_MS_MAX + 1)
    assert owner.moves == 3, "or was given up"


def test_redis_is_not_asked_for_what_is_hidden(owner: Owner) -> None:
    assert owner.proofs.hidden_from() is None
    owner.read(stream(7, (3, 2), 6))
    assert owner.proofs.hidden_from() == end(6)
    owner.proofs.ended(AppendId(TERM, 2))
    assert owner.proofs.hidden_from() is None


def test_names_of_appends() -> None:
    assert parse_append(b"3 7 5-1") == (AppendId(3, 7), EntryId(5, 1))
    assert NO_APPEND < AppendId(0, 0) < AppendId(0, 1) < AppendId(1, 0)
    for text in (b"", b"3 7", b"3 7 5", b"-1 7 5-1", b"3 7 5-1 ", b"3 7 5-1\n", b"3 7 %d-0" % 2**64):
        with pytest.raises(ValueError):
            parse_append(text)
