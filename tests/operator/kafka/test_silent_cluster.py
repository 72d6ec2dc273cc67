"""A cluster that is known to be silent costs one question a wait, the others an answer at once."""

import asyncio
import threading
from typing import Any

import kafka.errors
import pytest
from muster_operator.kafka import questions
from muster_operator.kafka.adapter import KafkaAdapter
from muster_operator.kafka.clients import Clients
from muster_operator.limits import KAFKA_UNREACHABLE_FOR_MS
from muster_operator.world.views import Unknown

from tests.operator.fakes.clocks import FakeClock

ADDRESS = "broker:9092"
SAID = ("BootstrapUnreachable", f"no broker answers at {ADDRESS}")


class Attempts:
    """Connects to nobody; each attempt after the first lasts until `give_up` is set."""

    def __init__(self) -> None:
        self.count = 0
        self.under_way = threading.Event()
        self.give_up = threading.Event()

    def __call__(self, _: str) -> Any:
        self.count += 1
        if self.count > 1:
            self.under_way.set()
            assert self.give_up.wait(20)
        raise kafka.errors.KafkaTimeoutError


async def question(adapter: KafkaAdapter, group: str) -> tuple[str, str]:
    answer = await adapter.group(bootstrap=ADDRESS, group_id=group, topics=["orders"])
    assert isinstance(answer, Unknown)
    return answer.reason, answer.message


@pytest.mark.timeout(30)
def test_a_thousand_groups_do_not_wait_for_the_next_attempt() -> None:
    clock, attempts = FakeClock(), Attempts()

    async def scene() -> None:
        adapter = KafkaAdapter(Clients(clock, attempts))
        try:
            assert await question(adapter, "first") == SAID
            clock.advance(KAFKA_UNREACHABLE_FOR_MS)
            asking = asyncio.create_task(question(adapter, "asks again"))
            assert await asyncio.to_thread(attempts.under_way.wait, 20)
            at_once = await asyncio.wait_for(asyncio.gather(*(question(adapter, f"g{n}") for n in range(1_000))), 20)
            assert set(at_once) == {SAID}
            assert not asking.done(), "the attempt is still under way"
            attempts.give_up.set()
            assert await asking == SAID
            assert attempts.count == 2
        finally:
            attempts.give_up.set()
            await adapter.close()

    asyncio.run(scene())


@pytest.mark.timeout(30)
def test_the_first_question_to_a_cluster_is_waited_for_by_all() -> None:
    """Nothing is known of it yet, so nobody is told that it is silent."""
    attempts = Attempts()
    attempts.count = 1  # so that the first attempt lasts too

    async def scene() -> None:
        adapter = KafkaAdapter(Clients(FakeClock(), attempts))
        try:
            asking = [asyncio.create_task(question(adapter, f"g{n}")) for n in range(10)]
            assert await asyncio.to_thread(attempts.under_way.wait, 20)
            assert not any(one.done() for one in asking)
            attempts.give_up.set()
            assert set(await asyncio.gather(*asking)) == {SAID}
        finally:
            attempts.give_up.set()
            await adapter.close()

    asyncio.run(scene())


class OneBrokerGone:
    """The client's words change with its own back-off, and nothing else does."""

    def __init__(self, *errors: type[kafka.errors.KafkaError]) -> None:
        self.errors = list(errors)

    def describe_groups(self, *_: Any, **__: Any) -> Any:
        raise self.errors.pop(0)


def test_silence_has_one_sentence_whatever_the_client_calls_it() -> None:
    """Each other sentence would be a write of the status, of every group of a cluster that is down, at each look."""
    silent = OneBrokerGone(
        kafka.errors.KafkaConnectionError,
        kafka.errors.NodeNotReadyError,
        kafka.errors.KafkaTimeoutError,
        kafka.errors.RequestTimedOutError,
        kafka.errors.GroupAuthorizationFailedError,
    )
    *said, refusal = [questions._describe(silent, {"g": 3})["g"] for _ in range(5)]
    assert said == [Unknown(reason="CoordinatorUnreachable", message="broker 3 does not answer")] * 4
    assert refusal == Unknown(reason="CoordinatorUnreachable", message="broker 3: GroupAuthorizationFailedError")
