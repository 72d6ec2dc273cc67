"""`ports.Kafka` on kafka-python: requests about many groups of one cluster are batched, on a bounded number of threads.

Batches form by themselves: while one batch to a cluster runs or waits for its turn, new requests collect and make the
next batch. So a single request is not delayed, and a thousand groups cost a handful of protocol requests. Each cluster
has its own queue, and the queues take turns (`turns`), so the number of clusters is not bounded. The time-out of a call
starts with its turn: waiting alone never makes an answer `Unknown`.

`Unknown` means that a request was sent and failed. A cluster that did not answer the last time gets one request at a
time; its other groups are answered `Unknown` at once, and so is that one request if it would have to wait for its turn:
a thousand groups of dead clusters must not hold the workers that other groups need.

Topics and users are few requests each and are asked about one by one, in the same turns.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import kafka.errors

from muster_operator.errors import OperatorError, Refused, Transient
from muster_operator.kafka import changes, questions, topics, users
from muster_operator.kafka.clients import Clients
from muster_operator.kafka.decode import MOVED
from muster_operator.kafka.turns import Turns
from muster_operator.limits import KAFKA_BATCH_MAX, KAFKA_CALL_TIMEOUT_S, KAFKA_CALLS_MAX
from muster_operator.world.group import Leaver, ObservedGroup
from muster_operator.world.kafka_object import KafkaChange, TopicView, UserView
from muster_operator.world.login import Where
from muster_operator.world.views import Unknown

Answer = ObservedGroup | Unknown
Result = TypeVar("Result")


@dataclass(slots=True)
class _ClusterQueue:
    """The waiting requests to one cluster, and the task that sends them."""

    topics: dict[str, set[str]] = field(default_factory=dict)
    waiting: dict[str, "asyncio.Future[Answer]"] = field(default_factory=dict)
    task: "asyncio.Task[None] | None" = None


class KafkaAdapter:
    """See `ports.Kafka`; call `close` at the end. Belongs to one event loop."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._pool = ThreadPoolExecutor(KAFKA_CALLS_MAX, thread_name_prefix="kafka")
        self._turns: Turns[Where, asyncio.Future[bool]] = Turns()
        self._queues: dict[Where, _ClusterQueue] = {}

    async def group(self, *, bootstrap: Where, group_id: str, topics: Sequence[str]) -> Answer:
        """State, members, offsets and log end offsets of one group, from a batch with others of the same cluster."""
        silent = self._clients.silent(bootstrap)
        known = self._queues.get(bootstrap)
        if silent and (known is not None or self._clients.resting(bootstrap)):
            return _unknown(self._clients.why_silent(bootstrap))
        queue = self._queues.setdefault(bootstrap, _ClusterQueue())
        queue.topics.setdefault(group_id, set()).update(topics)
        answer = queue.waiting.get(group_id)
        if answer is None:
            answer = queue.waiting[group_id] = asyncio.get_running_loop().create_future()
        crowded = self._turns.crowded
        if queue.task is None:
            queue.task = asyncio.create_task(self._drain(bootstrap, queue), name=f"kafka {bootstrap}")
        if silent and crowded:
            # No caller awaits this one: the queue learns from it whether the cluster answers again.
            answer.add_done_callback(_noticed)
            return _unknown(self._clients.why_silent(bootstrap))
        return await asyncio.shield(answer)

    async def remove_members(self, *, bootstrap: Where, group_id: str, members: Sequence[Leaver]) -> None:
        """Raises Transient or Refused. After a time-out the outcome is unknown; a repeated call is harmless."""
        await self._blocking(bootstrap, lambda: self._remove(bootstrap, group_id, members))

    async def topic(self, *, where: Where, name: str) -> TopicView | Unknown | None:
        """None only if the cluster says that there is no such topic. Raises nothing."""
        return await self._look(where, lambda admin: topics.look(admin, name))

    async def user(
        self, *, where: Where, name: str, principal: str, credentials: bool, acls: bool, quotas: bool
    ) -> UserView | Unknown:
        """What the cluster knows of a user, as far as asked. Raises nothing."""
        return await self._look(
            where,
            lambda admin: users.look(admin, name, principal, credentials=credentials, acls=acls, quotas=quotas),
        )

    async def change(self, *, where: Where, change: KafkaChange, password: str = "") -> None:
        """Raises Transient or Refused. After a time-out the outcome is unknown; a repeated change is harmless."""
        if self._clients.resting(where):
            raise self._clients.why_silent(where)
        await self._blocking(where, lambda: self._call(where, lambda admin: changes.carry_out(admin, change, password)))

    async def _look(self, where: Where, look: Callable[[Any], Result]) -> Result | Unknown:
        if self._clients.resting(where):
            return _unknown(self._clients.why_silent(where))
        try:
            return await self._blocking(where, lambda: self._call(where, look))
        except OperatorError as error:
            return _unknown(error)

    def _call(self, where: Where, call: Callable[[Any], Result]) -> Result:
        self._clients.drop_idle()
        with self._clients.use(where) as admin:
            try:
                return call(admin)
            except kafka.errors.AuthorizationError as error:
                message = f"the operator's user may not do this: {type(error).__name__}"
                raise Refused("AuthorizationFailed", message) from None
            except (kafka.errors.UnsupportedVersionError, kafka.errors.IncompatibleBrokerVersion):
                raise Refused("ClusterRefuses", f"{where}: the brokers are too old for this request") from None
            except (kafka.errors.KafkaError, RuntimeError) as error:
                self._clients.failed(where)
                raise Transient("BrokersUnreachable", f"{where}: {type(error).__name__}") from None

    async def close(self) -> None:
        """Close all clients and threads; requests in progress are answered with Unknown."""
        await asyncio.get_running_loop().run_in_executor(None, self._clients.close)
        for queue in list(self._queues.values()):
            if queue.task is not None:
                await asyncio.gather(queue.task, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _drain(self, bootstrap: Where, queue: _ClusterQueue) -> None:
        try:
            while queue.waiting:
                batch = list(queue.waiting)[:KAFKA_BATCH_MAX]
                wanted = {group: queue.topics.pop(group) for group in batch}
                futures = {group: queue.waiting.pop(group) for group in batch}
                # An exception goes to the callers of the batch, not into this task, which nothing awaits.
                (answers,) = await asyncio.gather(self._ask(bootstrap, wanted), return_exceptions=True)
                for group, future in futures.items():
                    if future.done():
                        continue
                    if isinstance(answers, BaseException):
                        future.set_exception(answers)
                    else:
                        future.set_result(answers[group])
        finally:
            queue.task = None
            if not queue.waiting:
                self._queues.pop(bootstrap, None)

    async def _ask(self, bootstrap: Where, wanted: dict[str, set[str]]) -> dict[str, Answer]:
        try:
            return await self._blocking(bootstrap, lambda: self._groups(bootstrap, wanted))
        except OperatorError as error:
            return dict.fromkeys(wanted, _unknown(error))

    async def _blocking(self, bootstrap: Where, call: Callable[[], Result]) -> Result:
        """Run `call` on a thread when it is this cluster's turn."""
        loop = asyncio.get_running_loop()
        running = await self._started(bootstrap, call)
        try:
            async with asyncio.timeout(KAFKA_CALL_TIMEOUT_S):
                return await asyncio.wrap_future(running)
        except TimeoutError:
            loop.run_in_executor(None, self._clients.failed, bootstrap)  # ends the call that hangs
            raise Transient("KafkaSilent", f"{bootstrap} does not answer in time") from None

    async def _started(self, bootstrap: Where, call: Callable[[], Result]) -> "Future[Result]":
        """The turn ends when the thread's work ends, not at the caller's time-out: there are as many threads as
        turns."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._turns.ask(bootstrap, turn, proven=self._clients.proven(bootstrap))
        self._grant()
        try:
            unproven = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(turn.result())
            raise
        running = self._pool.submit(call)

        def over(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, so no call waits for a turn
                loop.call_soon_threadsafe(self._end, unproven)

        running.add_done_callback(over)
        return running

    def _grant(self) -> None:
        while (taken := self._turns.take()) is not None:
            turn, unproven = taken
            if turn.cancelled():
                self._turns.end(unproven=unproven)
            else:
                turn.set_result(unproven)

    def _end(self, unproven: bool) -> None:
        self._turns.end(unproven=unproven)
        self._grant()

    def _groups(self, bootstrap: Where, wanted: dict[str, set[str]]) -> dict[str, Answer]:
        self._clients.drop_idle()
        with self._clients.use(bootstrap) as admin:
            try:
                answers = questions.groups(admin, wanted)
            except kafka.errors.AuthorizationError as error:
                message = f"the operator's user may not ask about the group: {type(error).__name__}"
                raise Transient("AuthorizationFailed", message) from None
            except (kafka.errors.KafkaError, RuntimeError) as error:  # RuntimeError: another thread dropped the client
                self._clients.failed(bootstrap)
                raise Transient("BrokersUnreachable", f"{bootstrap}: {type(error).__name__}") from None
            if any(isinstance(one, Unknown) and one.reason in MOVED for one in answers.values()):
                self._clients.drop(bootstrap)
            return answers

    def _remove(self, bootstrap: Where, group_id: str, members: Sequence[Leaver]) -> None:
        with self._clients.use(bootstrap) as admin:
            try:
                questions.remove_members(admin, group_id, members)
            except (kafka.errors.KafkaError, RuntimeError) as error:
                self._clients.failed(bootstrap)
                raise Transient("BrokersUnreachable", f"{bootstrap}: {type(error).__name__}") from None


def _noticed(answer: "asyncio.Future[Answer]") -> None:
    """Retrieve the exception of a request that no caller awaits; the next request meets the same bug again."""
    if not answer.cancelled():
        answer.exception()


def _unknown(error: OperatorError) -> Unknown:
    return Unknown(reason=error.reason, message=error.message)
