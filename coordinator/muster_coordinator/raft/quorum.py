"""Majorities: of one set of voters, and of two at once (joint consensus).

Problem: votes, commits, read rounds and check-quorum all ask "does a quorum ...?" and must never answer it differently.
Mechanism: pure functions over a `Config`. With `outgoing` empty a config is a plain majority; otherwise both halves
must agree (raft rule 12; an empty half agrees to everything). Learners are in no half. Nothing here changes a config
(`raft.change` does).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

UNBOUNDED = (1 << 63) - 1
"""What an empty half has acknowledged: everything."""


class Config(NamedTuple):
    """Who votes, and who follows without a vote. `voters` is the incoming half of a joint configuration."""

    voters: tuple[int, ...]
    outgoing: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()
    """A voter that is leaving to be a learner stands here and in `outgoing`."""

    def electors(self) -> tuple[int, ...]:
        """All distinct voters of both halves, in order of first mention."""
        return tuple(dict.fromkeys(self.voters + self.outgoing))

    def everyone(self) -> tuple[int, ...]:
        """All distinct members, voters first."""
        return tuple(dict.fromkeys(self.voters + self.outgoing + self.learners))


class VoteResult(IntEnum):
    """State of a ballot."""

    PENDING = 0
    WON = 1
    LOST = 2


def majority(size: int) -> int:
    """Voters needed out of `size`."""
    return size // 2 + 1


def highest_common(values: list[int]) -> int:
    """The largest value that a majority of the voters has reached, one value a voter; `UNBOUNDED` without voters."""
    if not values:
        return UNBOUNDED
    values.sort()
    # Ascending, so this one and all behind it are reached: of 3 values the second, of 4 the second, of 5 the third.
    return values[(len(values) - 1) // 2]


def committed(config: Config, reached: Mapping[int, int], absent: int = 0) -> int:
    """The largest index (or read round) a quorum of `config` has reached; a voter not in `reached` has `absent`."""
    index = highest_common([reached.get(voter, absent) for voter in config.voters])
    if config.outgoing:
        index = min(index, highest_common([reached.get(voter, absent) for voter in config.outgoing]))
    return index


def vote_result(config: Config, votes: Mapping[int, bool]) -> VoteResult:
    """The state of the ballot `votes` (voter to granted); voters that are not in it may still answer."""
    halves = (_half_result(config.voters, votes), _half_result(config.outgoing, votes))
    if VoteResult.LOST in halves:
        return VoteResult.LOST
    if VoteResult.PENDING in halves:
        return VoteResult.PENDING
    return VoteResult.WON


def _half_result(voters: tuple[int, ...], votes: Mapping[int, bool]) -> VoteResult:
    if not voters:
        return VoteResult.WON
    needed = majority(len(voters))
    granted = sum(1 for voter in voters if votes.get(voter) is True)
    refused = sum(1 for voter in voters if votes.get(voter) is False)
    if granted >= needed:
        return VoteResult.WON
    return VoteResult.LOST if len(voters) - refused < needed else VoteResult.PENDING
