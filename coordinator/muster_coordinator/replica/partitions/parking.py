"""Parking of group requests that arrive before this leader may serve (decision 5): they wait for its term's no-op.

At most `PARK_REQUESTS_MAX` are parked a shard, each for at most `PARK_MS_MAX`; beyond either they are answered
COORDINATOR_NOT_AVAILABLE (15). Requests that arrive during a leadership transfer are parked too: they are answered
NOT_COORDINATOR (16) when leadership is lost, and served if the transfer fails. What this does not do: answer 16, or
serve; `shards` does.
"""

from collections import deque
from collections.abc import Callable

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, refusal
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.deadlines import Deadlines, Due

AnswerCall = Callable[[GroupAnswer], None]


class Parking:
    """The parked requests of one shard. All wait equally long, so the oldest is the next to expire."""

    __slots__ = ("_deadlines", "_due", "_parked")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._due = Due(self._expire)
        self._parked: deque[tuple[int, GroupRequest, AnswerCall]] = deque()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, now_ms: int, deadline_ms: int, request: GroupRequest, done: AnswerCall) -> None:
        """Keep `request` until `take`, or until it has waited for `PARK_MS_MAX`."""
        if len(self._parked) >= limits.PARK_REQUESTS_MAX or deadline_ms <= now_ms:
            done(refusal(request, Code.COORDINATOR_NOT_AVAILABLE))
            return
        self._parked.append((now_ms + limits.PARK_MS_MAX, request, done))
        if len(self._parked) == 1:
            self._deadlines.set(self._due, self._parked[0][0])

    def _expire(self, now_ms: int) -> None:
        parked = self._parked
        while parked and parked[0][0] <= now_ms:
            _, request, done = parked.popleft()
            done(refusal(request, Code.COORDINATOR_NOT_AVAILABLE))
        self._deadlines.set(self._due, parked[0][0] if parked else None)

    def take(self) -> list[tuple[GroupRequest, AnswerCall]]:
        """Remove and return all parked requests, in order."""
        taken = [(request, done) for _, request, done in self._parked]
        self._parked.clear()
        self._deadlines.set(self._due, None)
        return taken
