"""When Redis is asked for a lag, on virtual time: at a pace, whatever is asked for; never more rows than the limit;
what is known grows old, and is unknown while Redis is away."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.lag import UNKNOWN, Quality, Records
from muster_coordinator.redis_streams.server import BEHIND, Answer, Failure, NoServer, Script, Trouble
from muster_coordinator.replica.partitions.redis_lags import RedisLags

from tests.redis_streams.test_mirror_rounds import topic
from tests.sim.loop import SimLoop, World

FEW = (b"OK", 3, b"", 9, b"1-0", b"9-0")
MANY = (b"OK", limits.LAG_ENTRIES_COUNTED_MAX, b"50-0", 10**6, b"1-0", b"90-0")


class Lags:
    """A replica's, and a server that answers `answer` after 1 ms."""

    def __init__(self) -> None:
        self.world = World("lags")
        self.loop = SimLoop(self.world)
        self.asked: list[tuple[int, str, bytes]] = []
        """(ms, stream, id of the entry before the offset)"""
        self.answer: Callable[[], Answer] = lambda: FEW
        self.topic = topic(partitions=3)
        server: Any = self
        self.lags = RedisLags(self.loop, server, "c", "muster")

    def run(
        self, script: Script, keys: tuple[str, str], arguments: Sequence[bytes], done: Callable[[Answer], None]
    ) -> None:
        assert script is BEHIND
        self.asked.append((self.loop.monotonic_ms(), keys[0], arguments[2]))
        answer = self.answer()
        self.loop.call_at(self.loop.monotonic_ms() + 1, lambda: done(answer))

    def of(self, group: str = "g", committed: int = 1025, partition: int = 0) -> Records:
        return self.lags.records(group, self.topic, partition, committed)

    def known(self) -> Records:
        self.of()
        self.world.run_for(100)
        return self.of()


@pytest.fixture
def lags() -> Lags:
    return Lags()


def test_it_is_unknown_first_and_then_what_redis_said(lags: Lags) -> None:
    assert lags.of() == UNKNOWN
    assert lags.asked == [], "nobody is asked in the turn of the meter"
    began_ms = lags.loop.monotonic_ms()
    lags.world.run_for(100)
    assert lags.of()[:2] == (3, Quality.EXACT)
    assert lags.asked == [(began_ms + limits.LAG_PACE_MS, "muster:{t:0}", b"1-0")]


def test_the_same_row_is_one_call_with_the_offset_of_the_last_wish(lags: Lags) -> None:
    for committed in (1025, 1026, 2049):
        lags.of(committed=committed)
    lags.world.run_for(1_000)
    assert [at for _, _, at in lags.asked] == [b"2-0"]


def test_small_calls_keep_a_pause_and_large_ones_a_long_one(lags: Lags) -> None:
    for answer, pause_ms in ((FEW, limits.LAG_PACE_MS), (MANY, 100)):
        lags.asked.clear()
        lags.answer = lambda found=answer: found
        for number in range(20):
            lags.of(f"g{number}")
        lags.world.run_for(5_000)
        times = [at_ms for at_ms, _, _ in lags.asked]
        assert len(times) == 20
        assert all(after - before >= pause_ms for before, after in pairwise(times))


def test_rows_are_bounded_and_the_rest_is_unknown(lags: Lags) -> None:
    for number in range(limits.LAG_ROWS_MAX + 10):
        lags.of(f"g{number}")
    lags.world.run_for(120_000)
    assert len(lags.asked) == limits.LAG_ROWS_MAX
    assert lags.of("g0").quality is Quality.EXACT
    assert lags.of(f"g{limits.LAG_ROWS_MAX + 9}") == UNKNOWN
    lags.world.run_for(1_000)
    assert lags.of(f"g{limits.LAG_ROWS_MAX + 9}").quality is Quality.EXACT
    assert lags.of("g1") == UNKNOWN, "the oldest made room"


def test_what_is_old_is_unknown(lags: Lags) -> None:
    assert lags.known().quality is Quality.EXACT
    lags.world.run_for(limits.LAG_RETRY_MS)
    lags.answer = lambda: Failure(Trouble.REFUSED, "NOPERM")
    assert lags.known() == UNKNOWN, "a refusal is an answer: nothing is known any more"
    lags.answer = lambda: FEW
    assert lags.known().quality is Quality.EXACT
    lags.world.run_for(limits.LAG_KEPT_MS + 1_000)
    assert lags.of() == UNKNOWN


@pytest.mark.parametrize("trouble", [Trouble.AWAY, Trouble.UNKNOWN])
def test_while_redis_is_away_all_is_unknown_and_one_call_now_and_then_asks(lags: Lags, trouble: Trouble) -> None:
    assert lags.known().quality is Quality.EXACT
    lags.world.run_for(100)
    lags.asked.clear()
    lags.answer = lambda: Failure(trouble, "")
    lags.of()
    lags.world.run_for(limits.LAG_RETRY_MS)
    assert (len(lags.asked), lags.of().quality) == (1, Quality.EXACT), "one lost answer says nothing of the others"
    lags.world.run_for(100)
    assert lags.of() == UNKNOWN
    for number in range(300):
        lags.of(f"g{number}")
        lags.world.run_for(1_000)
    assert 10 <= len(lags.asked) <= 2 + 300_000 // limits.LAG_RETRY_MS_MAX + 6
    lags.answer = lambda: FEW
    lags.world.run_for(limits.LAG_RETRY_MS_MAX + 10_000)
    assert lags.of()[:2] == lags.of("g299")[:2] == (3, Quality.EXACT)


def test_a_topic_that_was_made_anew_has_nothing_of_the_earlier_one(lags: Lags) -> None:
    assert lags.known().quality is Quality.EXACT
    lags.topic = topic(first=90)
    assert lags.of() == UNKNOWN


def test_a_replica_that_knows_no_redis_knows_no_lag(lags: Lags) -> None:
    lags.lags = RedisLags(lags.loop, NoServer(), "c", "muster")
    lags.of()
    lags.world.run_for(10_000)
    assert lags.of() == UNKNOWN
