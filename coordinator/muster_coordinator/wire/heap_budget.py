"""One request's bytes and the heap that decoding them may take.

Problem: a count of a few bytes can demand gigabytes of objects (eight Kafka implementations had this bug; kio's native
reader ends the process with SIGABRT on a compact array of 2**31 elements, six bytes long), and even an honest frame
takes up to 83 heap bytes per wire byte in CPython.
Mechanism: before anything is allocated, an array's count times its smallest possible element is compared with the bytes
left, and its estimated cost is taken from the request's budget (`limits.REQUEST_HEAP_BYTES_MAX`). Byte strings take
their wire size and are bounded by the frame limit; text that CPython widens is charged at four bytes a character. What
was taken counts once more, as an estimate of what the request holds until it is answered (`connection`). What it does
not do: sum budgets over connections while decoding. There is no need: the loop decodes one request at a time.
"""

from muster_coordinator.errors import WireError
from muster_coordinator.wire import limits

INT_COST = 32
TEXT_COST = 64
"""An empty str or bytes object."""
STRUCT_COST = 56
"""A tuple with its garbage-collector header; each field adds a pointer."""
POINTER_COST = 8


class Frame:
    """The bytes of one request, from the first after its header to `end`; `data` may go on with other frames."""

    __slots__ = ("data", "end", "heap_left")

    def __init__(self, data: bytes, end: int, heap: int = limits.REQUEST_HEAP_BYTES_MAX) -> None:
        assert end <= len(data)
        self.data = data
        self.end = end
        self.heap_left = heap

    def held_bytes(self, start: int) -> int:
        """An estimate of the memory that the request, which begins at `start`, takes until it is answered."""
        return self.end - start + limits.HANDLING_FACTOR * (limits.REQUEST_HEAP_BYTES_MAX - self.heap_left)

    def charge(self, count: int, cost: int) -> None:
        """Take `count` objects of `cost` bytes from the budget. Raises WireError when it is exhausted."""
        self.heap_left -= count * cost
        if self.heap_left < 0:
            raise WireError("request would take more heap than its budget")

    def claim(self, pos: int, count: int, smallest: int, cost: int) -> None:
        """Admit an array of `count` elements that starts at `pos`, before any element is made. Raises WireError when
        the frame cannot hold it or the budget is exhausted."""
        if count * smallest > self.end - pos:
            raise WireError("array is longer than its frame")
        self.charge(count, cost)
