"""For how long does a group serve nobody when somebody dies while its members change, or its leader moves?

On virtual time, at every place: whoever is about to send a letter, or to have something on its disk, dies just before
it, also between two requests for votes. That is some hundred runs of each kind and seed; `timeline` has the rest.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.raft.timeline import Timeline

pytestmark = pytest.mark.timeout(300)

MEMBERS = 3
PACE_US = 4_000
QUIET_MS_MAX = 20.0
"""Where nobody dies: a few round trips and syncs."""
PAUSE_MS_MAX = 1_000.0
"""Where somebody does: a lost link is noticed (150 ms), and at most two elections fail (400 ms each)."""
AFTERWARDS_MS = 2_000
SEEDS = int(os.environ.get("MUSTER_PAUSE_SEEDS", "1"))


def _moved(at: Timeline) -> bool:
    leader = at.leader()
    if not leader or (at.heir and leader != at.heir):
        return False
    core = at.core(leader)
    here = core.config
    return core.committed_in_term and not here.outgoing and not here.learners and set(here.voters) == set(at.wanted)


def _move(at: Timeline, *, keep: int, stays: bool) -> None:
    """So many of the other voters stay, and the leader if it `stays`."""
    leader = at.leader()
    here = at.core(leader).config.voters
    others = [node for node in here if node != leader][:keep]
    free = [node for node in at.network.nodes if node not in here]
    staying = [leader, *others] if stays else others
    at.wanted = (*staying, *free[: MEMBERS - len(staying)])


def _hand_over(at: Timeline) -> None:
    """To a voter, as the balancer and a drain do."""
    leader = at.leader()
    target = next(node for node in at.core(leader).config.voters if node != leader)
    at.wanted = at.core(leader).config.voters
    at.transfer(leader, target)


class Kind(NamedTuple):
    nodes: int
    begin: Callable[[Timeline], None]


KINDS = {
    "the leader hands over": Kind(3, _hand_over),
    "the leader is moved away": Kind(4, lambda at: _move(at, keep=2, stays=False)),
    "the leader and another are moved away": Kind(5, lambda at: _move(at, keep=1, stays=False)),
    "another is moved away": Kind(4, lambda at: _move(at, keep=1, stays=True)),
}


def _begun(kind: Kind, seed: int) -> tuple[Timeline, int]:
    """Served, and about to begin; and since when."""
    at = Timeline(kind.nodes, MEMBERS, seed, PACE_US)
    assert at.run_until(lambda: len(at.served_us) > 5, 10_000)
    return at, at.now_us


@pytest.mark.parametrize("name", KINDS)
def test_whoever_dies_at_whatever_place_somebody_serves_again_within_a_second(name: str) -> None:
    kind = KINDS[name]
    for seed in range(SEEDS):
        at, since_us = _begun(kind, seed)
        first = at.effects
        kind.begin(at)
        assert at.run_until(lambda at=at: _moved(at), 5_000), (name, seed)
        last = at.effects
        at.run_until(lambda: False, 100)
        assert at.longest_ms(since_us) <= QUIET_MS_MAX, (name, seed)
        assert last - first > 10, (name, seed)
        for place in range(first + 1, last + 1):
            at, since_us = _begun(kind, seed)
            at.kill_at = (place, 0)
            kind.begin(at)
            assert at.run_until(lambda at=at: at.dead, 5_000), (name, seed, place)
            at.run_until(lambda: False, AFTERWARDS_MS)
            pause_ms = at.longest_ms(since_us)
            assert pause_ms <= PAUSE_MS_MAX, (
                f"{name}: seed {seed}, place {place - first}, {at.dead} died: {pause_ms} ms"
            )
