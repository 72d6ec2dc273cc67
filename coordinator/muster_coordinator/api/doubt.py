"""Before a request is told that something does not exist, this replica's image is confirmed as current.

Problem: a topic is created through one replica, and another one that has not applied that yet gets a request for it.
"Unknown" would be wrong, and clients take it as final. Mechanism: before such an answer, the controller's leader is
asked whether this image is behind, once per request, and requests of a replica share these questions
(`replica.controller.current_image`); then the request is evaluated again. Without an answer from the leader the request
gets a code on which clients ask again: 6 for a partition's leader (librdkafka 2.15 and Java 4 then look for the leader;
a Fetch answered 5 is an unexpected error to Java), 5 for Metadata (librdkafka skips such a topic), 41 for changes and 7
for descriptions.

Requests for what the image has cost nothing more. What it does not do: cache a confirmation, which would be outdated.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from muster_coordinator.api.gather import in_turns
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.replica.partitions.surface import Surface

T = TypeVar("T")
ABSENT = frozenset((Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID))
PRESENT = frozenset((Code.TOPIC_ALREADY_EXISTS,))
UNPROVEN = "this replica may be behind, and the controller's leader could not be reached to confirm that it is not"


class Doubt:
    """The doubt of one request about its answers in `codes`. Without confirmation they are answered as `late`."""

    __slots__ = ("_asked", "_calls", "_codes", "_late", "_surface", "proven")

    def __init__(self, surface: Surface, late: Code, codes: frozenset[Code] = ABSENT) -> None:
        self._surface = surface
        self._late = late
        self._codes = codes
        self._calls: list[Callable[[], None]] = []
        self._asked = False
        self.proven: bool | None = None
        """Whether the image was confirmed as current; None: not asked yet."""

    def parks(self, code: Code, again: Callable[[], None]) -> bool:
        """Whether the request is parked until the confirmation. If so, `again` is called when that has come, maybe
        before this method returns; by then there may be a new image. A turn of the loop calls a thousand at most."""
        if code not in self._codes or self.proven is not None:
            return False
        self._calls.append(again)
        if not self._asked:
            self._asked = True
            self._surface.when_topics_current(self._told)
        return True

    def judge(self, judge: Callable[[], T], judged: Callable[[T], None], refused: Callable[[ApiError], None]) -> None:
        """Judge one part of the request, and call back once. `judge` makes what is wanted from the image, or raises
        ApiError; it is called again after the confirmation if its refusal needs one."""
        try:
            found = judge()
        except ApiError as error:
            if not self.parks(error.code, partial(self.judge, judge, judged, refused)):
                refused(self.error(error))
            return
        judged(found)

    def answer(self, code: Code) -> Code:
        """The code to answer: `code`, or `late` if it needs a confirmation that did not come."""
        return self._late if code in self._codes and not self.proven else code

    def error(self, error: ApiError) -> ApiError:
        """As `answer`, for an error with a message."""
        return error if self.answer(error.code) is error.code else ApiError(self._late, UNPROVEN)

    def _told(self, current: bool) -> None:
        self.proven = current
        calls, self._calls = self._calls, []

        def again(index: int) -> int:
            calls[index]()
            return 0

        in_turns(self._surface.loop, len(calls), again, lambda: None)
