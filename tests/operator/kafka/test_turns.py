"""Clusters take turns: whoever answers is never delayed for long by those that do not."""

import heapq
from dataclasses import dataclass, field

import pytest
from muster_operator.kafka.turns import Turns
from muster_operator.limits import (
    JITTER,
    KAFKA_BOOTSTRAP_TIMEOUT_MS,
    KAFKA_CALLS_MAX,
    KAFKA_REQUEST_TIMEOUT_MS,
    KAFKA_UNPROVEN_CALLS_MAX,
    KAFKA_UNREACHABLE_FOR_MS,
    POLL_STABLE_MS,
)

FRESH_MS = 15_000
ANSWER_MS = 150
"""A batch on two busy cores."""


def test_each_cluster_in_its_order_and_one_call_for_each_before_a_second() -> None:
    turns: Turns[str, str] = Turns(calls_max=10, unproven_max=9)
    for call in ("a1", "a2", "a3", "b1", "c1", "b2"):
        turns.ask(call[0], call, proven=True)
    order = []
    while (taken := turns.take()) is not None:
        order.append(taken[0])
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_no_more_calls_than_places_and_a_place_is_given_on() -> None:
    turns: Turns[int, int] = Turns(calls_max=3, unproven_max=2)
    for number in range(5):
        turns.ask(number, number, proven=True)
    assert [turns.take() for _ in range(4)] == [(0, False), (1, False), (2, False), None]
    turns.end(unproven=False)
    assert turns.take() == (3, False)
    assert len(turns) == 1


def test_the_unproven_never_hold_all_places() -> None:
    turns: Turns[str, str] = Turns(calls_max=3, unproven_max=2)
    for name in ("dead1", "dead2", "dead3", "live"):
        turns.ask(name, name, proven=name == "live")
    taken = [turns.take() for _ in range(4)]
    assert taken == [("dead1", True), ("dead2", True), ("live", False), None]
    turns.end(unproven=False)
    assert turns.take() is None, "the place stays free for whoever answers"
    turns.end(unproven=True)
    assert turns.take() == ("dead3", True)


def test_a_cluster_keeps_its_place_when_what_is_known_of_it_changes() -> None:
    turns: Turns[str, str] = Turns(calls_max=3, unproven_max=1)
    turns.ask("a", "a1", proven=False)
    turns.ask("b", "b1", proven=True)
    turns.ask("a", "a2", proven=True)
    assert [turns.take() for _ in range(3)] == [("a1", True), ("b1", False), None]
    turns.end(unproven=True)
    assert turns.take() == ("a2", True)


def test_crowded_says_whether_an_unproven_one_would_wait() -> None:
    turns: Turns[int, int] = Turns(calls_max=3, unproven_max=1)
    assert not turns.crowded
    turns.ask(1, 1, proven=False)
    assert turns.crowded, "somebody is before it"
    turns.take()
    assert turns.crowded, "its places are taken"
    turns.end(unproven=True)
    assert not turns.crowded


@dataclass
class Fleet:
    """Clusters on virtual time: each is asked anew a poll after its answer; `dead_from_ms` of those that die."""

    clusters: int
    dead_from_ms: dict[int, int]
    turns: Turns[int, int] = field(default_factory=Turns)
    proven: set[int] = field(default_factory=set)
    answered_ms: dict[int, int] = field(default_factory=dict)
    events: list[tuple[int, int, str, int, bool]] = field(default_factory=list)
    serial: int = 0
    running: int = 0
    stalest_ms: int = 0

    def at(self, when_ms: int, what: str, cluster: int, unproven: bool = False) -> None:
        self.serial += 1
        heapq.heappush(self.events, (when_ms, self.serial, what, cluster, unproven))

    def run(self, end_ms: int) -> None:
        for cluster in range(self.clusters):
            self.answered_ms[cluster] = 0
            self.at(0, "ask", cluster)
        while self.events[0][0] <= end_ms:
            now, _, what, cluster, unproven = heapq.heappop(self.events)
            if what == "ask":
                self.turns.ask(cluster, cluster, proven=cluster in self.proven)
            else:
                self._over(now, cluster, unproven)
            self._start(now)

    def _start(self, now: int) -> None:
        while (taken := self.turns.take()) is not None:
            cluster, unproven = taken
            self.running += 1
            assert self.running <= KAFKA_CALLS_MAX
            took = ANSWER_MS
            if now >= self.dead_from_ms.get(cluster, now + 1):
                took = KAFKA_BOOTSTRAP_TIMEOUT_MS if unproven else KAFKA_REQUEST_TIMEOUT_MS
            self.at(now + took, "over", cluster, unproven)

    def _over(self, now: int, cluster: int, unproven: bool) -> None:
        self.running -= 1
        self.turns.end(unproven=unproven)
        if now >= self.dead_from_ms.get(cluster, now + 1):
            self.proven.discard(cluster)
            self.at(now + KAFKA_UNREACHABLE_FOR_MS, "ask", cluster)
            return
        self.proven.add(cluster)
        self.stalest_ms = max(self.stalest_ms, now - self.answered_ms[cluster])
        self.answered_ms[cluster] = now
        self.at(now + int(POLL_STABLE_MS * (1 + JITTER)), "ask", cluster)


@pytest.mark.parametrize("died_ms", [0, 60_000])
@pytest.mark.parametrize(("clusters", "dead"), [(65, 0), (100, 10), (100, 30), (300, 30)])
def test_the_others_are_fresh_within_15_s(clusters: int, dead: int, died_ms: int) -> None:
    """Dead from the start, and dead all at once while they were known to answer."""
    fleet = Fleet(clusters=clusters, dead_from_ms=dict.fromkeys(range(dead), died_ms))
    fleet.run(600_000)
    assert fleet.stalest_ms <= FRESH_MS
    live = [at for cluster, at in fleet.answered_ms.items() if cluster >= dead]
    assert len(live) == clusters - dead
    assert min(live) > 600_000 - FRESH_MS


def test_most_may_be_dead() -> None:
    """100 that answer beside 900 that do not: once it is known which, they are as fresh as alone."""
    fleet = Fleet(clusters=1_000, dead_from_ms=dict.fromkeys(range(900), 0))
    fleet.run(400_000)
    fleet.stalest_ms = 0
    fleet.run(800_000)
    assert fleet.stalest_ms <= FRESH_MS
    assert KAFKA_UNPROVEN_CALLS_MAX < KAFKA_CALLS_MAX
