"""Questions of partition leaders to transaction coordinators: is this partition in the transaction? (KIP-890)

Implements `api.transaction_verifier.TransactionVerifier`. The coordinator may be here or on another replica. A question
that nobody has answered in time is answered NETWORK_EXCEPTION (13): what it asked for may have been done. A partition
that is to be added while the transaction before is being completed is tried again for a short while, as Kafka's brokers
do, so that its producer need not come again.
"""

from collections.abc import Callable

from muster_coordinator.controller.image import transaction_log_of
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.links import channels
from muster_coordinator.ports import Loop, PeerNet, Timer
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.multiraft.leaders import Leaders
from muster_coordinator.replica.partitions.surface import partition_of
from muster_coordinator.replica.transactions import limits
from muster_coordinator.replica.transactions.transaction_payloads import (
    Question,
    decode_verify,
    decode_verify_result,
    encode_verify,
    encode_verify_result,
)
from muster_coordinator.transactions.requests import AddPartitions, Answer, VerifyPartitions

Done = Callable[[Code], None]
_CODES = {int(code): code for code in Code}


class _Asked:
    """A question that is with a peer."""

    __slots__ = ("done", "peer", "timer")

    def __init__(self, peer: BrokerId, done: Done, timer: Timer) -> None:
        self.peer = peer
        self.done = done
        self.timer = timer


class Verifications:
    """See the module."""

    def __init__(self, loop: Loop, net: PeerNet, broker: BrokerId, leaders: Leaders, groups: GroupManager) -> None:
        self._loop = loop
        self._net = net
        self._broker = broker
        self._leaders = leaders
        self._groups = groups
        self._asked: dict[int, _Asked] = {}
        self._count = 0
        self._served = 0

    # -- asking ----------------------------------------------------------------------------------------------------

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        add: bool,
        deadline_ms: int,
        done: Done,
    ) -> None:
        """See `TransactionVerifier.verify`."""
        question = Question(add, producer_id, producer_epoch, transactional_id, topic, partition)
        until_ms = min(deadline_ms, self._loop.monotonic_ms() + limits.ADD_RETRIES_MS)

        def answered(code: Code) -> None:
            again_ms = self._loop.monotonic_ms() + limits.ADD_RETRY_MS
            if add and code is Code.CONCURRENT_TRANSACTIONS and again_ms < until_ms:
                self._loop.call_at(again_ms, lambda: self._ask(question, deadline_ms, answered))
            else:
                done(code)

        self._ask(question, deadline_ms, answered)

    def _ask(self, question: Question, deadline_ms: int, done: Done) -> None:
        group = self._group_of(question.transactional_id)
        leader = None if group is None else self._leaders.of(group).leader
        wait_ms = min(deadline_ms - self._loop.monotonic_ms(), limits.QUESTION_ANSWER_MS)
        if group is None or leader is None or wait_ms <= 0:
            done(Code.COORDINATOR_NOT_AVAILABLE)
        elif leader == self._broker:
            self._answer_here(group, question, done)
        else:
            self._send(leader, wait_ms, question, done)

    def _group_of(self, transactional_id: str) -> GroupNo | None:
        """Raft group of the id's coordinator."""
        image = self._groups.image
        topic = None if image is None else transaction_log_of(image)
        if topic is None:
            return None
        return topic.partitions[partition_of(transactional_id, len(topic.partitions))].group

    def _send(self, peer: BrokerId, wait_ms: int, question: Question, done: Done) -> None:
        self._count += 1
        number = self._count
        room = len(self._asked) < limits.QUESTIONS_UNANSWERED_MAX
        if not room or not self._net.send(peer, channels.FORWARD, encode_verify(number, wait_ms, question)):
            done(Code.COORDINATOR_NOT_AVAILABLE)
            return
        due_ms = self._loop.monotonic_ms() + wait_ms
        timer = self._loop.call_at(due_ms, lambda: self._finish(number, Code.NETWORK_EXCEPTION))
        self._asked[number] = _Asked(peer, done, timer)

    def _finish(self, number: int, code: Code) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.timer.cancel()
            asked.done(code)

    def peer_down(self, peer: BrokerId) -> None:
        """The link to `peer` is down: nobody will answer."""
        for number in [number for number, asked in self._asked.items() if asked.peer == peer]:
            self._finish(number, Code.NETWORK_EXCEPTION)

    def result(self, peer: BrokerId, payload: bytes) -> None:
        """A peer answers. Raises `WireError`."""
        number, code = decode_verify_result(payload)
        asked = self._asked.get(number)
        if asked is not None and asked.peer == peer:
            self._finish(number, _CODES.get(code, Code.UNKNOWN_SERVER_ERROR))

    # -- answering -------------------------------------------------------------------------------------------------

    def received(self, peer: BrokerId, payload: bytes) -> None:
        """A peer asks a coordinator of this replica. Raises `WireError`."""
        number, wait_ms, question = decode_verify(payload)

        def done(code: Code) -> None:
            self._net.send(peer, channels.FORWARD, encode_verify_result(number, code))

        group = self._group_of(question.transactional_id)
        if group is None or not wait_ms or self._served >= limits.QUESTIONS_UNANSWERED_MAX:
            done(Code.COORDINATOR_NOT_AVAILABLE)
            return
        self._served += 1

        def served(code: Code) -> None:
            self._served -= 1
            done(code)

        self._answer_here(group, question, served)

    def _answer_here(self, group: GroupNo, question: Question, done: Done) -> None:
        coordinator = self._groups.coordinators.get(group)
        if coordinator is None:
            done(Code.NOT_COORDINATOR)
            return
        make = AddPartitions if question.add else VerifyPartitions
        places = frozenset({(question.topic, question.partition)})
        request = make(question.transactional_id, question.producer_id, question.producer_epoch, places)

        def answered(answer: Answer) -> None:
            done(Code.TRANSACTION_ABORTABLE if answer.missing else answer.code)

        coordinator.request(request, answered)
