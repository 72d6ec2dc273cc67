"""Which groups are suspended here is stored and told (`raft.suspension`).

Problem: a voter that may have lost a promise must find that again after a restart, and one that was released must not.
Mechanism: the list of suspended groups in the WAL's folder follows each change, and is tried again for as long as the
disk fails. A suspension holds from when it is found, and is stored then. A release is stored first: the core acts on it
when it is durable. What this does not do: find losses, or release anybody (the group's leader does).
"""

from collections.abc import Callable

from muster_coordinator.events import VOTER_RELEASED, VOTER_SUSPENDED
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Loop, Notice
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup

SUSPENDED = (
    "a group is suspended here: its WAL may lack votes or entries that it has promised, so it neither votes nor counts "
    "for the quorum until its leader has restored them; if no leader can, restore the WAL from a backup"
)
NOT_SUSPENDED = "a group is not suspended any more"
REMEMBER_RETRY_MS = 1_000


class Suspensions:
    """See the module. Follows `host.suspension` and `host.release`."""

    def __init__(self, loop: Loop, host: Host, notice: Notice, was_moved: Callable[[GroupNo], bool]) -> None:
        """`was_moved`: of a replica that is suspended only because it left, or comes back, nothing is told."""
        self._loop = loop
        self._host = host
        self._notice = notice
        self._was_moved = was_moved
        host.suspension = self._changed
        host.release = self._release

    def found(self, group: RaftGroup, why: str) -> None:
        """The group is suspended."""
        self._notice(SUSPENDED, {"group": group.number, "why": why}, None)
        group.tell(VOTER_SUSPENDED, reason=why)
        self._remember(group)

    def _changed(self, group: RaftGroup) -> None:
        """The group's core was suspended because its leader knows of lost entries, or was released."""
        if group.suspended:
            self.found(group, "its leader knows of entries that are gone")
            return
        if not self._was_moved(group.number):
            self._notice(NOT_SUSPENDED, {"group": group.number}, None)
        group.tell(VOTER_RELEASED)

    def _release(self, group: RaftGroup) -> None:
        """The leader of a suspended voter has made good for it: store that, and only then let it promise anything."""

        def done(result: BaseException | None) -> None:
            if isinstance(result, OSError):
                self._loop.call_at(self._loop.monotonic_ms() + REMEMBER_RETRY_MS, again)
                return
            if isinstance(result, BaseException):
                self._host.fatal(result)
                return
            group.releasing = False
            if self._host.groups.get(group.number) is not group:
                return  # it was removed; what is to be remembered of it was submitted later
            group.core.release()
            if group.core.suspended:
                self._remember(group)  # it has lost more since, or stands aside
            self._host.touch(group)

        def again() -> None:
            group.releasing = False
            if self._host.groups.get(group.number) is group:
                self._host.touch(group)

        self._loop.submit("transfer", group.wal_writer.wal.suspend(group.number, False), done)

    def _remember(self, group: RaftGroup) -> None:
        """Store whether the group is suspended, so that a restart finds it; retried for as long as the disk fails."""

        def done(result: BaseException | None) -> None:
            if isinstance(result, OSError):
                self._loop.call_at(self._loop.monotonic_ms() + REMEMBER_RETRY_MS, lambda: self._remember(group))
            elif isinstance(result, BaseException):
                self._host.fatal(result)

        self._loop.submit("transfer", group.wal_writer.wal.suspend(group.number, group.suspended), done)
