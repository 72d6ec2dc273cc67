"""What the deletion of a topic permits, and nothing more: from the history, the images and the logs at the end.

A request by name meant the topics that the image of the replica that answered had meanwhile; where that was one, it is
known which. What was promised in a topic holds as long as the topic is there, and is never seen in another one of its
name: its records (D3, D5, R4, T1), and the offsets that were committed for it, each key of each topic a register
(O1-O5, O14). A topic that is there is not called unknown (T2), and of one that is not there nothing is left (T3).
"""

from collections import defaultdict

from muster_coordinator.records.batch import iter_records, parse_header

from tests.records.made import split_batches
from tests.sim import frames, topic_frames
from tests.sim.check_offsets import DEFINITE
from tests.sim.churn import CHURN, CHURN_GROUP, OUT_OF_RANGE, UNKNOWN, Get, Put, takes_away
from tests.sim.history import History, Op, Violation
from tests.sim.incarnations import Incarnations
from tests.sim.registers import NEVER_US, Read, Write, violation

NOT_STORED = frozenset({3, 5, 6, 19})
Place = tuple[bytes, int, int]
"""(topic id, partition, offset)"""


class ChurnCheck:
    """`history_only` first, then `final` for what the topic that is left holds."""

    def __init__(self, history: History, incarnations: Incarnations) -> None:
        self.found: list[Violation] = []
        self._history = history
        self._incarnations = incarnations
        self._puts: dict[bytes, Op] = {}
        self._stored: dict[Place, bytes] = {}
        """What is known to be, or to have been, there."""
        self._home: dict[bytes, bytes] = {}
        """Value -> id of the topic that it was acknowledged in."""
        self._retained = {topic_id for op in history.ops if takes_away(op) for topic_id in self._later(op)}

    def _say(self, invariant: str, text: str) -> None:
        self.found.append(Violation(invariant, text))

    def _later(self, op: Op) -> list[bytes]:
        """Topics that an alteration may have hit."""
        gone_us = self._incarnations.gone_us
        return [t for t in self._incarnations.born_us if gone_us.get(t, NEVER_US) > op.sent_us]

    def _ids(self, op: Op) -> set[bytes]:
        """Topics that a request may have meant, if it found any."""
        if op.answered_us is None:
            return set(self._incarnations.born_us)
        during = self._incarnations.during(op.broker, op.sent_us, op.answered_us)
        return {topic_id for topic_id in during if topic_id is not None}

    def _may_find_none(self, op: Op) -> bool:
        """Where the image has no such topic, or still has one that was deleted: its offsets' tombstones are in another
        log than its deletion, so after a power loss they may be there before the image is."""
        assert op.answered_us is not None
        if None in self._incarnations.during(op.broker, op.sent_us, op.answered_us):
            return True
        gone_us = self._incarnations.gone_us
        return any(gone_us.get(topic_id, NEVER_US) <= op.answered_us for topic_id in self._ids(op))

    # -- the history ---------------------------------------------------------------------------------------------------

    def history_only(self) -> None:
        for op in self._history.of(topic_frames.PRODUCE):
            if isinstance(op.ask, Put):
                self._put(op, op.ask)
        for op in self._history.of(frames.FETCH_LOG):
            if isinstance(op.ask, Get) and op.answer is not None:
                self._got(op, op.ask)
        for op in self._history.of(topic_frames.METADATA):
            if op.ask == CHURN and op.answer is not None:
                self._is_known(op, op.answer[0])
        self._offsets()

    def _is_known(self, op: Op, code: int) -> None:
        if code == UNKNOWN and self._incarnations.existed(op.sent_us, op.answered_us or NEVER_US):
            self._say("T2", f"{op.client}: {op.broker} calls a topic unknown that is there")

    def _put(self, op: Op, ask: Put) -> None:
        self._puts[ask.value] = op
        if op.answer is None:
            return
        code, offset = op.answer
        if ask.partition == 0:
            self._is_known(op, code)
        if code != 0:
            return
        ids = self._ids(op)
        if not ids:
            self._say("D5", f"{ask.value[:40]!r} was acknowledged by {op.broker}, which knows no such topic")
        elif len(ids) == 1:
            topic_id = next(iter(ids))
            self._home[ask.value] = topic_id
            self._holds((topic_id, ask.partition, offset), ask.value, "an acknowledgement")

    def _holds(self, place: Place, value: bytes, who: str) -> None:
        known = self._stored.setdefault(place, value)
        if known != value:
            self._say("R4", f"{_text(place)} holds {known[:40]!r}, by {who} {value[:40]!r}")

    def _belongs(self, topic_id: bytes, value: bytes, who: str) -> None:
        """May this value be in this topic?"""
        put = self._puts.get(value)
        if put is None:
            self._say("R4", f"{who} has {value[:40]!r}, which nobody produced")
            return
        home = self._home.get(value, topic_id)
        if home != topic_id:
            self._say("D5", f"{who} has {value[:40]!r} of {home.hex()[:8]} in {topic_id.hex()[:8]}")
        if put.answer is not None and put.answer[0] in NOT_STORED:
            self._say("D6", f"{who} has {value[:40]!r}, which was answered {put.answer[0]}")

    def _got(self, op: Op, ask: Get) -> None:
        part: topic_frames.LogPart = op.answer
        if ask.partition == 0:
            self._is_known(op, part.error)
        ids = self._ids(op)
        if len(ids) != 1:
            return
        topic_id = next(iter(ids))
        if part.error == OUT_OF_RANGE and topic_id not in self._retained:
            self._is_out_of_range(op, ask, topic_id)
        elif part.error == 0:
            for batch in split_batches(part.records, allow_partial=True):
                for record in iter_records(batch):
                    if record.offset >= ask.offset or parse_header(batch).base_offset <= ask.offset:
                        assert record.value is not None
                        self._belongs(topic_id, record.value, op.client)
                        self._holds((topic_id, ask.partition, record.offset), record.value, op.client)

    def _is_out_of_range(self, op: Op, ask: Get, topic_id: bytes) -> None:
        below = ask.offset - 1
        value = self._stored.get((topic_id, ask.partition, below)) if ask.offset else b""
        put = None if value is None else self._puts.get(value)
        if ask.offset == 0 or (put is not None and put.answered_us is not None and put.answered_us < op.sent_us):
            self._say(
                "T1", f"{op.client}: {_text((topic_id, ask.partition, ask.offset))} is out of range at {op.broker}"
            )

    def _offsets(self) -> None:
        """Each (topic id, partition) is a register of its own."""
        writes: dict[tuple[bytes, int], list[Write]] = defaultdict(list)
        reads: dict[tuple[bytes, int], list[Read]] = defaultdict(list)
        made: dict[str, set[bytes]] = {}
        for op in self._history.of(frames.COMMIT):
            if op.group == CHURN_GROUP:
                ids = self._ids(op)
                for _, partition, _, _, text in op.ask.rows:
                    code = None if op.answer is None else op.answer[CHURN, partition]
                    if partition == 0 and code is not None:
                        self._is_known(op, code)
                    made[text] = set() if code in DEFINITE else ids
                    for topic_id in made[text]:
                        sure = code == 0 and len(ids) == 1 and op.answered_us is not None
                        end_us = op.answered_us if sure else NEVER_US
                        assert end_us is not None
                        writes[topic_id, partition].append(Write(text, op.sent_us, end_us))
        for op in self._history.of(frames.FETCH):
            if op.group == CHURN_GROUP and op.answer is not None and op.answer.error == 0:
                assert op.answered_us is not None
                ids = self._ids(op)
                for (_, partition), got in op.answer.offsets.items():
                    if got.offset != -1 and not made.get(got.metadata, set()) & ids:
                        self._say("O14", f"{op.client} at {op.broker} read {got}, committed for another topic")
                    elif len(ids) == 1 and got.error == 0 and not (got.offset == -1 and self._may_find_none(op)):
                        value = None if got.offset == -1 else got.metadata
                        reads[next(iter(ids)), partition].append(Read(value, op.sent_us, op.answered_us))
        for key in sorted(writes.keys() | reads.keys()):
            why = violation(writes[key], reads[key])
            if why is not None:
                name = "O4" if why.startswith("None") or "while None" in why else "O1/O5"
                self._say(name, f"{key[0].hex()[:8]} {key[1]}: {why}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def final(self, topic_id: bytes, partition: int, log_start: int, batches: list[bytes]) -> None:
        """A partition of the topic that is there at the end."""
        there: dict[int, bytes] = {}
        for batch in batches:
            for record in iter_records(batch):
                assert record.value is not None
                there[record.offset] = record.value
                self._belongs(topic_id, record.value, "the log")
        if len(set(there.values())) < len(there):
            self._say("D1", f"a record stands twice in {topic_id.hex()[:8]} {partition}")
        if log_start and topic_id not in self._retained:
            self._say("D3", f"{topic_id.hex()[:8]} {partition} begins at {log_start}, and nobody asked for that")
        for place, value in self._stored.items():
            if place[:2] == (topic_id, partition) and place[2] >= log_start and there.get(place[2]) != value:
                self._say(
                    "D3", f"{_text(place)} held {value[:40]!r}, and holds {there.get(place[2], b'nothing')[:40]!r}"
                )


def _text(place: Place) -> str:
    return f"{place[0].hex()[:8]} {place[1]} at {place[2]}"
