"""Parks requests until the image here holds what the controller's leader has committed.

Problem: a topic is created through one replica, and the commit for it reaches another that has not applied the
creation yet. "Unknown topic" would be a wrong answer, and Java's consumer takes it for final. Mechanism: ask the
controller's leader for its read index, then wait until this replica has applied so far. Requests that come while a
question is on its way share the next one: what was committed before them may be after its index. Between two questions
of a kind with a pace is a pause, whose requests share one as well, so that any number of clients that poll for a topic
that does not exist cost the leader some tens of rounds a second. Each kind has its own questions and its own places.

What it does not do: look for the leader or forward (see `controller_client`); decide who needs it (`api.commits`,
`api.doubt`); remember an answer, which would be old for the next request.
"""

from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.controller.commands import CommandResult
from muster_coordinator.errors import Code
from muster_coordinator.ports import Loop
from muster_coordinator.replica import limits
from muster_coordinator.replica.controller.controller_client import ControllerClient
from muster_coordinator.replica.controller.controller_group import ControllerGroup

Call = Callable[[bool], None]


class Kind(NamedTuple):
    """Of requests that are parked together."""

    parked_max: int
    pace_ms: int
    """At least so long between two questions."""


COMMITS = Kind(limits.CURRENT_IMAGE_PARKED_MAX, 0)
TOPICS = Kind(limits.CURRENT_TOPICS_PARKED_MAX, limits.CURRENT_TOPICS_PACE_MS)


class CurrentImage:
    """See the module. `moved` is to be called whenever the controller's group has applied entries."""

    def __init__(self, loop: Loop, client: ControllerClient, controller: ControllerGroup, kind: Kind) -> None:
        self._loop = loop
        self._client = client
        self._controller = controller
        self._kind = kind
        self._joining: list[Call] = []
        """They share the next question."""
        self._asked = False
        """A question is on its way, or waits for the pace."""
        self._next_ms = loop.monotonic_ms()
        self._behind: list[tuple[int, list[Call]]] = []
        """(index, calls): parked until that is applied here, in the order of the questions."""
        self._parked = 0

    def wait(self, call: Call) -> None:
        """See `surface.Surface.when_image_current`."""
        if self._parked >= self._kind.parked_max:
            call(False)
            return
        self._parked += 1
        self._joining.append(call)
        self._ask_when_due()

    def _ask_when_due(self) -> None:
        if self._asked:
            return
        self._asked = True
        if self._loop.monotonic_ms() >= self._next_ms:
            self._ask()
        else:
            self._loop.call_at(self._next_ms, self._ask)

    def _ask(self) -> None:
        self._next_ms = self._loop.monotonic_ms() + self._kind.pace_ms
        calls, self._joining = self._joining, []
        deadline_ms = self._loop.monotonic_ms() + limits.CURRENT_IMAGE_WAIT_MS
        self._client.read_index(deadline_ms=deadline_ms, done=lambda result: self._told(calls, deadline_ms, result))

    def _told(self, calls: list[Call], deadline_ms: int, result: CommandResult) -> None:
        self._asked = False
        if result.error != Code.NONE:
            self._answer(calls, False)
        elif self._applied() >= result.value:
            self._answer(calls, True)
        else:
            row = (result.value, calls)
            self._behind.append(row)
            self._loop.call_at(deadline_ms, lambda: self._give_up(row))
        if self._joining:
            self._ask_when_due()

    def moved(self) -> None:
        """Entries were applied here."""
        while self._behind and self._behind[0][0] <= self._applied():
            self._answer(self._behind.pop(0)[1], True)

    def _give_up(self, row: tuple[int, list[Call]]) -> None:
        for at, behind in enumerate(self._behind):
            if behind is row:
                del self._behind[at]
                self._answer(row[1], False)
                return

    def _applied(self) -> int:
        return self._controller.group.applied

    def _answer(self, calls: list[Call], current: bool) -> None:
        self._parked -= len(calls)
        for call in calls:
            call(current)
