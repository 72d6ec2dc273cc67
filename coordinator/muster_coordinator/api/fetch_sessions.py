"""Fetch sessions (KIP-227): a client names its partitions once, then only what changed, and is told only what changed.

Problem: a consumer of hundreds of partitions would send and get all of them with each poll. Mechanism: a session holds
what the client last asked of each partition and what it was last told. A request adds, replaces and forgets partitions;
the answer leaves out those with nothing new. Partitions whose records were answered go to the back, so that a limit of
bytes does not starve those behind them. Kafka's slots and its rule of who gives way: a session that was not used for
two minutes, else the smallest one of that age, if the new one is not smaller.

A session is a cache: whoever loses one is told so (70) and names its partitions again. So all limits take sessions
away, and none refuses a Fetch. What it does not do: decide who may read what, which every pass over the partitions does
anew. It is of one principal, so that nobody reads through or closes another's by guessing its number.
"""

from collections import OrderedDict
from typing import NamedTuple, Protocol

from muster_coordinator.api import limits
from muster_coordinator.api.fetch_pass import Wanted
from muster_coordinator.errors import Code
from muster_coordinator.ports import Rand
from muster_coordinator.wire.schema import Value

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_NO_SESSION = 0
_EPOCH_MAX = _ID_MAX = 2**31 - 1
_BY_ID_SINCE = 13
Key = tuple[str | bytes, int]
Entry = dict[str, Value]
Told = list[tuple[Wanted, Entry]]
"""Partitions of an answer, in its order."""


class Concluded(NamedTuple):
    """What is answered: a code of the whole answer, the session's id, and the partitions that are told of."""

    code: Code
    session_id: int
    told: Told


class FetchSessionStats(NamedTuple):
    """Sessions and their partitions now, and how many sessions gave way since the start."""

    sessions: int
    partitions: int
    evictions: int


class FetchContext(Protocol):
    """What one request is within its session."""

    def conclude(self, told: Told, now_ms: int) -> Concluded: ...


class Sessionless:
    """A request that wants no session, or whose session has just ended: everything is told."""

    def conclude(self, told: Told, now_ms: int) -> Concluded:
        del now_ms
        return Concluded(Code.NONE, _NO_SESSION, told)


class _Cached:
    """One partition of a session."""

    __slots__ = ("high_watermark", "log_start", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start = -1

    def note(self, entry: Entry) -> bool:
        """Take over what is answered; whether it has to be told."""
        moved = (self.high_watermark, self.log_start) != (entry["high_watermark"], entry["log_start_offset"])
        self.high_watermark, self.log_start = entry["high_watermark"], entry["log_start_offset"]
        return bool(
            moved
            or entry["records"]
            or entry["error_code"]
            or entry["preferred_read_replica"] != -1
            or "diverging_epoch" in entry
        )


class Session:
    """See the module."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "partitions", "principal", "used_ms")

    def __init__(self, number: int, principal: str, *, by_id: bool, now_ms: int) -> None:
        self.id = number
        self.principal = principal
        self.by_id = by_id
        """Topics are named by id (v13+)."""
        self.epoch = 1
        """Of the request that comes next."""
        self.created_ms = self.used_ms = now_ms
        self.partitions: OrderedDict[Key, _Cached] = OrderedDict()


class FetchSessions:
    """All sessions of this replica. `slots`: as many as there may be, 0 for none."""

    def __init__(self, rand: Rand, slots: int) -> None:
        self._rand = rand
        self._slots = slots
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        """In the order in which they were used last."""
        self.partitions = 0
        """Of all sessions."""
        self.evictions = 0
        """Sessions that gave way to others since the start."""

    def __len__(self) -> int:
        return len(self._sessions)

    def stats(self) -> FetchSessionStats:
        return FetchSessionStats(len(self._sessions), self.partitions, self.evictions)

    def begin(
        self, principal: str, request: Value, version: int, named: list[Wanted], now_ms: int
    ) -> tuple[FetchContext, list[Wanted]] | Code:
        """What the request is, and all partitions that it reads; or the code that refuses it."""
        session = self._sessions.get(request.session_id)
        if session is not None and session.principal != principal:
            session = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._remove(session)
            if request.session_epoch == FINAL_EPOCH or not named or len(named) > limits.FETCH_SESSION_PARTITIONS_MAX:
                return Sessionless(), named
            return _Full(self, principal, by_id=version >= _BY_ID_SINCE), named
        if session is None:
            return Code.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return Code.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (version >= _BY_ID_SINCE):
            return Code.FETCH_SESSION_TOPIC_ID_ERROR
        return self._go_on(session, request, named, now_ms)

    def _go_on(
        self, session: Session, request: Value, named: list[Wanted], now_ms: int
    ) -> tuple[FetchContext, list[Wanted]] | Code:
        before = len(session.partitions)
        for one in named:
            key = (one.key, one.asked.partition)
            cached = session.partitions.get(key)
            if cached is None:
                session.partitions[key] = _Cached(one)
            else:
                cached.wanted = one
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if session.by_id else topic.topic
            for partition in topic.partitions:
                session.partitions.pop((name, partition), None)
        self.partitions += len(session.partitions) - before
        if not session.partitions:
            self._remove(session)
            return Sessionless(), named
        if len(session.partitions) > limits.FETCH_SESSION_PARTITIONS_MAX or self._crowded():
            self._remove(session)
            self.evictions += 1
            return Code.FETCH_SESSION_ID_NOT_FOUND
        session.used_ms = now_ms
        self._sessions.move_to_end(session.id)
        session.epoch = _next(session.epoch)
        return _Incremental(session, session.epoch), [cached.wanted for cached in session.partitions.values()]

    def make(self, principal: str, *, by_id: bool, told: Told, now_ms: int) -> int:
        """The id of a new session with these partitions; 0 if there is no room for it."""
        crowded = self.partitions + len(told) > limits.FETCH_SESSIONS_PARTITIONS_MAX
        if (len(self._sessions) >= self._slots or crowded) and not self._evict(len(told), now_ms):
            return _NO_SESSION
        if self.partitions + len(told) > limits.FETCH_SESSIONS_PARTITIONS_MAX:
            return _NO_SESSION
        number = self._rand.randrange(1, _ID_MAX)
        while number in self._sessions:
            number = self._rand.randrange(1, _ID_MAX)
        session = Session(number, principal, by_id=by_id, now_ms=now_ms)
        for wanted, entry in told:
            cached = session.partitions[wanted.key, wanted.asked.partition] = _Cached(wanted)
            cached.note(entry)
        self.partitions += len(session.partitions)
        self._sessions[number] = session
        return number

    def _crowded(self) -> bool:
        return self.partitions > limits.FETCH_SESSIONS_PARTITIONS_MAX

    def _evict(self, size: int, now_ms: int) -> bool:
        """Whether a session gave way to a new one of this size."""
        if not self._sessions:
            return False
        leaves = next(iter(self._sessions.values()))
        if now_ms - leaves.used_ms <= limits.FETCH_SESSION_IDLE_MS:
            old = [one for one in self._sessions.values() if now_ms - one.created_ms > limits.FETCH_SESSION_IDLE_MS]
            if not old:
                return False
            leaves = min(old, key=lambda one: (len(one.partitions), one.id))
            if size < len(leaves.partitions):
                return False
        self._remove(leaves)
        self.evictions += 1
        return True

    def _remove(self, session: Session) -> None:
        del self._sessions[session.id]
        self.partitions -= len(session.partitions)


class _Full:
    """The first request of a session: everything is told, and the session is made of it."""

    def __init__(self, sessions: FetchSessions, principal: str, *, by_id: bool) -> None:
        self._sessions = sessions
        self._principal = principal
        self._by_id = by_id

    def conclude(self, told: Told, now_ms: int) -> Concluded:
        number = self._sessions.make(self._principal, by_id=self._by_id, told=told, now_ms=now_ms)
        return Concluded(Code.NONE, number, told)


class _Incremental:
    """A further request; `next_epoch` is the session's after it."""

    def __init__(self, session: Session, next_epoch: int) -> None:
        self._session = session
        self._next_epoch = next_epoch

    def conclude(self, told: Told, now_ms: int) -> Concluded:
        """71 if another request of the session came before this was answered: it took over what was told."""
        del now_ms
        session = self._session
        if session.epoch != self._next_epoch:
            return Concluded(Code.INVALID_FETCH_SESSION_EPOCH, session.id, [])
        news: Told = []
        for wanted, entry in told:
            key = (wanted.key, wanted.asked.partition)
            cached = session.partitions.get(key)
            if cached is None or cached.note(entry):
                news.append((wanted, entry))
                if entry["records"] and cached is not None:
                    session.partitions.move_to_end(key)
        return Concluded(Code.NONE, session.id, news)


def _next(epoch: int) -> int:
    """After the largest comes 1: 0 would begin a new session."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1
