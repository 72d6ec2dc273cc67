"""Batches on their way into a partition's stream: in order, each once, or told as what is known of it.

Problem: an answer of Redis may be lost, and a batch that was sent on a connection that broke may still be executed.
Mechanism: one append is under way at a time, with a number in its owner's term (`append.lua`). While its fate is not
known the same call is made again, which says whether it is there; only when its deadline has passed is its producer
told that nobody knows, and whatever of it comes later than the next append is refused by Redis. What this does not do:
judge batches (`redis_log`), or wait longer than the client does.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from muster_coordinator.errors import Code
from muster_coordinator.ports import Loop, Timer
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.append_script import Appended, AppendRefused
from muster_coordinator.redis_streams.produced import Produced
from muster_coordinator.redis_streams.server import Failure, Trouble

Told = Callable[[Appended | AppendRefused], None]
Outcome = Appended | AppendRefused | Failure | None
"""None: the stream is not claimed."""


@dataclass(slots=True)
class _Append:
    batch: Produced
    size_bytes: int
    term: int
    done: Told | None
    """None: its producer has its answer."""
    timer: Timer | None = None
    number: int = -1
    """-1: it was never sent."""
    unknown: bool = False
    """Some try of it may have been executed."""

    def tell(self, outcome: Appended | AppendRefused) -> None:
        done, self.done = self.done, None
        if self.timer is not None:
            self.timer.cancel()
        if done is not None:
            done(outcome)


class Appends:
    """The queue of one partition. `send(batch, term, number, done)` makes one call of the script; `claim(done)` claims
    the stream; `leads(term)` tells whether this replica is still the owner by which a batch was taken."""

    def __init__(
        self,
        loop: Loop,
        send: Callable[[Produced, int, int, Callable[[Outcome], None]], None],
        claim: Callable[[Callable[[Code], None]], None],
        leads: Callable[[int], bool],
    ) -> None:
        self._loop = loop
        self._send = send
        self._claim = claim
        self._leads = leads
        self._queue: deque[_Append] = deque()
        self._bytes = 0
        self._busy = False
        self._last_number = 0
        self._pause_ms = limits.STREAM_RETRY_MS

    def has_room(self) -> bool:
        return len(self._queue) < limits.APPENDS_QUEUED_MAX and self._bytes < limits.APPENDS_QUEUED_BYTES_MAX

    def under_way(self) -> bool:
        return self._busy

    def add(self, batch: Produced, size_bytes: int, term: int, deadline_ms: int, done: Told) -> None:
        """`done` is called when the batch is there or refused, or at the deadline."""
        one = _Append(batch, size_bytes, term, done)
        one.timer = self._loop.call_at(deadline_ms, lambda: self._late(one))
        self._queue.append(one)
        self._bytes += size_bytes
        self._next()

    def _late(self, one: _Append) -> None:
        one.timer = None
        one.tell(_not_in_time(one))

    def _next(self) -> None:
        """Send the first batch that somebody still asks for."""
        while not self._busy and self._queue:
            one = self._queue[0]
            if one.done is None:
                self._drop()
            elif not self._leads(one.term):
                self._drop()
                one.tell(_deposed(one))
            else:
                self._busy = True
                if one.number < 0:
                    self._last_number += 1
                    one.number = self._last_number
                # Whatever becomes of this try: until its answer is here, it may be executed.
                was_unknown, one.unknown = one.unknown, True
                self._send(one.batch, one.term, one.number, self._answer_of(one, was_unknown))
                return

    def _answer_of(self, one: _Append, was_unknown: bool) -> Callable[[Outcome], None]:
        def answered(outcome: Outcome) -> None:
            if outcome is None:
                one.unknown = was_unknown
                self._claim(lambda code: self._claimed(one, code))
            elif isinstance(outcome, Appended):
                self._end(one, outcome)
            elif isinstance(outcome, AppendRefused):
                one.unknown = was_unknown
                self._end(one, outcome if not was_unknown else _unsaid(outcome))
            else:
                self._failed(one, outcome, was_unknown)

        return answered

    def _failed(self, one: _Append, failure: Failure, was_unknown: bool) -> None:
        if failure.trouble is Trouble.NOT_DURABLE:
            self._end(one, AppendRefused(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, failure.message))
            return
        one.unknown = was_unknown or failure.trouble is Trouble.UNKNOWN
        if failure.trouble is Trouble.REFUSED and not one.unknown:
            self._end(one, AppendRefused(Code.NOT_ENOUGH_REPLICAS, failure.message))
            return
        self._loop.call_at(self._loop.monotonic_ms() + self._pause_ms, self._again)
        self._pause_ms = min(2 * self._pause_ms, limits.STREAM_RETRY_MS_MAX)

    def _claimed(self, one: _Append, code: Code) -> None:
        if code in (Code.NONE, Code.KAFKA_STORAGE_ERROR):
            pause_ms = 0 if code is Code.NONE else limits.STREAM_RETRY_MS
            self._loop.call_at(self._loop.monotonic_ms() + pause_ms, self._again)
        else:
            self._end(one, AppendRefused(code, "another replica owns the partition"))

    def _again(self) -> None:
        self._busy = False
        self._next()

    def _end(self, one: _Append, outcome: Appended | AppendRefused) -> None:
        self._pause_ms = limits.STREAM_RETRY_MS
        self._drop()
        self._busy = False
        one.tell(outcome)
        self._next()

    def _drop(self) -> None:
        self._bytes -= self._queue.popleft().size_bytes


def _not_in_time(one: _Append) -> AppendRefused:
    if one.unknown:
        return AppendRefused(Code.REQUEST_TIMED_OUT, "Redis has not told in time whether it has the batch")
    return AppendRefused(Code.NOT_ENOUGH_REPLICAS, "Redis was not there in time")


def _deposed(one: _Append) -> AppendRefused:
    code = Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND if one.unknown else Code.NOT_LEADER_OR_FOLLOWER
    return AppendRefused(code, "another replica leads the partition")


def _unsaid(refused: AppendRefused) -> AppendRefused:
    """A refusal of a later try says nothing of an earlier one, if a later owner may have appended since."""
    if refused.code is Code.NOT_LEADER_OR_FOLLOWER:
        return AppendRefused(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, refused.message)
    return refused
