"""The next step of a Raft group from the members it has to those it should have (pure).

Problem: a new member of a group lacks its whole log. If it voted at once, the group would be one failure from standing
still until it has caught up. Mechanism: one step at a time, each judged anew from what is true now: members that are
new join as learners; when they are level, the voters are changed, jointly if it takes that (`raft.change`); learners
that nobody wants are dropped; observers stay learners, or become such when they are to vote no longer. Nothing is
remembered between steps, so whoever leads goes on from wherever the one before it stopped, and wishes may change at
any time.

A change waits until a majority of the voters to come is level: with fewer, the group would stand still as soon as the
change is in its log. What this does not do: choose the members that a group should have, or keep count of how many
groups change at once.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from muster_coordinator.ids import MemberNo
from muster_coordinator.raft.quorum import Config, majority


class Standing(Enum):
    """How a member stands to the leader that asks."""

    AWAY = "away"
    """Without a link, or not registered, or suspended."""
    BEHIND = "behind"
    LEVEL = "level"
    """It lacks next to nothing of the log. The leader itself is."""


class Step(NamedTuple):
    """What to do now, and why. Without `voters`: wait."""

    reason: str
    voters: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()


class Wanted(NamedTuple):
    """The members that a group should have, each once."""

    voters: Sequence[MemberNo]
    observers: Sequence[MemberNo] = ()
    """Learners for good. One that is away joins when it comes."""


def next_step(present: Config, wanted: Wanted, standings: Mapping[int, Standing]) -> Step | None:
    """None: the group has the wanted voters, and no member that is not wanted. A member that is not in `standings` is
    away."""
    voters, observers = wanted
    if present.outgoing:
        return Step("the change before is being completed")
    newcomers = [member for member in voters if member not in present.voters]
    learners = (*newcomers, *(observer for observer in observers if observer not in present.voters))
    kept = tuple(learner for learner in present.learners if learner in learners)
    if kept != present.learners:
        return Step("learners that are not wanted any more leave", present.voters, kept)
    joining = [
        member for member in learners if member not in kept and standings.get(member) not in (None, Standing.AWAY)
    ]
    if joining:
        return Step("new members learn the log", present.voters, (*kept, *joining))
    if set(voters) == set(present.voters):
        return None
    for member in newcomers:
        standing = standings.get(member, Standing.AWAY)
        if standing is not Standing.LEVEL:
            some = _some_of(present, voters, standings)
            return some or Step(f"member {member} is {standing.value}")
    level = sum(standings.get(member) is Standing.LEVEL for member in voters)
    if level < majority(len(voters)):
        return Step(f"{level} of {len(voters)} voters to come are level")
    # Who votes no longer and is to observe does so from this very change on.
    return Step(
        "all new members are level",
        tuple(voters),
        tuple(one for one in (*kept, *present.voters) if one in observers),
    )


def _some_of(present: Config, voters: Sequence[int], standings: Mapping[int, Standing]) -> Step | None:
    """Where voters are only added, as after a recovery, one that is away must not keep the others out: what is
    acknowledged is to be on more than one disk soon."""
    missing = [member for member in voters if member not in present.voters]
    if set(present.voters) - set(voters) or any(standings.get(member) is Standing.BEHIND for member in missing):
        return None
    some = tuple(member for member in voters if member in present.voters or standings.get(member) is Standing.LEVEL)
    level = sum(standings.get(member) is Standing.LEVEL for member in some)
    if len(some) == len(present.voters) or level < majority(len(some)):
        return None
    learners = tuple(member for member in present.learners if member not in some)
    return Step("those that are level become voters, others are away", some, learners)
