"""Requests to a replica that has not applied a topic's creation yet, which another replica has answered."""

from typing import Any

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP
from muster_coordinator.replica import limits
from muster_coordinator.wire.versions import VERSIONS

from tests.api.kafka_client import KafkaClient
from tests.api.test_every_version import error_codes
from tests.api.test_late_images import ABSENT, ASKED, FRESH_ID, NAME
from tests.replica.cluster import SimCluster
from tests.sim.loop import World

CREATE = CreateTopic(name=NAME, topic_id=FRESH_ID.bytes, partitions=1, configs=())
VERSIONS_ASKED = [(int(api), version) for api in ASKED for version in {VERSIONS[api].max, min(VERSIONS[api].max, 4)}]


def ask(cluster: SimCluster, broker: int, api: int, version: int) -> set[int]:
    """The codes of the answer; the time it may take is bounded."""
    client = KafkaClient(cluster.nodes[broker])
    client.send(api, version, **ASKED[api].values)
    answers: list[Any] = []

    def answered() -> bool:
        answers.extend(client.receive())
        return bool(answers)

    cluster.world.run_until("an answer", answered, 3 * limits.CURRENT_IMAGE_WAIT_MS)
    return set(error_codes(answers[0]))


@pytest.fixture(scope="module")
def late() -> tuple[SimCluster, int]:
    """A replica that is cut off from the others before they create a topic."""
    cluster = SimCluster(World(11))
    cluster.start()
    leader = cluster.wait_leader(CONTROLLER_GROUP)
    broker = (leader + 1) % 3
    cluster.net.isolate(broker)
    assert cluster.submit(leader, CREATE).error == Code.NONE
    return cluster, broker


@pytest.mark.parametrize(("api", "version"), VERSIONS_ASKED)
def test_a_replica_that_is_cut_off_calls_no_topic_unknown(late: tuple[SimCluster, int], api: int, version: int) -> None:
    cluster, broker = late
    image = cluster.nodes[broker].image()
    assert image is not None
    assert NAME not in image.topics
    said = ask(cluster, broker, api, version) - {0}
    assert said
    assert said.isdisjoint(ABSENT)


@pytest.mark.parametrize(("api", "version"), VERSIONS_ASKED)
def test_a_late_replica_knows_the_topic_when_it_answers(api: int, version: int) -> None:
    cluster = SimCluster(World(12))
    cluster.start()
    leader = cluster.wait_leader(CONTROLLER_GROUP)
    cluster.converge([CONTROLLER_GROUP])
    assert cluster.submit(leader, CREATE).error == Code.NONE
    broker = (leader + 1) % 3
    image = cluster.nodes[broker].image()
    assert image is not None
    assert NAME not in image.topics
    assert ask(cluster, broker, api, version).isdisjoint(ABSENT)
