"""Errors that escape a handler of a shard: bugs of ours, triggered by a client's bytes or a timer.

Nothing that a client sends may end the process that serves all others. So an exception that escapes a handler fails
its request with -1 and drops the volatile state of its group (`Core.contain`); the group continues from stored state,
as under a new leader. Durable state cannot be half changed, because only `apply` changes it; an error in `apply` is
handled by the host. Every fault is kept for the host to log and count: none is normal.
"""

from muster_coordinator.errors import CallerError


class Fault:
    """One contained error. Not a NamedTuple, because mypyc cannot compile one with a field of type `Exception`."""

    __slots__ = ("during", "error", "group")

    def __init__(self, during: str, group: str, error: Exception) -> None:
        self.during = during
        """What was being handled: a kind of request or timer, or another step."""
        self.group = group
        """The group's id; "" when the error concerned no group."""
        self.error = error


class Unprovable(CallerError):
    """A replica could not store, apply, checkpoint or describe this batch, so it must not be proposed (`proof`)."""
