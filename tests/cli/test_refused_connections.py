"""A change is sent again where nobody listened at the broker's address, and never where it may have been heard."""

import pytest
from kafka.errors import KafkaConnectionError
from muster_coordinator.cli import kafka_client
from muster_coordinator.cli.exits import CliError, Exit


class Command:
    """Fails with each of these errors in turn, then is done."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, _admin: object) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> kafka_client.KafkaSide:
    monkeypatch.setattr(kafka_client, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(kafka_client.KafkaSide, "_client", lambda _side, _deadline: None)
    return kafka_client.KafkaSide("127.0.0.1:1", {}, 5.0)


def test_a_broker_that_died_a_moment_ago_and_is_still_listed_costs_another_try(side: kafka_client.KafkaSide) -> None:
    command = Command(KafkaConnectionError("111 ECONNREFUSED"), KafkaConnectionError("111 ECONNREFUSED"))
    assert side.change(command, "it") == "done"
    assert command.calls == 3


def test_what_may_have_been_heard_is_sent_once(side: kafka_client.KafkaSide) -> None:
    command = Command(KafkaConnectionError("socket disconnected"))
    with pytest.raises(CliError) as told:
        side.change(command, "it")
    assert (command.calls, told.value.code) == (1, Exit.UNREACHABLE)


def test_nobody_at_all_is_told_within_the_time(side: kafka_client.KafkaSide) -> None:
    side.timeout_s = 0.0
    with pytest.raises(CliError):
        side.change(Command(*[KafkaConnectionError("111 ECONNREFUSED")] * 2), "it")
