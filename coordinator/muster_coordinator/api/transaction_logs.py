"""Where the coordinator of a transactional id is, and the making of the transaction log at first use (ADR 63).

Whoever is asked for a coordinator first proposes the log; of several brokers that do so one is heard, and the others
are told that it exists. Answers wait for that a moment. What this does not do: have the log made where a replica's
release does not know it (feature level below 3), or where a topic that a client made has its name.
"""

from collections.abc import Callable

from muster_coordinator.api.assignments import placed_replicas
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.coordinator_search import Keys
from muster_coordinator.api.create_topics import fresh_topic_id
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import CommandResult, CreateTransactionLog
from muster_coordinator.controller.image import (
    MEMBERS_LEVEL,
    TRANSACTIONS_TOPIC,
    ClusterImage,
    transaction_log_of,
)
from muster_coordinator.controller.placement import default_factor
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS
from muster_coordinator.ports import Loop
from muster_coordinator.replica.partitions.surface import partition_of

_LOOK_AGAIN_MS = 10


def transaction_partition(image: ClusterImage, transactional_id: str) -> int:
    """The partition of an id in a log that exists; once made it is never deleted."""
    return partition_of(transactional_id, len(image.topics[TRANSACTIONS_TOPIC].partitions))


def transaction_group(image: ClusterImage, partition: int) -> GroupNo:
    """The Raft group of a partition of a log that exists."""
    return image.topics[TRANSACTIONS_TOPIC].partitions[partition].group


TRANSACTIONS = Keys(
    may=lambda services, context, key: services.may_transact(context, Operation.DESCRIBE, key),
    partition=transaction_partition,
    group=transaction_group,
    denied=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


class TransactionLogs:
    """See the module."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._making = False

    def possible(self) -> bool:
        """Whether this cluster can have transactions; while that is not known, it may."""
        image = self._services.surface.image()
        if image is None:
            return True
        foreign = TRANSACTIONS_TOPIC in image.topics and transaction_log_of(image) is None
        return image.feature_level >= MEMBERS_LEVEL and not foreign

    def exists(self) -> bool:
        """Whether the log is there, as far as this replica knows."""
        image = self._services.surface.image()
        return image is not None and transaction_log_of(image) is not None

    def group_of(self, transactional_id: str) -> GroupNo | None:
        """The Raft group whose leader is the id's coordinator; None: there is no log yet."""
        image = self._services.surface.image()
        if image is None or transaction_log_of(image) is None:
            return None
        return transaction_group(image, transaction_partition(image, transactional_id))

    def create(self, context: RequestContext) -> None:
        """Have the log made, if nobody has asked for it here already."""
        services = self._services
        image = services.surface.image()
        if image is None or self._making:
            return
        count = services.settings.transaction_partitions
        topic_id = fresh_topic_id(services.surface, image)
        factor = default_factor(image, services.settings.replication_factor)
        try:
            placed = placed_replicas(count, factor, image, PlaceForTopics(), services.surface, topic_id)
        except ApiError:
            return  # some brokers are to come: the client asks again
        self._making = True

        def decided(_result: CommandResult) -> None:
            self._making = False

        command = CreateTransactionLog(topic_id=topic_id, partitions=count, placed=placed)
        services.surface.submit(command, deadline_ms=context.deadline_ms, done=decided)


class LogWait:
    """Calls `made` when the log is there, or `late` when the time for that is over. An object, as a function that names
    itself would keep the request for ever."""

    __slots__ = ("_late", "_log", "_loop", "_made", "_until_ms")

    def __init__(self, log: TransactionLogs, loop: Loop, made: Callable[[], None], late: Callable[[], None]) -> None:
        self._log = log
        self._loop = loop
        self._made = made
        self._late = late
        self._until_ms = loop.monotonic_ms() + COORDINATOR_LOOKUP_WAIT_MS

    def look(self) -> None:
        """To be called once."""
        now_ms = self._loop.monotonic_ms()
        if self._log.exists():
            self._made()
        elif now_ms >= self._until_ms:
            self._late()
        else:
            self._loop.call_at(min(now_ms + _LOOK_AGAIN_MS, self._until_ms), self.look)
