"""What was moved away is dropped while it stands aside, and at no other time; alone, with what is around it made here.

Whole moves are in `test_moves`; here the leader's release comes between the two steps, which takes luck there.
"""

from collections.abc import Callable
from typing import cast

from muster_coordinator.events import Event
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.partitions.moved_away import RETRY_MS, Leaving, MovedAway

from tests.sim.loop import SimLoop, World

GROUP = GroupNo(5)


class Core:
    def __init__(self) -> None:
        self.suspended = 0
        self.release_told = False
        self.tokens = 0

    def suspend(self) -> None:
        self.tokens += 1
        self.suspended, self.release_told = self.tokens, False


class Group:
    number, name = GROUP, "t-0"

    def __init__(self) -> None:
        self.core = Core()
        self.suspended = False

    def step_down(self) -> None:
        pass


class Replica:
    """The host, the group manager and the WAL of one replica."""

    def __init__(self) -> None:
        self.world = World()
        self.loop = SimLoop(self.world)
        self.group = Group()
        self.groups = {GROUP: self.group}
        self.stored: list[bool] = []
        self.asked: list[Callable[[bool], None]] = []
        self.moved_away = MovedAway(self.loop, cast(Host, self), cast(Leaving, self), self.asked.append)

    def touch(self, group: Group) -> None:
        pass

    def tell(self, event: Event) -> None:
        pass

    def fatal(self, error: BaseException) -> None:
        raise error

    def leaving(self) -> list[GroupNo]:
        return list(self.groups)

    def leaves(self, number: GroupNo) -> bool:
        return number in self.groups

    def wal_of(self, number: GroupNo) -> "Replica":
        return self

    def suspend(self, number: GroupNo, suspended: bool) -> Callable[[], None]:
        return lambda: self.stored.append(suspended)

    def drop_replica(self, number: GroupNo) -> None:
        assert self.group.core.suspended
        assert not self.group.core.release_told, "it was on its way to promise again"
        del self.groups[number]


def test_one_that_is_being_released_stands_aside_anew_before_it_is_dropped() -> None:
    here = Replica()
    here.moved_away.look()
    here.world.run_until("it asks for the image", lambda: here.asked, 1_000)
    assert here.stored == [True]
    here.group.core.release_told = True
    here.asked.pop()(True)
    assert here.groups, "it stays for now"
    here.world.run_until("it asks again", lambda: here.asked, 2 * RETRY_MS)
    assert here.group.core.tokens == 2, "under a token that its leader has not released"
    assert here.stored == [True, True]
    here.asked.pop()(True)
    assert not here.groups


def test_one_whose_release_is_told_before_it_leaves_gives_that_up() -> None:
    here = Replica()
    here.group.core.suspend()
    here.group.suspended = here.group.core.release_told = True
    here.moved_away.look()
    here.world.run_until("it asks for the image", lambda: here.asked, 1_000)
    assert (here.group.core.tokens, here.group.core.release_told) == (2, False)
    here.asked.pop()(True)
    assert not here.groups
