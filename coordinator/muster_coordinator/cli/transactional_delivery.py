"""Records on their way to a topic in transactions: what is counted is committed.

A transaction begins with its first record, so that no input leaves an empty one open. It is committed when it is full
and at the end of the input, and aborted when a record fails or the command is interrupted. Where the answer to a commit
is missing, the error says that it is unknown whether those records are committed. What cannot be aborted is left to the
coordinator, which aborts it at its time-out.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from muster_coordinator.cli.delivery import Delivery, reason_of
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import KafkaSide, Untyped
from muster_coordinator.cli.output import note


class TransactionalDelivery:
    """See the module. `size`: records of a transaction; None: all are one."""

    def __init__(
        self,
        side: KafkaSide,
        properties: Mapping[str, str],
        topic: str,
        partition: int | None,
        headers: list[tuple[str, bytes]],
        transactional_id: str,
        size: int | None,
    ) -> None:
        more = {"transactional_id": transactional_id, "max_block_ms": int(side.timeout_s * 1000)}
        self._delivery = Delivery(side, properties, topic, partition, headers, more)
        self._side, self._topic = side, topic
        self._producer = self._delivery.producer
        self.committed = self.transactions = 0
        self._size = size
        self._records = 0
        """Of the transaction that is open."""
        self._open = self._committing = False

    def __enter__(self) -> Self:
        try:
            self._producer.init_transactions()
        except BaseException as error:
            self._delivery.close(at_once=True)
            if isinstance(error, self._side.kafka.errors.KafkaError):
                raise self._side.sentence(error, "cannot begin transactions") from error
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Commit what is open, or abort it. Raises CliError unless all of it is committed."""
        try:
            if kind is None and self._open and not self.broken:
                self._commit()
        finally:
            if self._open and not self._committing:
                self._abort()
            self._delivery.close(at_once=self._open)
            if kind is not None or self._open or self.broken:
                note(f"stopped: {self.done}")
        if kind is None and self.broken:
            code = Exit.UNREACHABLE if self._delivery.retriable() else Exit.REFUSED
            raise CliError(code, f"the last transaction is not committed: {reason_of(self._delivery.first_error)}")

    @property
    def broken(self) -> bool:
        """Whether something has failed: further records would fail, too."""
        return self._delivery.broken

    @property
    def done(self) -> str:
        """What to say when all went well."""
        return f"{self.committed} records committed in {self._topic}, in {self.transactions} transactions"

    def progress(self) -> None:
        """As `Delivery.progress`."""
        self._delivery.progress()

    def send(self, key: bytes | None, value: bytes) -> None:
        """As `Delivery.send`. Commits the transaction that is full with this record."""
        if not self._open:
            try:
                self._producer.begin_transaction()
            except self._side.kafka.errors.KafkaError as error:
                raise self._side.sentence(error, "cannot begin a transaction") from error
            self._open, self._records = True, 0
        self._delivery.send(key, value)
        self._records += 1
        if self._records == self._size and not self.broken:
            self._commit()

    def _commit(self) -> None:
        what = f"whether the last {self._records} records are committed is unknown"
        kafka_error = self._side.kafka.errors.KafkaError
        try:
            result = self._producer._transaction_manager.begin_commit()
        except kafka_error as error:
            self._delivery.first_error = self._delivery.first_error or error
            return  # the coordinator was not asked
        self._committing = True
        try:
            answered = self._answered(result)
        except kafka_error as error:
            if self._delivery.first_error is None:
                # Also a refusal: the question before, whose answer was lost, may have been granted.
                raise CliError(Exit.UNREACHABLE, f"{what} ({reason_of(error)})") from error
            self._committing = False  # a record failed, so the coordinator was not asked
            return
        if not answered:
            raise CliError(Exit.UNREACHABLE, f"{what}: no answer within {self._side.timeout_s:g} s")
        self._committing = self._open = False
        self.committed += self._records
        self.transactions += 1

    def _abort(self) -> None:
        later = "its coordinator does that at its time-out"
        try:
            aborted = self._answered(self._producer._transaction_manager.begin_abort())
        except (self._side.kafka.errors.KafkaError, RuntimeError) as error:
            note(f"the open transaction was not aborted ({reason_of(error)}): {later}")
            return
        if aborted:
            self._open = False
            note(f"the open transaction of {self._records} records is aborted")
        else:
            note(f"whether the open transaction is aborted is unknown: {later}")

    def _answered(self, result: Untyped) -> bool:
        """Whether the answer came in time. kafka-python's own `commit_transaction` has no bound (all 3.x)."""
        self._producer._sender.wakeup()
        return bool(result.wait(timeout_ms=int(self._side.timeout_s * 1000)))
