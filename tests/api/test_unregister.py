"""UnregisterBroker: who may leave, and what is said of the others. The codes are Kafka's where it has the case."""

from dataclasses import replace

import pytest
from muster_coordinator.controller.commands import CommandResult, MovePartition, UnregisterBroker
from muster_coordinator.controller.image import EMPTY_ID
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, broker
from tests.api.kafka_client import KafkaClient, code

NEW = BrokerId(7)


def grown() -> FakeSurface:
    surface = FakeSurface()
    surface.brokers[NEW] = broker(NEW)
    return surface


def ask(surface: FakeSurface, number: int = NEW) -> tuple[int, str | None]:
    answer = KafkaClient(surface).ask(Api.UNREGISTER_BROKER, 0, broker_id=number)
    return code(answer.error_code), answer.error_message


def test_the_broker_is_named_with_its_folder() -> None:
    surface = grown()
    assert ask(surface) == (0, None)
    assert surface.commands == [UnregisterBroker(broker=NEW, replica_uuid=surface.brokers[NEW].replica_uuid)]
    assert surface.topic_questions == 0


def test_one_that_waits_for_a_folder_may_leave() -> None:
    surface = grown()
    surface.brokers[NEW] = replace(surface.brokers[NEW], replica_uuid=EMPTY_ID, binding=1, gone=(b"g" * 16,))
    assert ask(surface) == (0, None)
    assert surface.commands == [UnregisterBroker(broker=NEW, replica_uuid=EMPTY_ID)]


@pytest.mark.parametrize("number", [8, -1, -(2**31), 2**31 - 1])
def test_an_unknown_broker_is_102_and_only_by_a_current_image(number: int) -> None:
    surface = grown()
    assert ask(surface, number) == (102, f"broker {number} is not registered")
    surface.on_image_question = lambda: False
    assert ask(surface, number)[0] == 7
    assert surface.commands == []


def test_one_that_joined_a_moment_ago_is_not_called_unknown() -> None:
    surface = FakeSurface()

    def question() -> bool:
        surface.brokers[NEW] = broker(NEW)
        return True

    surface.on_image_question = question
    assert ask(surface) == (0, None)


def test_who_votes_or_holds_something_stays() -> None:
    surface = grown()
    assert ask(surface, 1) == (44, "broker 1 votes in the controller's group")
    surface.apply(MovePartition(topic_id=b"orders----------", partition=2, voters=(NEW,)))
    assert ask(surface) == (44, "broker 7 has replicas: move orders-2 away from it first")
    assert surface.commands == []


def test_below_its_level_nobody_leaves() -> None:
    surface = grown()
    surface.feature_level = 2
    assert ask(surface) == (35, "unregistering a broker needs feature level 3; the cluster has 2")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (CommandResult(Code.NOT_CONTROLLER, "no leader"), 7),
        (CommandResult(Code.REQUEST_TIMED_OUT, "not known"), 7),
        (CommandResult(Code.BROKER_ID_NOT_REGISTERED, "gone"), 102),
        (CommandResult(Code.POLICY_VIOLATION, "it got a replica"), 44),
    ],
)
def test_what_the_controllers_log_says_is_told_and_what_passes_is_asked_again(
    result: CommandResult, expected: int
) -> None:
    surface = grown()
    surface.on_command = lambda _: result
    assert ask(surface) == (expected, result.message)


def test_before_the_cluster_is_formed_the_client_is_to_ask_again() -> None:
    surface = grown()
    surface.formed = False
    assert ask(surface)[0] == 7
