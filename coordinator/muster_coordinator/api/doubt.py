"""What this replica's image of the cluster does not have is nowhere only if the image is not late.

Problem: a topic is created through one replica, and another that has not applied it yet is asked about it. "Unknown"
would be wrong, and clients take it for final. Mechanism: before a request is told so, the controller's leader is asked
whether this image is late, once a request, and all requests of a replica share these questions
(`replica.controller.current_image`); then the request looks again. Where there is no proof it gets a code on which
clients ask again: 6 of a partition's leader (librdkafka 2.15 and Java 4 look for the leader then; a Fetch that is told
5 is an unexpected error to Java), 5 of Metadata (librdkafka passes over such a topic), 41 of changes and 7 of
descriptions.

What is in the image costs nothing more. What it does not do: remember what was proven, which would be old by then.
"""

from collections.abc import Callable

from muster_coordinator.errors import ApiError, Code
from muster_coordinator.replica.partitions.surface import Surface

ABSENT = frozenset((Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID))
PRESENT = frozenset((Code.TOPIC_ALREADY_EXISTS,))
UNPROVEN = "the controller's leader could not be asked whether this replica is late"


class Doubt:
    """One request's, about its answers in `codes`. Without a proof they become `late`."""

    __slots__ = ("_asked", "_calls", "_codes", "_late", "_surface", "proven")

    def __init__(self, surface: Surface, late: Code, codes: frozenset[Code] = ABSENT) -> None:
        self._surface = surface
        self._late = late
        self._codes = codes
        self._calls: list[Callable[[], None]] = []
        self._asked = False
        self.proven: bool | None = None
        """What came out; None: nobody has asked so far."""

    def defers(self, code: Code, again: Callable[[], None]) -> bool:
        """Whether this answer is not to be given yet: then `again` is called when it may be, maybe before this returns.
        The image can be another one by then."""
        if code not in self._codes or self.proven is not None:
            return False
        self._calls.append(again)
        if not self._asked:
            self._asked = True
            self._surface.when_topics_current(self._told)
        return True

    def answer(self, code: Code) -> Code:
        """The answer as far as it is proven."""
        return self._late if code in self._codes and not self.proven else code

    def error(self, error: ApiError) -> ApiError:
        """The same of an error with words."""
        return error if self.answer(error.code) is error.code else ApiError(self._late, UNPROVEN)

    def _told(self, current: bool) -> None:
        self.proven = current
        calls, self._calls = self._calls, []
        for call in calls:
            call()
