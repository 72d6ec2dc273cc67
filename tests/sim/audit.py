"""The replicated log against the history: what the product did, told by its own records, read by other eyes.

One pass over the records of an offsets partition with a model of a few fields per group. From the log: generations only
grow, a commit stands only where its generation and member were current (decision 8, G7-G9), no attempt is in the log
twice (O7), what was acknowledged is in it (O1), what was refused is not (O3), all rows of one request stand together
(O9), and offsets have no gap.
"""

from collections.abc import Iterable

from muster_coordinator.records.batch import iter_records, parse_header
from muster_coordinator.records.keys import (
    CandidateGenerationKey,
    GroupMetadataKey,
    GroupRebalanceKey,
    OffsetCommitKey,
    decode_key,
)
from muster_coordinator.records.offsets_log import decode_group_value, decode_offset_value
from muster_coordinator.records.own import decode_candidate, decode_rebalance

from tests.sim import frames
from tests.sim.check_offsets import DEFINITE
from tests.sim.history import CommitAsk, History, Op, Violation


class _Group:
    def __init__(self) -> None:
        self.generation = 0
        self.state = "Empty"
        self.members: dict[str, str | None] = {}

    def seats(self) -> set[str]:
        return {instance or member for member, instance in self.members.items()}


class Audit:
    """Over all partitions of a run: `partition` for each, then `finish`. `partial`: a group of whose commits some rows
    may be refused alone, since their topics come and go. `apart`: groups whose commits are judged elsewhere, since they
    belong to transactions."""

    def __init__(self, history: History, *, partial: str = "", apart: frozenset[str] = frozenset()) -> None:
        self.found: list[Violation] = []
        self._apart = apart
        self._partial = partial
        self._ops: dict[str, Op] = {}
        self._batches: dict[str, int] = {}
        """unique metadata -> number of the batch it stands in"""
        self._batch = 0
        self._groups: dict[str, _Group] = {}
        for op in history.of(frames.COMMIT):
            for row in op.ask.rows:
                self._ops[row[4]] = op
        self.generations = 0
        self.commits = 0

    def _say(self, invariant: str, text: str) -> None:
        self.found.append(Violation(invariant, text))

    def partition(self, batches: Iterable[bytes]) -> None:
        """One partition's log from its first offset."""
        next_offset = 0
        epoch = 0
        for batch in batches:
            self._batch += 1
            header = parse_header(batch)
            if header.base_offset != next_offset:
                self._say("R1", f"offset {header.base_offset} where {next_offset} was due")
            if header.leader_epoch < epoch:
                self._say("R1", f"epoch {header.leader_epoch} after {epoch} at offset {next_offset}")
            next_offset, epoch = header.next_offset, header.leader_epoch
            for record in () if header.is_control else iter_records(batch):
                assert record.key is not None
                self._record(record.key, record.value)

    def _record(self, raw: bytes, value: bytes | None) -> None:
        key = decode_key(raw)
        match key:
            case OffsetCommitKey():
                if value is not None and key.group not in self._apart:
                    self._commit(key, value)
            case GroupMetadataKey():
                if value is None:
                    self._groups.pop(key.group, None)
                else:
                    self._metadata(key.group, value)
            case CandidateGenerationKey():
                assert value is not None
                self._candidate(key.group, value)
            case GroupRebalanceKey():
                assert value is not None
                rebalance = decode_rebalance(value)
                group = self._group(key.group)
                if rebalance.generation != group.generation:
                    self._say("G2", f"{key.group}: generation {rebalance.generation} ends, {group.generation} was")
                group.state = "Preparing"
                group.members = {m.id: m.instance for m in rebalance.members}

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _metadata(self, name: str, value: bytes) -> None:
        metadata = decode_group_value(value)
        group = self._group(name)
        members = {m.id: m.instance for m in metadata.members}
        if metadata.generation < group.generation or (members and metadata.generation != group.generation):
            self._say("G2", f"{name}: generation {metadata.generation} after {group.generation}")
        if members and {i or m for m, i in members.items()} != group.seats():
            self._say("G2", f"{name}: generation {metadata.generation} was {group.seats()}, is {members}")
        group.generation = metadata.generation
        group.state = "Stable" if members else "Empty"
        group.members = members

    def _candidate(self, name: str, value: bytes) -> None:
        candidate = decode_candidate(value)
        group = self._group(name)
        members = {m.id: m.instance for m in candidate.members}
        if candidate.generation == group.generation:
            # A static member came back: the same seats, one of them under another id.
            if {i or m for m, i in members.items()} != group.seats():
                self._say("G2", f"{name}: generation {candidate.generation} was {group.seats()}, is {members}")
        elif candidate.generation != group.generation + 1:
            self._say("G2", f"{name}: generation {candidate.generation} after {group.generation}")
        self.generations += 1
        group.generation, group.members, group.state = candidate.generation, members, "Completing"

    def _commit(self, key: OffsetCommitKey, value: bytes) -> None:
        stored = decode_offset_value(value)
        op = self._ops.get(stored.metadata)
        if op is None:
            self._say("O12", f"{key}: {stored.metadata} is in the log, and nobody sent it")
            return
        self.commits += 1
        if stored.metadata in self._batches:
            self._say("O7", f"{key}: {stored.metadata} is in the log twice")
        self._batches[stored.metadata] = self._batch
        ask: CommitAsk = op.ask
        group = self._groups.get(key.group) or _Group()
        if ask.generation < 0:
            if group.members:
                self._say("G8", f"{key}: {stored.metadata} without a generation, while {group.members} are members")
        elif group.state == "Completing" or ask.generation != group.generation or ask.member not in group.members:
            self._say(
                "G7",
                f"{key}: {stored.metadata} of {ask.member}, generation {ask.generation}, stands where {group.state} "
                f"{group.generation} has {sorted(group.members)}",
            )

    def finish(self) -> list[Violation]:
        """After all partitions."""
        for uid, op in self._ops.items():
            row = next(row for row in op.ask.rows if row[4] == uid)
            code = None if op.answer is None else op.answer[row[0], row[1]]
            if code == 0 and uid not in self._batches:
                self._say("O1", f"{op.group}: {uid} was acknowledged by {op.broker} and is not in the log")
            if code in DEFINITE and uid in self._batches:
                self._say("O3", f"{op.group}: {uid} was answered {code} and is in the log")
            stand = {self._batches.get(other[4]) for other in op.ask.rows}
            if op.group == self._partial:
                stand.discard(None)
            if len(stand) > 1:
                self._say("O9", f"{op.group}: rows of one commit stand in batches {stand}")
        return self.found
