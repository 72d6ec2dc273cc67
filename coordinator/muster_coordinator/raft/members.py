"""The configurations of one log: who votes and who only follows, from which entry on.

Problem: the members of a group change while it runs, and two majorities that do not overlap must never decide.
Mechanism: a configuration is an entry of the log (kind CONF), and the newest one in the log is in effect from the
moment it is appended, committed or not (*append time*: Raft's dissertation, 4.1; never mixed with etcd's applied time).
Where the log is cut, the one before is in effect again; where it is compacted, the newest one covered stays as its
beginning. A change of more than one voter passes through a joint configuration, in which both majorities are needed for
everything (dissertation 4.3); `raft.change` makes it and ends it.

What it does not do: decide whether a change may begin (`raft.change`), or store anything: whoever makes the core again
after a restart hands in what the log says.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.raft.limits import MEMBERS_MAX
from muster_coordinator.raft.quorum import Config

_HEAD = struct.Struct(">BBBB")
"""Version, how many voters, outgoing voters and learners; then each as i64, in this order."""
_VERSION = 1
CONFIG_DATA_BYTES_MAX = _HEAD.size + 3 * 8 * MEMBERS_MAX


def encode_config(config: Config) -> bytes:
    """The data of a CONF entry."""
    halves = (config.voters, config.outgoing, config.learners)
    assert all(len(half) <= MEMBERS_MAX for half in halves), "a change with more members is refused"
    members = [member for half in halves for member in half]
    return _HEAD.pack(_VERSION, *map(len, halves)) + struct.pack(f">{len(members)}q", *members)


def decode_config(data: bytes) -> Config:
    """Raises `Corruption`: of a later release, or no configuration at all."""
    if len(data) < _HEAD.size:
        raise Corruption("a configuration is cut off")
    version, voters, outgoing, learners = _HEAD.unpack_from(data)
    count = voters + outgoing + learners
    if version != _VERSION or len(data) != _HEAD.size + 8 * count:
        raise Corruption("a configuration that this release does not know")
    members: tuple[int, ...] = struct.unpack_from(f">{count}q", data, _HEAD.size)
    config = Config(members[:voters], members[voters : voters + outgoing], members[voters + outgoing :])
    if not is_sound(config):
        raise Corruption("a configuration without voters, with one named twice, or with too many members")
    return config


def is_sound(config: Config) -> bool:
    """Somebody votes, nobody is named twice in a half, and a learner is no voter (it may be one that is leaving)."""
    halves = (config.voters, config.outgoing, config.learners)
    return (
        bool(config.voters)
        and all(len(set(half)) == len(half) <= MEMBERS_MAX for half in halves)
        and all(member >= 0 for half in halves for member in half)
        and not set(config.learners) & set(config.voters)
    )


class Placed(NamedTuple):
    """A configuration, and the index of the entry that brought it: that one's, or where the log begins. 0: it is that
    of the group's beginning, and no entry brought it."""

    at: int
    config: Config


class Members:
    """The configurations of a log, oldest first. The first one is that of the log's beginning, and is always there."""

    __slots__ = ("_placed",)

    def __init__(self, placed: Sequence[Placed]) -> None:
        assert placed, "a log begins with a configuration, if only with an empty one"
        assert all(a.at < b.at for a, b in pairwise(placed)), "in the order of the log"
        self._placed = list(placed)

    @property
    def newest(self) -> Placed:
        """The one that is in effect."""
        return self._placed[-1]

    def at(self, index: int) -> Config | None:
        """The one that a checkpoint at `index` has to carry. Not before the beginning of the log. None: it is not known
        here, since this log began empty, outside the group, and the entry that brings the first one lies behind."""
        assert index >= self._placed[0].at, "what lies before is forgotten"
        newest = self._placed[-1]
        config = (
            newest.config
            if newest.at <= index
            else next(placed.config for placed in reversed(self._placed) if placed.at <= index)
        )
        return config if config.voters else None

    def is_first(self, index: int) -> bool:
        """Is the one at `index` that of the group's beginning, which no entry brought?"""
        return self._placed[0].at == 0 and (len(self._placed) == 1 or self._placed[1].at > index)

    def append(self, index: int, config: Config) -> None:
        """A CONF entry came into the log."""
        assert index > self.newest.at, "in the order of the log"
        self._placed.append(Placed(index, config))

    def cut(self, keep: int) -> bool:
        """All entries above `keep` are gone. Is another one in effect now?"""
        before = len(self._placed)
        # The first one is the beginning's: it is covered by a checkpoint, and nothing committed is ever cut.
        while len(self._placed) > 1 and self.newest.at > keep:
            self._placed.pop()
        return len(self._placed) != before

    def compact(self, index: int) -> None:
        """The log begins after `index` now: only the newest one up to there is still of use."""
        while len(self._placed) > 1 and self._placed[1].at <= index:
            del self._placed[0]

    def restart_at(self, index: int, config: Config | None) -> None:
        """The whole log is replaced by a checkpoint at `index`, which carries `config`. None: no entry up to there
        brought one, so those that this log held were of deposed leaders."""
        self._placed = self._placed[:1] if config is None else [Placed(index, config)]
