"""Transactional batches on their way into a partition: the first one of a transaction waits for the coordinator's word.

Problem: a producer has up to five batches of a partition in flight, and all of them arrive before the coordinator has
said that the partition is in the transaction. Mechanism: per partition, producer and epoch there is one question at a
time, and the batches that came meanwhile go on in their order when it is answered, with its verification number, or
are all refused with its code. A producer of transaction version 2 begins its next transaction while the one before is
being completed, so that one's marker may come between question and answer and make the number worthless: then the
answer says nothing, and the coordinator is asked anew with another number. What it does not do: judge batches or
verifications (`topics.partition` does), or remember answers: once the first batch is in the leader's log the
transaction is open there, and nothing is asked.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api.transaction_verifier import TransactionVerifier
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.replica.partitions.surface import LocalLog
from muster_coordinator.topics.machine import Refused

IMPLICIT_SINCE = 12
"""Produce version of transaction version 2: the first batch puts the partition into the transaction."""
_ABORTABLE_SINCE = 11
"""Produce version that knows TRANSACTION_ABORTABLE."""
_UNANSWERED = (
    Code.NETWORK_EXCEPTION,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
)
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43


class Verdict(NamedTuple):
    """What becomes of a batch: with NONE it is offered to its log, with the verification if it has one."""

    code: Code = Code.NONE
    message: str | None = None
    verification: int | None = None


class Question(NamedTuple):
    """What is asked about one batch."""

    version: int
    """Of Produce."""
    transactional_id: str
    topic: str
    partition: int
    batch: bytes
    deadline_ms: int


_Asked = list[tuple[int, Question, Callable[[Verdict], None]]]
"""Batches that wait for one answer, in order of arrival, each with its verification number; 0: it needed none."""
_Key = tuple[GroupNo, int, int]
"""(group, producer, epoch)"""


class TransactionBatches:
    """The questions of one replica's Produce requests."""

    __slots__ = ("_asked", "_loop", "_verifier")

    def __init__(self, loop: Loop, verifier: TransactionVerifier) -> None:
        self._loop = loop
        self._verifier = verifier
        self._asked: dict[_Key, _Asked] = {}
        """As many as there may be requests in flight."""

    def when_verified(self, log: LocalLog, question: Question, go: Callable[[Verdict], None]) -> None:
        """Call `go` once it is known whether the batch may be offered to `log`."""
        producer_id, epoch, sequence = _PRODUCER.unpack_from(question.batch, _PRODUCER_AT)
        implicit = question.version >= IMPLICIT_SINCE
        number = log.verify(producer_id, epoch, sequence, implicit=implicit)
        if isinstance(number, Refused):
            go(Verdict(number.code, number.message))
            return
        key = (log.group, producer_id, epoch)
        asked = self._asked.get(key)
        if asked is not None:
            asked.append((0 if number is None else number, question, go))
            return
        if number is None:
            go(Verdict())
            return
        self._ask(log, key, [(number, question, go)])

    def _ask(self, log: LocalLog, key: _Key, asked: _Asked) -> None:
        self._asked[key] = asked
        question, (_, producer_id, epoch) = asked[0][1], key

        def answered(code: Code) -> None:
            if self._asked.get(key) is asked:
                del self._asked[key]
                self._answered(log, key, code, asked)

        self._verifier.verify(
            question.transactional_id,
            producer_id,
            epoch,
            question.topic,
            question.partition,
            add=question.version >= IMPLICIT_SINCE,
            deadline_ms=question.deadline_ms,
            done=answered,
        )

    def _answered(self, log: LocalLog, key: _Key, code: Code, asked: _Asked) -> None:
        now_ms = self._loop.monotonic_ms()
        if code is Code.NONE:
            for _, question, go in asked:
                if question.deadline_ms <= now_ms:
                    go(Verdict(Code.NOT_ENOUGH_REPLICAS, "the transaction's coordinator answered too late"))
            asked = [one for one in asked if one[1].deadline_ms > now_ms]
            again = _numbered_again(log, asked)
            if again is not None:
                self._ask(log, key, again)
                return
        for number, question, go in asked:
            go(Verdict(verification=number) if code is Code.NONE else refusal(code, question.version))


def _numbered_again(log: LocalLog, asked: _Asked) -> _Asked | None:
    """The batches with their numbers of now, if a marker of their producer made those worthless that they had. Each
    marker ends a transaction, and each batch has a deadline, so this comes to an end."""
    found: _Asked = []
    for _, question, go in asked:
        producer_id, epoch, sequence = _PRODUCER.unpack_from(question.batch, _PRODUCER_AT)
        now = log.verify(producer_id, epoch, sequence, implicit=question.version >= IMPLICIT_SINCE)
        if now is None or isinstance(now, Refused):
            return None  # open by now, or too many begin: as they are judged with what they have
        found.append((now, question, go))
    return found if any(before[0] not in (0, now[0]) for before, now in zip(asked, found, strict=True)) else None


def refusal(code: Code, version: int) -> Verdict:
    """What the coordinator's error is in a Produce answer of this version (Kafka's `ReplicaManager`,
    `AddPartitionsToTxnManager`): older producers do not send a batch again for every error for which they should."""
    if code in _UNANSWERED or (code is Code.CONCURRENT_TRANSACTIONS and version < IMPLICIT_SINCE):
        why = f"it is not known whether the partition is in the transaction: {code.name}"
        return Verdict(Code.NOT_ENOUGH_REPLICAS, why)
    if code is Code.PRODUCER_FENCED:
        return Verdict(Code.INVALID_PRODUCER_EPOCH)
    if code is Code.INVALID_TXN_STATE or (code is Code.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE):
        return Verdict(Code.INVALID_TXN_STATE, "the partition was not added to the transaction")
    return Verdict(code)
