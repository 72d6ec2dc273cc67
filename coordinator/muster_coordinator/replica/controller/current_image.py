"""Parks requests until the image here holds what the controller's leader has committed.

Problem: a topic is created through one replica, and a commit for it reaches another that has not applied the creation
yet. "Unknown topic" would be a wrong answer, and Java's consumer treats it as final. Mechanism: request the read index
of the controller's leader (a round), then wait until this replica has applied it. Client requests that arrive during a
round share the next round, because an entry committed before them may lie above the current round's index. For a kind
with a pace, rounds are at least that far apart, and requests that arrive in between share the next one: any number of
clients that poll for a missing topic cost the leader some tens of rounds a second. Each kind has its own rounds and its
own bound on waiting requests.

What it does not do: find the leader or forward (`controller_client`); decide which requests need it (`api.commits`,
`api.doubt`); cache an answer, which would be out of date for the next request.
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
    """A kind of requests, which share rounds."""

    parked_max: int
    pace_ms: int
    """Least time between the starts of two rounds."""


COMMITS = Kind(limits.CURRENT_IMAGE_PARKED_MAX, 0)
MOVED_AWAY = Kind(1, 0)
TOPICS = Kind(limits.CURRENT_TOPICS_PARKED_MAX, limits.CURRENT_TOPICS_PACE_MS)


class CurrentImage:
    """See the module. `moved` must be called whenever the controller's group has applied entries."""

    def __init__(self, loop: Loop, client: ControllerClient, controller: ControllerGroup, kind: Kind) -> None:
        self._loop = loop
        self._client = client
        self._controller = controller
        self._kind = kind
        self._joining: list[Call] = []
        """Requests that will share the next round."""
        self._asked = False
        """A round is under way, or waits for the pace."""
        self._next_ms = loop.monotonic_ms()
        """No round starts before."""
        self._behind: list[tuple[int, list[Call]]] = []
        """(read index, requests parked until it is applied here), in the order of the rounds."""
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
