"""AlterPartitionReassignments and ListPartitionReassignments: how Kafka's tools ask for moves of partitions, and see
them (KIP-455, KIP-860; ADR 43).

A move is wanted state in the controller's log (ADR 42). A request names where replicas are to be; each partition
becomes one `MovePartition`, which is judged here first, so that what cannot be is not written to the log, and again
when it is applied. The answer says that the move is wanted, not that it is complete: for that, one asks for the list.
Every refusal that rests on the image, and every list, comes after the image was confirmed as current: a list from a
late replica without a move that was just asked for would tell a tool that it is complete.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import NO_TIME, NOT_FORMED, Outcome, fit, propose, refused, until_ms
from muster_coordinator.api.doubt import ABSENT, UNPROVEN, Doubt
from muster_coordinator.api.gather import gather_few, in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import MovePartition
from muster_coordinator.controller.image import ClusterImage, Move, Partition, Topic
from muster_coordinator.controller.moves import move_partition
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_OF_THE_IMAGE = ABSENT | {
    Code.INVALID_REPLICA_ASSIGNMENT,
    Code.INVALID_REPLICATION_FACTOR,
    Code.NO_REASSIGNMENT_IN_PROGRESS,
    Code.UNSUPPORTED_VERSION,
}
"""What is said of a partition only when the image is confirmed as current."""


class _Asked(NamedTuple):
    """One request to alter, with what each of its partitions needs."""

    request: Value
    times: Counter[tuple[str, int]]
    """How often each partition is in it."""
    until_ms: int
    """When its time is over, on the monotonic clock."""
    doubt: Doubt


class Reassignments:
    """Handlers of both APIs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # -- AlterPartitionReassignments

    def alter(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """AlterPartitionReassignments v0-1. Each partition by itself: valid ones are moved even when others are not."""
        named = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
        refused = self._refused(context, named)
        if refused is not None:
            reply(_altered(request, refused, ()))
            return
        surface = self._services.surface
        wanted = {
            (topic.name, one.partition_index): one.replicas for topic in request.topics for one in topic.partitions
        }
        once = list(wanted)
        asked = _Asked(
            request, Counter(named), until_ms(surface, request), Doubt(surface, Code.NOT_CONTROLLER, _OF_THE_IMAGE)
        )

        def begin(index: int, arrived: Callable[[Outcome], None]) -> None:
            self._one(asked, once[index], wanted[once[index]], arrived)

        def decided(outcomes: list[Outcome]) -> None:
            responses = _responses(once, outcomes)
            codes = {outcome.code for outcome in outcomes}
            # Java asks again only when the whole request is refused so. Nothing of it was taken.
            unmoved = Code.NOT_CONTROLLER in codes and Code.NONE not in codes
            whole = ApiError(Code.NOT_CONTROLLER, UNPROVEN) if unmoved else None
            reply(_altered(request, whole, () if unmoved else responses))

        gather_few(surface.loop, len(once), begin, decided)

    def _refused(self, context: RequestContext, named: list[tuple[str, int]]) -> ApiError | None:
        """Why nothing of the request is looked at."""
        code = self._services.cluster_code(context, Operation.ALTER)
        if code is not Code.NONE:
            return ApiError(code)
        if len(named) > limits.PARTITIONS_PER_REQUEST_MAX:
            return ApiError(Code.POLICY_VIOLATION, f"more than {limits.PARTITIONS_PER_REQUEST_MAX} partitions")
        if self._services.surface.image() is None:
            return ApiError(Code.NOT_CONTROLLER, NOT_FORMED)
        return None

    def _one(
        self,
        asked: _Asked,
        named: tuple[str, int],
        replicas: tuple[int, ...] | None,
        done: Callable[[Outcome], None],
    ) -> None:
        def judge() -> MovePartition:
            if asked.times[named] > 1:
                raise ApiError(Code.INVALID_REQUEST, "the partition is named twice")
            topic, image = _existing(self._services.surface.image(), *named)
            partition = topic.partitions[named[1]]
            if not asked.request.allow_replication_factor_change:
                if asked.doubt.proven is None:
                    # Judged by a late image, a change could look like none.
                    raise ApiError(Code.INVALID_REPLICATION_FACTOR)
                _judge_factor(partition, replicas)
            command = _command(image, topic, named[1], replicas)
            self._judge_room(partition, command)
            return command

        def decided(outcome: Outcome) -> None:
            gone = outcome.code is Code.UNKNOWN_TOPIC_ID  # deleted meanwhile; the client knows no id
            done(outcome._replace(code=Code.UNKNOWN_TOPIC_OR_PARTITION) if gone else outcome)

        def judged(command: MovePartition) -> None:
            if asked.request.timeout_ms <= 0:
                done(NO_TIME)
            else:
                propose(self._services.surface, command, asked.until_ms, decided)

        asked.doubt.judge(judge, judged, lambda error: done(refused(error)))

    def _judge_room(self, partition: Partition, command: MovePartition) -> None:
        """Raises ApiError if a broker that has no replica yet has no room for one (ADR 46). Nothing of that is in the
        image, so it is no rule of the log: a copy that gets no room all the same waits, and is cancelled."""
        for broker in command.voters:
            lack = "" if broker in partition.holders else self._services.surface.lack_of_room(partition.group, broker)
            if lack:
                raise ApiError(Code.INVALID_REPLICA_ASSIGNMENT, lack)

    # -- ListPartitionReassignments

    def list(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """ListPartitionReassignments v0. Topics, partitions and moves that do not exist are left out, as in Kafka."""
        code = self._services.cluster_code(context, Operation.DESCRIBE)
        if code is not Code.NONE:
            reply({"error_code": code, "error_message": f"refused: {code.name}", "topics": ()})
            return

        def told(current: bool) -> None:
            image = self._services.surface.image()
            if not current or image is None:
                reply({"error_code": Code.NOT_CONTROLLER, "error_message": UNPROVEN, "topics": ()})
            else:
                self._list(image, request, reply)

        self._services.surface.when_topics_current(told)

    def _list(self, image: ClusterImage, request: Value, reply: Exchange) -> None:
        named = [(topic.name, number) for topic in request.topics or () for number in topic.partition_indexes]
        if request.topics is None:
            named = [(name, number) for name in image.topics for number in range(len(image.topics[name].partitions))]
        moving: dict[str, dict[int, Value]] = {}

        def look(index: int) -> int:
            name, number = named[index]
            topic = image.topics.get(name)
            if topic is not None and 0 <= number < len(topic.partitions):
                move = topic.partitions[number].move
                if move is not None and move.origin:
                    moving.setdefault(name, {})[number] = _ongoing(number, move)
            return 0

        def looked() -> None:
            found = [{"name": name, "partitions": list(ongoing.values())} for name, ongoing in moving.items()]
            reply({"error_code": Code.NONE, "error_message": None, "topics": found})

        in_turns(self._services.surface.loop, len(named), look, looked)


def _existing(image: ClusterImage | None, name: str, number: int) -> tuple[Topic, ClusterImage]:
    """The topic that has such a partition, and the image that has it. Raises ApiError."""
    topic = None if image is None else image.topics.get(name)
    if image is None or topic is None:
        raise ApiError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    if not 0 <= number < len(topic.partitions):
        raise ApiError(
            Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} has {len(topic.partitions)} partitions, and no {number}"
        )
    return topic, image


def _judge_factor(partition: Partition, replicas: tuple[int, ...] | None) -> None:
    """Of a partition that is being moved the factor is that of the move, as in Kafka."""
    if replicas is not None and len(replicas) != len(partition.voters):
        raise ApiError(
            Code.INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(partition.voters)} to {len(replicas)}",
        )


def _command(image: ClusterImage, topic: Topic, number: int, replicas: tuple[int, ...] | None) -> MovePartition:
    """The command for a partition, valid by this image. Raises ApiError."""
    if replicas is not None and not replicas:
        # An empty list in the command would cancel, which is what null stands for here.
        raise ApiError(Code.INVALID_REPLICA_ASSIGNMENT, "a partition has 1, 3 or 5 replicas, not 0")
    voters = tuple(BrokerId(broker) for broker in replicas or ())
    command = MovePartition(topic_id=topic.topic_id, partition=number, voters=voters)
    fit(image, command, partial(move_partition, image, topic.partitions[number], voters))
    return command


def _ongoing(number: int, move: Move) -> Value:
    """`replicas` are those of the target, then those that are to go, as Kafka lists them."""
    return {
        "partition_index": number,
        "replicas": (*move.target, *move.leaving),
        "adding_replicas": [broker for broker in move.target if broker not in move.origin],
        "removing_replicas": move.leaving,
    }


def _responses(once: list[tuple[str, int]], outcomes: list[Outcome]) -> list[Value]:
    topics: dict[str, list[Value]] = {}
    for (name, number), outcome in zip(once, outcomes, strict=True):
        entry = {"partition_index": number, "error_code": outcome.code, "error_message": outcome.message}
        topics.setdefault(name, []).append(entry)
    return [{"name": name, "partitions": entries} for name, entries in topics.items()]


def _altered(request: Value, refused: ApiError | None, responses: list[Value] | tuple[()]) -> Value:
    return {
        "error_code": Code.NONE if refused is None else refused.code,
        "error_message": None if refused is None else refused.message or f"refused: {refused.code.name}",
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "responses": responses,
    }
