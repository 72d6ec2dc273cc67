"""A topic's partition in a Redis Stream, as `api` sees it (`surface.LocalLog`).

Problem: the records are in a store behind a socket, which may be away, lose its memory, or be written by others, while
clients are owed the answers of a log. Mechanism: a Raft group without records owns the partition: its leader claims the
stream for the topic's incarnation (the group's number) and its own term, and each script checks both, so a deposed
owner and an earlier topic of this name are refused by Redis itself. What a claimed stream does not have does not exist,
so an offset is out of range only by an answer of Redis; a Redis that does not answer is KAFKA_STORAGE_ERROR. What was
appended is shown when it is as durable as `redis.durability` says (`redis_proofs`). Batches carry no leader epoch: what
was read is not cut off then, but for what others write, which is shown at once. What this does not do: transactions,
compaction, or count lag.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from typing_extensions import override

from muster_coordinator.errors import Code
from muster_coordinator.ports import Loop, Notice
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.append_ids import ALL_APPENDS, NO_APPEND, AppendId, parse_append
from muster_coordinator.redis_streams.append_script import Appended, AppendRefused, arguments, outcome
from muster_coordinator.redis_streams.batches import batches
from muster_coordinator.redis_streams.entries import NO_ENTRIES, ids_of, records_of
from muster_coordinator.redis_streams.entry_ids import OFFSET_MAX
from muster_coordinator.redis_streams.errors import EntryBeyondOffsets, NotAppendable
from muster_coordinator.redis_streams.owned import (
    LAST,
    NEWEST,
    ZERO,
    Claim,
    Seen,
    before,
    from_offset,
    from_time,
    kept,
    last_before,
    read_arguments,
    seen,
    shown,
)
from muster_coordinator.redis_streams.produced import Produced, produced
from muster_coordinator.redis_streams.server import (
    APPEND,
    CLAIM,
    EXPIRE,
    FORGET,
    PROVE,
    READ,
    TRIM,
    Answer,
    Failure,
    StreamServer,
    Trouble,
)
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.partitions.redis_appends import Appends, Outcome
from muster_coordinator.replica.partitions.redis_proofs import Asked, Proofs
from muster_coordinator.replica.partitions.stream_place import StreamPlace
from muster_coordinator.replica.partitions.surface import EpochEnd, OffsetResult, ReadResult
from muster_coordinator.replica.partitions.topic_logs import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    Damaged,
    LogView,
)
from muster_coordinator.replica.partitions.topic_logs import (
    Produced as Told,
)
from muster_coordinator.topics import machine as topics
from muster_coordinator.topics.limits import PRODUCER_ID_EXPIRATION_MS
from muster_coordinator.topics.settings import topic_settings
from muster_coordinator.topics.stores import REDIS, Capability, TopicStore
from muster_coordinator.topics.validation import validate

NO_EPOCH = -1
BATCH_OVERHEAD = 61
CANNOT_READ = "a partition in Redis cannot be read"
NOT_OURS = "a stream in Redis is not this cluster's"
NOT_RETAINED = "Redis does not cut a stream to its retention"
NOT_FORGOTTEN = "a key of a deleted topic is still in Redis: remove it by hand"


class RedisLog(LogView):
    """See the module. `server` None: this replica's configuration names no Redis."""

    store: TopicStore = REDIS
    reads_at_once: bool = REDIS.can(Capability.READS_AT_ONCE)

    def __init__(
        self,
        loop: Loop,
        raft: RaftGroup,
        state: PartitionState,
        damaged: Damaged,
        cluster: str,
        place: StreamPlace,
        server: StreamServer,
        configs: Callable[[], Mapping[str, str]],
        notice: Notice,
    ) -> None:
        super().__init__(loop, raft, state, damaged)
        self.configs = configs
        self._keys = place.keys
        self._stream = place.stream
        self._cluster = cluster
        self._place = place
        self._server = server
        self._notice = notice
        self._offsets = place.offsets
        self._appends = Appends(loop, self._append, self._claim, self._owns)
        self._proofs = Proofs(loop, self._prove, self._appends.under_way, lambda: bool(self._watchers), self._moved)
        self._claiming: list[Callable[[Code], None]] = []
        self._last = ZERO
        """The last id ever, as of the last answer that told it."""
        self._log_start = 0
        self._watchers: dict[object, Callable[[], None]] = {}
        self._no_news: Callable[[], None] | None = None
        """Ends the wish to hear of the next entry."""

    @override
    def bounds(self) -> tuple[int, int] | None:
        return None

    def _owns(self, term: int) -> bool:
        return self.raft.leads and self.raft.core.term == term and not self.state.closed

    # -- the stream's owner ----------------------------------------------------------------------------------------

    def _claim(self, done: Callable[[Code], None]) -> None:
        """Claim the stream; those who ask meanwhile get the same answer."""
        self._claiming.append(done)
        if len(self._claiming) == 1:
            claim = Claim(self._cluster, self.group, self.raft.core.term, self._place.keep)
            self._server.run(CLAIM, self._keys, claim.arguments(), self._claimed)

    def _claimed(self, answer: Answer) -> None:
        code = Code.NONE
        if isinstance(answer, Failure):
            code = Code.KAFKA_STORAGE_ERROR
        elif answer[0] == b"FENCED":
            code = Code.NOT_LEADER_OR_FOLLOWER
        elif answer[0] != b"OK":
            code = Code.KAFKA_STORAGE_ERROR
            self._notice(NOT_OURS, {"stream": self._stream, "is": _text(answer[0]), "of": _text(answer[1])}, None)
        claiming, self._claiming = self._claiming, []
        for done in claiming:
            done(code)

    def _ask(
        self, begin: bytes, entries_max: int, bytes_max: int, done: Callable[[Seen | Code], None], end: bytes = NEWEST
    ) -> None:
        """Read, and claim the stream before if it is not."""

        def read(again: bool) -> None:
            asked = read_arguments(self.group, begin, entries_max, bytes_max, self._proved(), end)
            self._server.run(READ, self._keys, asked, partial(answered, again))

        def answered(again: bool, answer: Answer) -> None:
            if isinstance(answer, Failure):
                if answer.trouble is Trouble.REFUSED:
                    self._notice(CANNOT_READ, {"stream": self._stream, "why": answer.message}, None)
                done(Code.KAFKA_STORAGE_ERROR)
            elif answer[0] == b"UNCLAIMED" and not again:
                self._claim(lambda code: read(True) if code is Code.NONE else done(code))
            elif answer[0] == b"FENCED":
                done(Code.NOT_LEADER_OR_FOLLOWER)
            elif answer[0] != b"OK":
                self._notice(CANNOT_READ, {"stream": self._stream, "why": _text(answer[0])}, None)
                done(Code.KAFKA_STORAGE_ERROR)
            else:
                self._saw(answer, done)

        read(False)

    def _saw(self, answer: Sequence[object], done: Callable[[Seen | Code], None]) -> None:
        try:
            found = seen(answer, self._offsets, self._stream)
        except EntryBeyondOffsets as error:
            self._notice(CANNOT_READ, {"stream": self._stream, "why": str(error)}, None)
            done(Code.KAFKA_STORAGE_ERROR)
            return
        self._last, self._log_start = found.last, found.log_start
        if self._server.proves():
            self._proofs.judge(found, self.raft.core.term, lambda judged: self._judged(judged, done))
        else:
            self._judged(found, done)

    def _judged(self, found: Seen, done: Callable[[Seen | Code], None]) -> None:
        if found.whole:
            self._listen()  # else there is news already, which is told when it may be shown
        done(found)

    def _proved(self) -> AppendId:
        """Where nothing is ever proved, all that is there counts as if it were."""
        return self._proofs.proved if self._server.proves() else ALL_APPENDS

    def _prove(self, done: Asked) -> None:
        # Of a server that is not fit, or not looked at yet, an answer proves nothing.
        if not self._owns(self.raft.core.term) or self._server.unfit():
            done(None)
            return

        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure) or answer[0] != b"OK":
                done(None)
            else:
                done(parse_append(answer[1])[0] if answer[1] else NO_APPEND)

        asked = [b"%d" % self.group, b"%d" % self.raft.core.term]
        self._server.run(PROVE, self._keys, asked, answered, durable=True)

    # -- reading ---------------------------------------------------------------------------------------------------

    @override
    def read(self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False) -> ReadResult:
        raise AssertionError("this store is not read at once")

    @override
    def read_following(
        self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False
    ) -> ReadResult:
        raise AssertionError("this store is not read at once")

    @override
    def read_later(self, offset: int, max_bytes: int, *, committed: bool, done: Callable[[ReadResult], None]) -> None:
        if not 0 <= offset <= OFFSET_MAX:
            done(ReadResult(Code.OFFSET_OUT_OF_RANGE))
            return

        most = max(1, min(max_bytes, limits.READ_BYTES_MAX) - BATCH_OVERHEAD)

        def ask(end: int | None) -> None:
            upto = NEWEST if end is None else before(end, self._offsets)
            begin = from_offset(offset, self._offsets)
            self._ask(begin, limits.READ_ENTRIES_MAX, most, partial(read, end), upto)

        def read(asked: int | None, found: Seen | Code) -> None:
            if isinstance(found, Code):
                done(ReadResult(found))
            elif not found.log_start <= offset <= found.log_end:
                done(ReadResult(Code.OFFSET_OUT_OF_RANGE))
            elif asked is not None and asked < found.end and not found.entries:
                ask(None)  # what was hidden is proved meanwhile
            else:
                # Between the high watermark and the log's end there is nothing yet, as in Kafka.
                done(self._result(found))

        ask(self._proofs.hidden_from())

    def _result(self, found: Seen) -> ReadResult:
        """Up to an entry without an offset, which is told when it is the first."""
        records: list[bytes] = []
        whole = ReadResult(Code.NONE, b"", found.end, found.end, found.log_start)
        try:
            read = records_of(shown(found, self._offsets), self._offsets, self._stream, self._place.value_field)
            for one in batches(read, NO_EPOCH):
                records.append(one)
        except EntryBeyondOffsets as error:
            at = next(at for at, entry in ids_of(found.entries) if not self._offsets.has(entry))
            self._notice(CANNOT_READ, {"stream": self._stream, "why": str(error)}, None)
            if at == 0:
                return ReadResult(Code.KAFKA_STORAGE_ERROR)
            return self._result(found._replace(entries=found.entries[:at]))
        except NO_ENTRIES as error:
            self._notice(CANNOT_READ, {"stream": self._stream, "why": f"no answer of a script of ours: {error}"}, None)
            return ReadResult(Code.KAFKA_STORAGE_ERROR)
        data = b"".join(records)
        self.read_bytes += len(data)
        return whole._replace(records=data)

    @override
    def list_offset(self, timestamp_ms: int, *, committed: bool = False, done: Callable[[OffsetResult], None]) -> None:
        def listed(found: Seen | Code) -> None:
            if isinstance(found, Code):
                done(OffsetResult(found))
            elif timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
                done(OffsetResult(Code.NONE, found.log_start))
            elif timestamp_ms == LATEST:
                done(OffsetResult(Code.NONE, found.end))
            else:
                done(self._first_of(found))

        def last(found: Seen | Code) -> None:
            if isinstance(found, Code) or found.whole:
                listed(found)
            else:
                self._ask(last_before(found.end, self._offsets), 1, 1, listed)

        if not self.raft.leads:
            done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
        elif timestamp_ms >= 0:
            if timestamp_ms > self._offsets.milliseconds_max:
                done(OffsetResult(Code.NONE))
            else:
                self._ask(from_time(timestamp_ms), 1, 1, listed)
        elif timestamp_ms == MAX_TIMESTAMP:
            self._ask(LAST, 1, 1, last)
        else:
            self._ask(b"-", 0, 1, listed)

    def _first_of(self, found: Seen) -> OffsetResult:
        """The time of an entry is that of its id: Redis' own, by which a look-up goes."""
        try:
            entries = shown(found, self._offsets)
            if not entries:
                return OffsetResult(Code.NONE)
            _, entry = next(ids_of(entries))
            offset = self._offsets.offset_of(entry, self._stream)
        except (EntryBeyondOffsets, *NO_ENTRIES) as error:
            self._notice(CANNOT_READ, {"stream": self._stream, "why": str(error)}, None)
            return OffsetResult(Code.KAFKA_STORAGE_ERROR)
        return OffsetResult(Code.NONE, max(offset, found.log_start), entry.milliseconds)

    @override
    def epoch_end(self, epoch: int) -> EpochEnd:
        """No epoch is kept, and no reader is told one."""
        return EpochEnd(Code.NONE)

    @override
    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = notify
        moved = self.state.watch(notify)

        def end() -> None:
            moved()
            self._watchers.pop(key, None)
            if not self._watchers:
                self._listen_no_more()

        return end

    def _listen(self) -> None:
        """After a read: hear of the first entry behind what it told."""
        if self._watchers and self._no_news is None:
            self._no_news = self._server.news(self._stream, self._last, self._came)

    def _listen_no_more(self) -> None:
        if self._no_news is not None:
            self._no_news()
            self._no_news = None

    def _came(self) -> None:
        """An entry is there."""
        self._no_news = None
        if not self._server.proves() or not self._proofs.holds_news():
            self._moved()

    def _moved(self) -> None:
        """The next read, which this brings about, listens again."""
        self._listen_no_more()
        for notify in list(self._watchers.values()):
            notify()

    # -- writing ---------------------------------------------------------------------------------------------------

    @override
    def when_room(self, size_bytes: int, deadline_ms: int, go: Callable[[bool], None]) -> None:
        go(self._appends.has_room())

    @override
    def produce(
        self,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        deadline_ms: int,
        done: Told,
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        group = self.raft
        if not group.serves or group.transferring:
            done(topics.ProduceResult(Code.NOT_LEADER_OR_FOLLOWER))
            return False
        settings = topic_settings({**self.configs(), **configs})
        checked = validate(self._loop.wall_ms(), batch, settings)
        if isinstance(checked, topics.Refused):
            done(topics.refusal(checked, self._log_start))
            return False
        if behind is not None:
            # An earlier batch of this producer has to come again first.
            why = f"producer {checked.header.producer_id}: sequence {checked.header.base_sequence} is not the next"
            done(topics.ProduceResult(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, message=why))
            return False
        unfit = self._server.unfit()
        if unfit or not self._appends.has_room():
            done(topics.ProduceResult(Code.NOT_ENOUGH_REPLICAS, message=unfit or "too much is on its way to Redis"))
            return False
        try:
            entries = produced(checked.batch, log_append_time=settings.log_append_time)
        except NotAppendable as error:
            done(topics.ProduceResult(error.code, message=error.message))
            return False

        def told(result: Appended | AppendRefused) -> None:
            if isinstance(result, AppendRefused):
                done(topics.ProduceResult(result.code, message=result.message))
                return
            time_ms = self._offsets.id_of(result.base_offset).milliseconds if settings.log_append_time else -1
            done(topics.ProduceResult(Code.NONE, result.base_offset, time_ms, self._log_start))

        self._appends.add(entries, len(batch), group.core.term, deadline_ms, told)
        return True

    def _append(self, batch: Produced, term: int, number: int, done: Callable[[Outcome], None]) -> None:
        this = AppendId(term, number)

        def answered(answer: Answer) -> None:
            result: Outcome
            if isinstance(answer, Failure):
                result = answer
            else:
                result = None if answer[0] == b"UNCLAIMED" else self._outcome(answer)
            # Before the next append is sent, which tells what was proved.
            self._proofs.ended(this if isinstance(result, Appended) else None)
            done(result)

        asked = arguments(term, self._offsets, batch, incarnation=self.group, number=number, proved=self._proved())
        self._server.run(APPEND, self._keys, asked, answered, durable=True)

    def _outcome(self, answer: Sequence[bytes]) -> Outcome:
        try:
            return outcome(answer, self._offsets, self._stream)
        except EntryBeyondOffsets as error:  # the script gives no such id
            return Failure(Trouble.UNKNOWN, f"no answer of a script of ours: {error}")

    @override
    def delete_records(self, offset: int, *, deadline_ms: int, done: Callable[[OffsetResult], None]) -> None:
        if not self.raft.serves:
            done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
            return
        term = self.raft.core.term

        def looked(found: Seen | Code) -> None:
            if isinstance(found, Code):
                done(OffsetResult(found))
            elif offset > found.end:
                done(OffsetResult(Code.OFFSET_OUT_OF_RANGE))
            else:
                target = found.end if offset < 0 else max(offset, found.log_start)
                self._trim(target, term, done)

        self._ask(b"-", 0, 1, looked)

    def _trim(self, target: int, term: int, done: Callable[[OffsetResult], None]) -> None:
        def answered(answer: Answer) -> None:
            if isinstance(answer, Failure):
                unknown = answer.trouble is Trouble.UNKNOWN
                done(OffsetResult(Code.REQUEST_TIMED_OUT if unknown else Code.KAFKA_STORAGE_ERROR))
            elif answer[0] == b"OK":
                self._log_start = max(self._log_start, target)
                done(OffsetResult(Code.NONE, self._log_start))
            else:
                done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))

        asked = [b"%d" % self.group, b"%d" % term, self._offsets.id_of(target).text.encode(), b"exact"]
        self._server.run(TRIM, self._keys, asked, answered)

    def retain(self) -> None:
        """Drop what is older than `retention.ms`, and the oldest of what is more than `retention.bytes`, in whole nodes
        of the stream; and producers that are silent as long as those of an embedded topic may be. Called on the leader
        every `log.retention.check.interval.ms`; what fails is tried at the next."""
        if not self.raft.serves:
            return
        settings = topic_settings(self.configs())
        owner = [b"%d" % self.group, b"%d" % self.raft.core.term]
        if max(settings.retention_ms, settings.retention_bytes) < 0:
            self._expire(owner)
            return
        oldest_ms = 0 if settings.retention_ms < 0 else max(0, self._loop.wall_ms() - settings.retention_ms)
        least = [b"%d-0" % oldest_ms, b"about", b"%d" % settings.retention_bytes]

        def trimmed(answer: Answer) -> None:
            self._told(answer)
            self._expire(owner)  # one call at a time: there may be thousands of partitions

        self._server.run(TRIM, self._keys, [*owner, *least], trimmed)

    def _expire(self, owner: list[bytes]) -> None:
        looked = [b"%d" % PRODUCER_ID_EXPIRATION_MS, b"%d" % limits.PRODUCERS_LOOKED_AT_MAX]
        self._server.run(EXPIRE, self._keys, [*owner, *looked], self._told)

    def _told(self, answer: Answer) -> None:
        if isinstance(answer, Failure) and answer.trouble is Trouble.REFUSED:
            self._notice(NOT_RETAINED, {"stream": self._stream, "why": answer.message}, None)

    # -- the topic's end -------------------------------------------------------------------------------------------

    def forget(self, tries: int = 1, cursor: bytes = b"0") -> None:
        """The topic is deleted. Each replica that had it asks, and one is enough; a topic of this name that is made
        later removes what was left. What is to be kept stays: only the hash beside it is removed, and the groups of
        Kafka that were shown there, a page of them at a time, from this cursor on."""

        def answered(answer: Answer) -> None:
            if not isinstance(answer, Failure):
                if answer[0] == b"MORE":
                    self.forget(cursor=answer[1])
            elif tries >= limits.FORGETS_MAX:
                left = self._keys[1] if self._place.keep else self._stream
                self._notice(NOT_FORGOTTEN, {"key": left, "why": answer.message}, None)
            else:
                again_ms = self._loop.monotonic_ms() + tries * limits.STREAM_RETRY_MS_MAX
                self._loop.call_at(again_ms, lambda: self.forget(tries + 1, cursor))

        asked = [self._cluster.encode(), b"%d" % self.group, *kept(keep=self._place.keep)]
        asked += [cursor, b"%d" % limits.FORGOTTEN_AT_ONCE] if self._place.keep else []
        self._server.run(FORGET, self._keys, asked, answered)

    @override
    def verify(self, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | topics.Refused | None:
        return topics.Refused(Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, "topics in Redis take no transactions")


def _text(data: object) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else str(data)
