"""When a leading coordinator has to act without being asked: on transactions whose time is over, and on retries.

Problem: a transaction that its producer forgot would hold back every read_committed reader. Mechanism: each open
transaction has a deadline on the leader's monotonic clock, counted anew under a new leader as sessions are (decision
7), so that no step of a wall clock aborts a transaction, and a change of leader never shortens one. A deadline whose
transaction ended meanwhile is passed over when it comes up. What it does not do: say what is to be done.
"""

import heapq


class Timers:
    """A heap of (due, transactional id)."""

    __slots__ = ("_armed", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._armed: dict[str, int] = {}
        """Id -> its deadline; an entry of the heap with another one is passed over."""

    def arm(self, transactional_id: str, due_ms: int) -> None:
        """Set the id's deadline."""
        self._armed[transactional_id] = due_ms
        heapq.heappush(self._heap, (due_ms, transactional_id))
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._armed):
            self._heap = [(due, name) for name, due in self._armed.items()]
            heapq.heapify(self._heap)

    def disarm(self, transactional_id: str) -> None:
        """The id has no deadline any more."""
        self._armed.pop(transactional_id, None)

    def armed(self, transactional_id: str) -> bool:
        return transactional_id in self._armed

    def next_ms(self) -> int | None:
        """The earliest deadline; None: there is none."""
        heap = self._heap
        while heap and self._armed.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now_ms: int, most: int) -> list[str]:
        """Ids whose deadline has come, at most so many; they have none any more."""
        found: list[str] = []
        while len(found) < most:
            next_ms = self.next_ms()
            if next_ms is None or next_ms > now_ms:
                break
            transactional_id = heapq.heappop(self._heap)[1]
            del self._armed[transactional_id]
            found.append(transactional_id)
        return found
