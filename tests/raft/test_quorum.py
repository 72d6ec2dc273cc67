"""The algebra of majorities against a brute-force definition, for plain and joint configurations."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.raft.quorum import (
    UNBOUNDED,
    Config,
    VoteResult,
    committed,
    highest_common,
    majority,
    vote_result,
)

VOTERS = st.lists(st.integers(1, 9), unique=True, max_size=7).map(tuple)
CONFIGS = st.builds(Config, VOTERS, VOTERS, VOTERS)
"""Whatever the learners are, they decide nothing."""


def quorums(voters: tuple[int, ...]) -> list[set[int]]:
    """All sets of voters that are a majority, by definition."""
    return [set(c) for n in range(len(voters) + 1) for c in combinations(voters, n) if 2 * n > len(voters)]


def committed_by_definition(voters: tuple[int, ...], reached: dict[int, int]) -> int:
    if not voters:
        return UNBOUNDED
    return max(min(reached.get(voter, 0) for voter in quorum) for quorum in quorums(voters))


@pytest.mark.parametrize(("size", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_majority(size: int, needed: int) -> None:
    assert majority(size) == needed


@pytest.mark.parametrize(
    ("values", "common"),
    [([], UNBOUNDED), ([7], 7), ([3, 9], 3), ([9, 3, 5], 5), ([1, 2, 3, 4], 2), ([5, 4, 3, 2, 1], 3)],
)
def test_highest_common(values: list[int], common: int) -> None:
    assert highest_common(values) == common


@given(CONFIGS, st.dictionaries(st.integers(1, 9), st.integers(0, 20)))
def test_committed_is_what_some_quorum_of_both_halves_has_reached(config: Config, reached: dict[int, int]) -> None:
    expected = min(committed_by_definition(half, reached) for half in config[:2])
    assert committed(config, reached) == expected


@given(CONFIGS, st.dictionaries(st.integers(1, 9), st.booleans()))
def test_a_ballot_is_won_by_quorums_of_both_halves_and_lost_when_it_cannot_be_won(
    config: Config, votes: dict[int, bool]
) -> None:
    granted = {voter for voter, vote in votes.items() if vote}
    possible = granted | ({*config.voters, *config.outgoing} - set(votes))

    def wins(voters: tuple[int, ...], members: set[int]) -> bool:
        return not voters or any(quorum <= members for quorum in quorums(voters))

    if all(wins(half, granted) for half in config[:2]):
        expected = VoteResult.WON
    elif all(wins(half, possible) for half in config[:2]):
        expected = VoteResult.PENDING
    else:
        expected = VoteResult.LOST
    assert vote_result(config, votes) is expected
    assert is_won(config, granted) is (expected is VoteResult.WON)


def is_won(config: Config, members: set[int]) -> bool:
    """By the votes of `members` alone."""
    return vote_result(config, dict.fromkeys(members, True)) is VoteResult.WON


@given(VOTERS.filter(bool))
def test_any_two_quorums_of_one_configuration_intersect(voters: tuple[int, ...]) -> None:
    config = Config(voters)
    winning = [set(c) for n in range(len(voters) + 1) for c in combinations(voters, n) if is_won(config, set(c))]
    assert all(one & other for one in winning for other in winning)


@given(VOTERS.filter(bool), VOTERS.filter(bool))
def test_a_joint_quorum_intersects_every_quorum_of_either_half(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    joint = Config(new, old)
    everyone = joint.everyone()
    smallest = [set(c) for c in combinations(everyone, len(everyone) // 2 + 1) if is_won(joint, set(c))]
    for members in smallest:
        assert all(members & quorum for half in (old, new) for quorum in quorums(half))


def test_who_has_not_answered_has_reached_nothing() -> None:
    assert committed(Config((1, 2, 3)), {1: 5}) == 0
    assert committed(Config((1, 2, 3)), {1: 5}, absent=-1) == -1


def test_everyone_names_a_voter_of_both_halves_once() -> None:
    config = Config((1, 2, 3), (3, 4, 1), (4, 5))
    assert config.electors() == (1, 2, 3, 4)
    assert config.everyone() == (1, 2, 3, 4, 5)


def test_of_an_even_number_of_voters_half_is_not_enough() -> None:
    assert highest_common([4, 3, 2, 1]) == 2
    assert highest_common([9, 9, 0, 0]) == 0
    assert highest_common([7, 0]) == 0
