"""Quorums by their definition, whatever the members: every subset is tried."""

from itertools import combinations

from muster_coordinator.raft.quorum import Config


def is_quorum(config: Config, members: set[int]) -> bool:
    """By definition: more than half of each half."""
    halves = [half for half in (config.voters, config.outgoing) if half]
    return all(len(members & set(half)) * 2 > len(half) for half in halves)


def may_both_decide(one: Config, other: Config) -> bool:
    """Are there a quorum of one and a quorum of the other that have nobody in common?"""
    everyone = {*one.electors(), *other.electors()}
    subsets = [set(chosen) for n in range(len(everyone) + 1) for chosen in combinations(sorted(everyone), n)]
    return any(is_quorum(one, some) and is_quorum(other, everyone - some) for some in subsets)
