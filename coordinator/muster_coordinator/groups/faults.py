"""What went wrong inside a shard while it judged a request or a timer: a bug of ours, met by somebody's bytes.

Nothing that a client sends may end the process that serves everybody else. So an exception that escapes a handler
costs its request, answered -1, and what was volatile of its group (`Core.contain`): the group goes on from what the
log says, as it does under a new leader. The durable state cannot be half changed, as only `apply` changes it; an error
there is the host's matter. Every fault is kept here for the host to log and count: it is never normal.
"""

from muster_coordinator.errors import CallerError


class Fault:
    """One contained error. No named tuple: mypyc does not find `Exception` among a tuple's fields."""

    __slots__ = ("during", "error", "group")

    def __init__(self, during: str, group: str, error: Exception) -> None:
        self.during = during
        """A request's kind, a timer's, or what else was under way."""
        self.group = group
        """"" when it was about no group."""
        self.error = error


class Unprovable(CallerError):
    """A batch that some replica could not store, apply, checkpoint or tell: it is not proposed (`proof`)."""
