"""What transactions promise, from the logs at the end, what clients did, and what they were told.

The log decides: a record is committed where the next marker of its producer says so. Each transaction has one fate in
all its partitions and in its group's offsets, the one that was asked for and told (E1); its records stand once, in
order, where they were acknowledged (D1-D3); every reader of committed records saw exactly the committed ones (D7); the
last stable offset never goes back (D8); an offset that is committed with a transaction is shown from its marker on, and
never before (E2); after a new producer of an id was acknowledged nothing is acknowledged to the one before (E3);
copiers copied each record once, up to the committed offset (E4).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from muster_coordinator.records.batch import Record, iter_records, parse_header
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.keys import OffsetCommitKey, decode_key
from muster_coordinator.records.offsets_log import decode_offset_value

from tests.sim import frames, topic_frames
from tests.sim import transaction_frames as made
from tests.sim.history import History, Op, Violation
from tests.sim.producers import DATA
from tests.sim.transactors import UNSTABLE, LogAsk, OffsetAsk, Pass, Txn, TxnAsk

Place = tuple[str, int]
Key = tuple[str, str, int]
"""(group, topic, partition) of an offset."""


class Ended(NamedTuple):
    """A record of a transaction, and its fate; None: it has none yet."""

    record: Record
    committed: bool | None


def ended(batches: Iterable[bytes]) -> list[Ended]:
    """All transactional records of a log, in the order in which they were decided."""
    found: list[Ended] = []
    opened: dict[int, list[Record]] = defaultdict(list)
    for batch in batches:
        header = parse_header(batch)
        if not header.is_transactional:
            continue
        if not header.is_control:
            opened[header.producer_id] += iter_records(batch)
            continue
        marker = decode_control(next(iter_records(batch)))
        if marker is not None:
            found += [Ended(record, marker.commit) for record in opened.pop(header.producer_id, [])]
    found += [Ended(record, None) for records in opened.values() for record in records]
    return found


class TransactionsCheck:
    """`log` for each partition that transactions write to, `offsets` for each of the offsets topic, then `finish`."""

    def __init__(self, history: History, txns: Sequence[Txn]) -> None:
        self.found: list[Violation] = []
        self._history = history
        self._txns = {txn.name: txn for txn in txns}
        self._order = {txn.name: number for number, txn in enumerate(txns)}
        self._fates: dict[str, set[bool | None]] = defaultdict(set)
        self._copies: dict[int, list[int]] = defaultdict(list)
        """Partition of `DATA` -> offsets of which a copy is committed."""
        self._shown: dict[Key, list[tuple[int, str, str]]] = defaultdict(list)
        """(offset, metadata, transaction), in the order in which they became visible."""
        self._rows = {txn.row[4]: txn for txn in txns if txn.row is not None}

    def _say(self, invariant: str, text: str) -> None:
        self.found.append(Violation(invariant, text))

    # -- logs ------------------------------------------------------------------------------------------------------

    def log(
        self, topic: str, partition: int, batches: Sequence[bytes], passes: Iterable[tuple[str, Pass]] = ()
    ) -> None:
        """One partition's whole log, as it was before any cleaning, and what was read of it (by whom)."""
        standing = {r.offset: r.value for batch in batches for r in _data(batch)}
        committed: dict[int, bytes | None] = {}
        of_txn: dict[str, list[bytes | None]] = defaultdict(list)
        for record, fate in ended(batches):
            name = _txn_of(record.value)
            self._fates[name].add(fate)
            if name not in self._txns:
                self._say("E1", f"{record.value!r} at {record.offset} of {partition}: nobody sent it")
            of_txn[name].append(record.value)
            if fate:
                committed[record.offset] = record.value
                self._copied(record.value)
        for name, values in of_txn.items():
            if name in self._txns:
                self._stands(self._txns[name], (topic, partition), values)
        for txn in self._txns.values():
            for sent in txn.sent:
                here = (sent.topic, sent.partition) == (topic, partition) and sent.base_offset is not None
                if here and tuple(standing.get(sent.base_offset + n) for n in range(len(sent.values))) != sent.values:
                    self._say("D3", f"{txn.name}: {sent} is not where it was acknowledged")
        for reader, (start, records) in passes:
            end = records[-1][0] if records else -1
            expected = [(at, value) for at, value in sorted(committed.items()) if start <= at <= end]
            if records != expected:
                at = next((n for n, (a, b) in enumerate(zip(records, expected, strict=False)) if a != b), len(expected))
                self._say(
                    "D7",
                    f"{reader} read {records[at : at + 2]} of {partition} where {expected[at : at + 2]} is committed",
                )

    def _stands(self, txn: Txn, place: Place, values: list[bytes | None]) -> None:
        """Once, in order; all of it if it was acknowledged."""
        sent = [value for one in txn.sent if (one.topic, one.partition) == place for value in one.values]
        if len(set(values)) < len(values):
            self._say("D1", f"{txn.name}: a record stands twice in {place}")
        if values != sent[: len(values)]:
            self._say("D2", f"{txn.name}: {values} stands in {place}, sent was {sent}")

    def _copied(self, value: bytes | None) -> None:
        last = (value or b"").rsplit(b"/", 1)[-1]
        if b":" in last:
            partition, offset = last.split(b":")
            self._copies[int(partition)].append(int(offset))

    def offsets(self, batches: Sequence[bytes]) -> None:
        """One partition of the offsets topic, as it was written: cleaning takes rows that are superseded."""
        for record, fate in ended(batches):
            assert record.key is not None
            key = decode_key(record.key)
            if not isinstance(key, OffsetCommitKey) or record.value is None:
                continue
            stored = decode_offset_value(record.value)
            txn = self._rows.get(stored.metadata)
            if txn is None:
                self._say("E1", f"{key}: {stored.metadata} is in the log, and nobody sent it")
                continue
            self._fates[txn.name].add(fate)
            if fate:
                place = (key.group, key.topic, key.partition)
                self._shown[place].append((stored.offset, stored.metadata, txn.name))

    # -- judging ---------------------------------------------------------------------------------------------------

    def finish(self, data: dict[int, Sequence[int]]) -> list[Violation]:
        """`data`: offsets of the records of each partition of `DATA` that is copied."""
        for txn in self._txns.values():
            self._fate(txn)
        self._offsets_read()
        self._stable_offsets()
        self._fencing()
        for partition, offsets in data.items():
            self._exactly_once(partition, offsets)
        return self.found

    def _fate(self, txn: Txn) -> None:
        fates = self._fates.get(txn.name, set())
        if None in fates:
            self._say("E1", f"{txn.name} was never ended")
        if len(fates) > 1:
            self._say("E1", f"{txn.name} is committed in one place, and not in another")
        if True in fates and (not txn.commits or txn.end_us is None):
            self._say("E1", f"{txn.name} is committed, and nobody asked for that")
        if txn.told and txn.commits and fates != {True}:
            self._say("E1", f"{txn.name} was told to be committed: {fates}")

    def _visible(self, key: Key) -> Iterator[tuple[int, str, str]]:
        """In the order of the markers. Of one producer that is the order of its transactions; rows of one transaction
        are one."""
        yield from self._shown[key]

    def _offsets_read(self) -> None:
        newest: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        """(answered, place in the order) of the reads that were answered"""
        for op in self._answered(made.STABLE_FETCH):
            ask: OffsetAsk = op.ask
            key = (ask.group, ask.topic, ask.partition)
            row = op.answer.offsets.get((ask.topic, ask.partition))
            if op.answer.error or row is None or (row.error == UNSTABLE and ask.stable):
                continue
            if row.error:
                self._say("E2", f"{key}: read {row}")
                continue
            order = [uid for _, uid, _ in self._visible(key)]
            if row.offset == -1:
                at = -1
            elif row.metadata not in order:
                self._say("E2", f"{key}: {row.metadata} was read, whose transaction was not committed")
                continue
            else:
                at = order.index(row.metadata)
                txn = self._rows[row.metadata]
                assert op.answered_us is not None
                if txn.end_us is None or txn.end_us > op.answered_us:
                    self._say("E2", f"{key}: {row.metadata} was read before {txn.name} was to be committed")
            before = max((place for when_us, place in newest[key] if when_us < op.sent_us), default=-1)
            if at < before:
                self._say("E2", f"{key}: {row.metadata} was read after {order[before]}")
            assert op.answered_us is not None
            newest[key].append((op.answered_us, at))

    def _answered(self, *apis: int) -> list[Op]:
        ops = [op for op in self._history.of(*apis) if op.answered_us is not None and op.answer is not None]
        return sorted(ops, key=lambda op: (op.answered_us, op.number))

    def _stable_offsets(self) -> None:
        """Who leads in a term has applied all that the leaders of earlier ones told of."""
        told: dict[Place, list[tuple[int, int, int]]] = defaultdict(list)
        """(answered, term, last stable offset)"""
        for op in self._answered(frames.FETCH_LOG):
            if not isinstance(op.ask, LogAsk) or op.answer.error or op.term < 0:
                continue
            place = (op.ask.topic, op.ask.partition)
            stable = op.answer.stable
            for when_us, term, before in told[place]:
                if when_us < op.sent_us and term <= op.term and before > stable:
                    self._say("D8", f"{place}: stable to {stable} in term {op.term}, after {before} in {term}")
                    break
            assert op.answered_us is not None
            if not told[place] or stable != told[place][-1][2] or op.term != told[place][-1][1]:
                told[place].append((op.answered_us, op.term, stable))
            if not 0 <= stable <= op.answer.high_watermark:
                self._say("D8", f"{place}: stable to {stable}, the log ends at {op.answer.high_watermark}")

    def _fencing(self) -> None:
        inits: dict[str, list[tuple[int, tuple[int, int]]]] = defaultdict(list)
        for op in self._answered(topic_frames.INIT_PRODUCER_ID):
            if isinstance(op.ask, TxnAsk) and op.answer.error == 0:
                assert op.answered_us is not None
                inits[op.ask.seat].append((op.answered_us, (op.answer.producer_id, op.answer.epoch)))
        apis = (topic_frames.PRODUCE, made.ADD_PARTITIONS, made.ADD_OFFSETS, made.TXN_COMMIT, made.END_TXN)
        for op in self._answered(*apis):
            if not isinstance(op.ask, TxnAsk) or _error(op.answer) != 0:
                continue
            asked: TxnAsk = op.ask
            for when_us, producer in inits[asked.seat]:
                newer = producer[0] > asked.producer[0] or (
                    producer[0] == asked.producer[0] and producer[1] > asked.producer[1]
                )
                if newer and when_us < asked.first_us:
                    self._say(
                        "E3", f"{asked.seat}: API {op.api} of {asked.producer} was acknowledged, and {producer} before"
                    )
                    break

    def _exactly_once(self, partition: int, offsets: Sequence[int]) -> None:
        copies = sorted(self._copies[partition])
        committed = [row[0] for key in self._shown if key[1:] == (DATA, partition) for row in self._visible(key)]
        end = committed[-1] if committed else 0
        expected = [offset for offset in offsets if offset < end]
        if copies != expected:
            twice = sorted({offset for offset in copies if copies.count(offset) > 1})
            missing = sorted(set(expected) - set(copies))
            early = sorted(set(copies) - set(expected))
            self._say(
                "E4",
                f"{DATA}/{partition} up to {end}: twice {twice[:5]}, never {missing[:5]}, not committed {early[:5]}",
            )
        if committed != sorted(committed):
            self._say("E4", f"{DATA}/{partition}: the committed offset went back: {committed}")


def _data(batch: bytes) -> Iterable[Record]:
    return () if parse_header(batch).is_control else iter_records(batch)


def _txn_of(value: bytes | None) -> str:
    return (value or b"").rsplit(b"/", 1)[0].decode()


def _error(answer: object) -> int:
    if isinstance(answer, int):
        return answer
    assert isinstance(answer, tuple)
    code = answer[0]
    assert isinstance(code, int)
    return code
