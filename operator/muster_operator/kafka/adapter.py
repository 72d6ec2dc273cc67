"""`ports.Kafka` on kafka-python: questions of many groups to one cluster become one, on a bounded pool of threads.

Batches form by themselves: while one question to a cluster is under way, what is asked meanwhile waits and is the next
batch. So a lone question is not delayed, and a thousand groups cost a handful of requests. A cluster that does not
answer in time is `Unknown` for everyone in the batch; it delays nobody else, as each cluster has its own lane and
threads are bounded but many. While one question tries a cluster again that was silent before, others are answered
`Unknown` at once: a thousand groups of a dead cluster must not hold the workers that others need.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import kafka.errors

from muster_operator.errors import OperatorError, Transient
from muster_operator.kafka import questions
from muster_operator.kafka.clients import Clients, nobody
from muster_operator.kafka.decode import MOVED
from muster_operator.limits import KAFKA_BATCH_MAX, KAFKA_CALL_TIMEOUT_S, KAFKA_THREADS
from muster_operator.world.group import GroupView, Leaver
from muster_operator.world.views import Unknown

Answer = GroupView | Unknown
Result = TypeVar("Result")


@dataclass(slots=True)
class _Lane:
    """Questions to one cluster: those that wait, and the task that puts them."""

    topics: dict[str, set[str]] = field(default_factory=dict)
    waiting: dict[str, "asyncio.Future[Answer]"] = field(default_factory=dict)
    task: "asyncio.Task[None] | None" = None


class KafkaAdapter:
    """See `ports.Kafka`; `close` it. Belongs to one event loop."""

    def __init__(self, clients: Clients, *, threads: int = KAFKA_THREADS) -> None:
        self._clients = clients
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kafka")
        self._lanes: dict[str, _Lane] = {}

    async def group(self, *, bootstrap: str, group_id: str, topics: Sequence[str]) -> Answer:
        """State, members, offsets and log ends of one group, from a batch with others of the same cluster."""
        lane = self._lanes.setdefault(bootstrap, _Lane())
        if lane.task is not None and self._clients.silent(bootstrap):
            return _unknown(nobody(bootstrap))
        lane.topics.setdefault(group_id, set()).update(topics)
        answer = lane.waiting.get(group_id)
        if answer is None:
            answer = lane.waiting[group_id] = asyncio.get_running_loop().create_future()
        if lane.task is None:
            lane.task = asyncio.create_task(self._drain(bootstrap, lane), name=f"kafka {bootstrap}")
        return await asyncio.shield(answer)

    async def remove_members(self, *, bootstrap: str, group_id: str, members: Sequence[Leaver]) -> None:
        """Raises Transient or Refused. A time-out means that its fate is unknown; asking again is harmless."""
        await self._blocking(bootstrap, lambda: self._remove(bootstrap, group_id, members))

    async def close(self) -> None:
        """Close all clients and threads; questions under way are answered with Unknown."""
        await asyncio.get_running_loop().run_in_executor(None, self._clients.close)
        for lane in list(self._lanes.values()):
            if lane.task is not None:
                await asyncio.gather(lane.task, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _drain(self, bootstrap: str, lane: _Lane) -> None:
        try:
            while lane.waiting:
                batch = list(lane.waiting)[:KAFKA_BATCH_MAX]
                wanted = {group: lane.topics.pop(group) for group in batch}
                futures = {group: lane.waiting.pop(group) for group in batch}
                # A bug in a question belongs to those who asked it, not to a task that nobody waits for.
                (answers,) = await asyncio.gather(self._ask(bootstrap, wanted), return_exceptions=True)
                for group, future in futures.items():
                    if future.done():
                        continue
                    if isinstance(answers, BaseException):
                        future.set_exception(answers)
                    else:
                        future.set_result(answers[group])
        finally:
            lane.task = None
            if not lane.waiting:
                self._lanes.pop(bootstrap, None)

    async def _ask(self, bootstrap: str, wanted: dict[str, set[str]]) -> dict[str, Answer]:
        try:
            return await self._blocking(bootstrap, lambda: self._groups(bootstrap, wanted))
        except OperatorError as error:
            return dict.fromkeys(wanted, _unknown(error))

    async def _blocking(self, bootstrap: str, call: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(loop.run_in_executor(self._pool, call), KAFKA_CALL_TIMEOUT_S)
        except TimeoutError:
            loop.run_in_executor(None, self._clients.drop, bootstrap)  # ends the call that hangs
            raise Transient("KafkaSilent", f"{bootstrap} does not answer in time") from None

    def _groups(self, bootstrap: str, wanted: dict[str, set[str]]) -> dict[str, Answer]:
        self._clients.drop_idle()
        admin = self._clients.get(bootstrap)
        try:
            answers = questions.groups(admin, wanted)
        except (kafka.errors.KafkaError, RuntimeError) as error:  # RuntimeError: another thread dropped the client
            self._clients.drop(bootstrap)
            raise Transient("BrokersUnreachable", f"{bootstrap}: {type(error).__name__}") from None
        if any(isinstance(one, Unknown) and one.reason in MOVED for one in answers.values()):
            self._clients.drop(bootstrap)
        return answers

    def _remove(self, bootstrap: str, group_id: str, members: Sequence[Leaver]) -> None:
        admin = self._clients.get(bootstrap)
        try:
            questions.remove_members(admin, group_id, members)
        except (kafka.errors.KafkaError, RuntimeError) as error:
            self._clients.drop(bootstrap)
            raise Transient("BrokersUnreachable", f"{bootstrap}: {type(error).__name__}") from None


def _unknown(error: OperatorError) -> Unknown:
    return Unknown(reason=error.reason, message=error.message)
