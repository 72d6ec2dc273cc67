"""How far a partition in Redis is proved to be as durable as `redis.durability` says: its high watermark.

Problem: Redis shows an entry to readers before its replicas, or its disk, have it. If the primary dies then, the next
one lacks what a consumer has read, and the consumer's position lies behind the end. Mechanism: what was appended
by an owner is hidden, with all behind it, until a proof covers it. A proof is of the whole server: WAIT behind any
write covers all writes before, so the answer to an append covers the appends before it, and those of earlier owners,
who are fenced by it. The hash beside the stream says what the last append was, and from where on nothing was proved
when it came (`append.lua`); the high watermark is the end of what is before that. It is not the offset at which that
begins: there are gaps, and if that is lost, this one is behind the end. If nobody appends, the owner itself asks
(`prove.lua`): before the first answer in its term, if an earlier owner has appended, and at a pace while somebody reads
and something is hidden. What this does not do: hide what others write, but behind what is hidden; or hide anything
where an answer promises no more than that Redis has it.
"""

from collections.abc import Callable

from muster_coordinator.ports import Loop, Timer
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.append_ids import NO_APPEND, AppendId
from muster_coordinator.redis_streams.owned import Seen, hidden_from

Asked = Callable[[AppendId | None], None]
"""Told the last append that a proof covers; None: there is no proof."""


class Proofs:
    """Of one partition. `ask(done)` asks Redis; `appending()` tells whether an append is under way, the end of which is
    told (`ended`); `watched()` whether somebody hears of news, which `moved()` tells."""

    def __init__(
        self,
        loop: Loop,
        ask: Callable[[Asked], None],
        appending: Callable[[], bool],
        watched: Callable[[], bool],
        moved: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._ask = ask
        self._appending = appending
        self._watched = watched
        self._moved = moved
        self.proved = NO_APPEND
        """This append, and all before it."""
        self._end = 0
        """The greatest high watermark that was told: it never moves back here."""
        self._hidden = False
        """The last reader was not told all."""
        self._news = False
        """There is something new, of which nobody was told."""
        self._read = False
        """Somebody has read what is not whole since it was asked for last."""
        self._asking = False
        self._first: list[Callable[[], None]] = []
        """Readers whose answer comes behind the first proof of this term."""
        self._term = -1
        """In which it was asked for."""
        self._timer: Timer | None = None
        self._pause_ms = limits.PROOF_RETRY_MS

    def judge(self, found: Seen, term: int, done: Callable[[Seen], None]) -> None:
        """`done` gets what of it may be shown, at once but for the first in a term."""
        earlier = self.proved < found.appended and found.appended.epoch < term
        if earlier and (self._first or self._term < term):
            self._term = term
            self._first.append(lambda: done(self._shown(found)))
            self._prove()
        else:
            done(self._shown(found))

    def _shown(self, found: Seen) -> Seen:
        if self.proved < found.appended:
            found = hidden_from(found, max(self._end, found.proved_end))
        self._end = max(self._end, found.end)
        if not found.whole:
            self._hidden = self._read = True
            self._later()
        return found

    def hidden_from(self) -> int | None:
        """The offset from which on nothing is shown, as far as is known: Redis need not be asked for it."""
        return self._end if self._hidden else None

    def holds_news(self) -> bool:
        """An entry has come. Is it better told when the append that is under way has ended? It is most likely of that,
        and hidden until then."""
        self._news = self._appending()
        if self._news:
            self._later()
        return self._news

    def ended(self, proof: AppendId | None) -> None:
        """A call of Redis has, that would have been a proof."""
        news, self._news = self._news, False
        if proof is not None:
            self.proved = max(self.proved, proof)
            news, self._hidden = news or self._hidden, False
            self._rest()
        elif self._hidden:
            self._later()
        if news:
            self._moved()

    def _later(self) -> None:
        if self._timer is None and not self._asking:
            self._timer = self._loop.call_at(self._loop.monotonic_ms() + self._pause_ms, self._look)
            self._pause_ms = min(2 * self._pause_ms, limits.PROOF_RETRY_MS_MAX)

    def _rest(self) -> None:
        self._pause_ms = limits.PROOF_RETRY_MS
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """At what no append that is under way has ended, or none was."""
        self._timer = None
        if self._appending():
            if self._hidden or self._news:
                self._later()
        elif self._news:
            self._news = False
            self._moved()
        elif self._hidden and (self._read or self._watched()):
            self._prove()

    def _prove(self) -> None:
        if not self._asking:
            self._asking, self._read = True, False
            self._ask(self._asked)

    def _asked(self, proof: AppendId | None) -> None:
        self._asking = False
        self.ended(proof)
        first, self._first = self._first, []
        for call in first:
            call()
