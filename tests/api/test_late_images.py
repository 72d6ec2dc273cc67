"""No request says that a topic, partition or id is not there before the controller's leader was asked whether this
replica is late (`api.doubt`); and when that cannot be had, what clients take for passing."""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation, Resource
from muster_coordinator.context import RequestContext
from muster_coordinator.wire.schema import all_fields
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.api.batches import batch
from tests.api.fake_surface import FakeSurface, topic
from tests.api.judging_log import JudgingLog
from tests.api.kafka_client import KafkaClient
from tests.api.test_every_version import error_codes, happy
from tests.api.test_txn_offset_commit import Coordinator
from tests.topics.batch_bytes import idempotent

NAME = "fresh"
FRESH_ID = UUID(bytes=NAME.encode().ljust(16, b"-"))
ABSENT = {3, 100}
TOPIC = {"name": NAME, "topic": NAME, "topic_id": FRESH_ID}
CONFIG = {"resource_type": 2, "resource_name": NAME}


class Asked(NamedTuple):
    """A request about the topic `fresh`."""

    values: dict[str, Any]
    late: int
    """What is said while it is not known whether the topic is there."""
    found: int = 0
    """What is said of the topic, once the image has it; its only partition is led here."""
    by_id_since: int = 1_000


ASKED: dict[int, Asked] = {
    Api.PRODUCE: Asked(
        {
            "acks": -1,
            "timeout_ms": 1_000,
            "topic_data": [{**TOPIC, "partition_data": [{"index": 0, "records": batch()}]}],
        },
        late=6,
        found=6,  # not stored behind what was pipelined after it: it comes again
        by_id_since=13,
    ),
    Api.FETCH: Asked(
        {
            "replica_id": -1,
            "max_wait_ms": 0,
            "max_bytes": 1_000,
            "topics": [{**TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 99}]}],
        },
        late=6,
        by_id_since=13,
    ),
    Api.LIST_OFFSETS: Asked(
        {"replica_id": -1, "topics": [{**TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]}, late=6
    ),
    Api.METADATA: Asked({"topics": [{"name": NAME}]}, late=5),
    Api.OFFSET_COMMIT: Asked(
        {"group_id": "g", "topics": [{**TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]},
        late=15,
        by_id_since=10,
    ),
    Api.OFFSET_DELETE: Asked(
        {"group_id": "g", "topics": [{"name": NAME, "partitions": [{"partition_index": 0}]}]}, late=15
    ),
    Api.TXN_OFFSET_COMMIT: Asked(
        {
            "transactional_id": "g",
            "group_id": "g",
            "producer_id": 7,
            "producer_epoch": 0,
            "topics": [{"name": NAME, "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
        },
        late=15,
    ),
    Api.ADD_PARTITIONS_TO_TXN: Asked(
        {
            "v3_and_below_transactional_id": "g",
            "v3_and_below_producer_id": 7,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": NAME, "partitions": [0]}],
            "transactions": [
                {
                    "transactional_id": "g",
                    "producer_id": 7,
                    "producer_epoch": 0,
                    "verify_only": False,
                    "topics": [{"name": NAME, "partitions": [0]}],
                }
            ],
        },
        late=14,
        found=16,  # this replica coordinates no transaction
    ),
    Api.WRITE_TXN_MARKERS: Asked(
        {
            "markers": [
                {
                    "producer_id": 7,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "topics": [{"name": NAME, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
        late=6,
    ),
    Api.DELETE_TOPICS: Asked({"topic_names": [NAME], "topics": [{"name": NAME}], "timeout_ms": 1_000}, late=41),
    Api.DELETE_RECORDS: Asked(
        {"topics": [{**TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1_000}, late=6
    ),
    Api.OFFSET_FOR_LEADER_EPOCH: Asked(
        {"topics": [{**TOPIC, "partitions": [{"partition": 0, "leader_epoch": 3}]}]}, late=6
    ),
    Api.DESCRIBE_PRODUCERS: Asked({"topics": [{"name": NAME, "partition_indexes": [0]}]}, late=6),
    Api.DESCRIBE_CONFIGS: Asked({"resources": [{**CONFIG, "configuration_keys": None}]}, late=7),
    Api.ALTER_CONFIGS: Asked({"resources": [{**CONFIG, "configs": [{"name": "retention.ms", "value": "5"}]}]}, late=41),
    Api.INCREMENTAL_ALTER_CONFIGS: Asked(
        {"resources": [{**CONFIG, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "5"}]}]}, late=41
    ),
    Api.CREATE_PARTITIONS: Asked(
        {"topics": [{"name": NAME, "count": 5, "assignments": None}], "timeout_ms": 1_000}, late=41
    ),
    Api.ELECT_LEADERS: Asked(
        {"topic_partitions": [{"topic": NAME, "partitions": [0]}], "timeout_ms": 0}, late=41, found=80
    ),
    Api.DESCRIBE_TOPIC_PARTITIONS: Asked({"topics": [{"name": NAME}], "response_partition_limit": 100}, late=5),
    Api.ALTER_PARTITION_REASSIGNMENTS: Asked(
        {
            "topics": [{"name": NAME, "partitions": [{"partition_index": 0, "replicas": [1, 2, 0]}]}],
            "timeout_ms": 1_000,
        },
        late=41,
    ),
}
BY_ID: dict[int, dict[str, Any]] = {
    Api.METADATA: {"topics": [{"name": None, "topic_id": FRESH_ID}]},
    Api.DELETE_TOPICS: {"topics": [{"name": None, "topic_id": FRESH_ID}], "timeout_ms": 1_000},
}
SAYS_NOTHING_OF_THE_IMAGE = {
    Api.CREATE_TOPICS,  # the other way round: see below
    Api.OFFSET_FETCH,  # answers with the group's error: see below
    Api.DESCRIBE_QUORUM,  # 3 for any name but one, whatever the image
    Api.DESCRIBE_LOG_DIRS,  # what lies here
    Api.LIST_PARTITION_REASSIGNMENTS,  # asks always, and has no code for what is not there: `test_reassignments`
}
EVERY = [(int(api), version) for api in ASKED for version in range(VERSIONS[api].min, VERSIONS[api].max + 1)]


def late_surface(shown: bool | None = None, *, appears: bool = False) -> FakeSurface:
    """`fresh` was created elsewhere, or not; `shown`: what asking the controller's leader gives."""
    surface = FakeSurface()
    surface.on_group = happy

    def question() -> bool:
        assert shown is not None, "asked"
        if appears:
            surface.add_topic(topic(NAME, 1))
        return shown

    surface.on_image_question = question
    return surface


def client_of(surface: FakeSurface, **how: Any) -> KafkaClient:
    """Whose transactions all have the partition in them."""
    client = KafkaClient(surface, **how)
    client.dispatcher.services.verifier = Coordinator()
    return client


def codes(surface: FakeSurface, api: int, version: int, **values: Any) -> set[int]:
    return set(error_codes(client_of(surface).ask(api, version, **(values or ASKED[api].values)))) - {0}


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_what_a_late_replica_does_not_know_is_not_called_unknown(api: int, version: int) -> None:
    surface = late_surface(shown=False)
    assert codes(surface, api, version) == {ASKED[api].late}
    assert surface.commands == []


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_what_the_controllers_leader_does_not_know_either_is_unknown(api: int, version: int) -> None:
    expected = 100 if version >= ASKED[api].by_id_since else 3
    surface = late_surface(shown=True)
    assert codes(surface, api, version) == {expected}
    assert surface.image_questions + surface.topic_questions == 1, "one question a request"


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_what_arrives_while_the_controllers_leader_is_asked_is_there(api: int, version: int) -> None:
    surface = late_surface(shown=True, appears=True)
    assert codes(surface, api, version) == {ASKED[api].found} - {0}


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_what_is_known_here_asks_nobody(api: int, version: int) -> None:
    surface = late_surface()
    surface.add_topic(topic(NAME, 1))
    assert codes(surface, api, version).isdisjoint(ABSENT)


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_what_is_denied_asks_nobody(api: int, version: int) -> None:
    surface = late_surface()

    def nobody(_context: RequestContext, _operation: Operation, resource: Resource) -> bool:
        return resource.name == "g"

    surface.add_topic(topic(NAME, 1))  # by id a name must be found first
    answer = client_of(surface, authorize=nobody).ask(api, version, **ASKED[api].values)
    assert set(error_codes(answer)) - {0} in ({29}, {31})


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_commits_have_places_of_their_own(api: int, version: int) -> None:
    surface = late_surface(shown=True)
    codes(surface, api, version)
    commits = api in (Api.OFFSET_COMMIT, Api.OFFSET_DELETE, Api.TXN_OFFSET_COMMIT)
    assert (surface.image_questions, surface.topic_questions) == ((1, 0) if commits else (0, 1))


@pytest.mark.parametrize(("api", "version"), [(Api.METADATA, 12), (Api.METADATA, 13), (Api.DELETE_TOPICS, 6)])
def test_an_id_is_not_called_unknown_by_a_late_replica_either(api: Api, version: int) -> None:
    assert codes(late_surface(shown=False), api, version, **BY_ID[api]) == {ASKED[api].late}
    assert codes(late_surface(shown=True), api, version, **BY_ID[api]) == {100}
    assert codes(late_surface(shown=True, appears=True), api, version, **BY_ID[api]) == set()


PARTITION: dict[int, dict[str, Any]] = {
    Api.PRODUCE: {
        "acks": -1,
        "timeout_ms": 9,
        "topic_data": [{"name": "orders", "partition_data": [{"index": 7, "records": batch()}]}],
    },
    Api.FETCH: {
        "replica_id": -1,
        "max_wait_ms": 500,
        "max_bytes": 1_000,
        "topics": [{"topic": "orders", "partitions": [{"partition": 7, "fetch_offset": 0, "partition_max_bytes": 9}]}],
    },
    Api.LIST_OFFSETS: {
        "replica_id": -1,
        "topics": [{"name": "orders", "partitions": [{"partition_index": 7, "timestamp": -1}]}],
    },
    Api.OFFSET_FOR_LEADER_EPOCH: {"topics": [{"topic": "orders", "partitions": [{"partition": 7, "leader_epoch": 3}]}]},
    Api.DELETE_RECORDS: {
        "topics": [{"name": "orders", "partitions": [{"partition_index": 7, "offset": 0}]}],
        "timeout_ms": 1_000,
    },
    Api.DESCRIBE_PRODUCERS: {"topics": [{"name": "orders", "partition_indexes": [7]}]},
    Api.ELECT_LEADERS: {"topic_partitions": [{"topic": "orders", "partitions": [7]}], "timeout_ms": 1_000},
    Api.ALTER_PARTITION_REASSIGNMENTS: {
        "topics": [{"name": "orders", "partitions": [{"partition_index": 7, "replicas": None}]}],
        "timeout_ms": 1_000,
    },
}


@pytest.mark.parametrize("api", PARTITION)
def test_a_partition_that_was_added_elsewhere_is_not_called_unknown(api: int) -> None:
    version = min(VERSIONS[api].max, 4)
    assert codes(late_surface(shown=False), api, version, **PARTITION[api]) == {ASKED[api].late}
    assert codes(late_surface(shown=True), api, version, **PARTITION[api]) == {3}


def test_every_api_is_covered_here() -> None:
    """An API whose answers may hold 3 or 100 stands in one of the tables."""
    named = {api for api in VERSIONS if _names_topics(api)}
    assert named == ASKED.keys() | SAYS_NOTHING_OF_THE_IMAGE


def _names_topics(api: int) -> bool:
    fields = set().union(*all_fields(api, "request").values())
    of_topics = {"topics", "topic_data", "topic_names", "topic_partitions", "resources"}
    return not fields.isdisjoint(of_topics)


# -- one by one


def test_a_request_with_many_unknown_topics_asks_once() -> None:
    surface = late_surface(shown=True)
    topics = [{"name": f"t-{i}", "partitions": [{"partition_index": 0, "timestamp": -1}]} for i in range(50)]
    answer = KafkaClient(surface).ask(Api.LIST_OFFSETS, 5, replica_id=-1, topics=topics)
    assert set(error_codes(answer)) == {3}
    assert surface.topic_questions == 1


def test_known_partitions_of_a_request_do_not_wait_for_the_unknown_ones() -> None:
    surface = late_surface(shown=False)
    answer = KafkaClient(surface).ask(
        Api.LIST_OFFSETS,
        5,
        replica_id=-1,
        topics=[{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in ("orders", "nope")],
    )
    assert error_codes(answer) == [0, 6]


class Held:
    """Questions to the controller's leader stay open until `tell`."""

    def __init__(self, surface: FakeSurface) -> None:
        self._calls: list[Callable[[bool], None]] = []
        surface.hold_topic_question = self._calls.append

    def __len__(self) -> int:
        return len(self._calls)

    def tell(self, current: bool) -> None:
        calls, self._calls[:] = self._calls[:], []
        for call in calls:
            call(current)


def test_a_batch_pipelined_behind_one_of_an_unknown_topic_is_not_stored_before_it() -> None:
    """The image gets the topic while the first batch's answer is still out."""
    surface = FakeSurface()
    held = Held(surface)
    client = KafkaClient(surface)
    for sequence in (0, 1):
        records = idempotent(sequence)
        data = [{"name": NAME, "partition_data": [{"index": 0, "records": records}]}]
        client.send(Api.PRODUCE, 9, acks=-1, timeout_ms=1_000, topic_data=data)
        if sequence == 0:
            surface.add_topic(topic(NAME, 1))
            log = JudgingLog.of(surface, NAME)
    held.tell(current=True)
    answers = client.receive()
    assert [error_codes(answer) for answer in answers] == [[6], [6]]
    assert log.stored == []
    again = idempotent(0)
    data = [{"name": NAME, "partition_data": [{"index": 0, "records": again}]}]
    assert error_codes(client.ask(Api.PRODUCE, 9, acks=-1, timeout_ms=1_000, topic_data=data)) == [0]


def test_produce_without_acknowledgement_asks_nobody() -> None:
    surface = late_surface()
    client = KafkaClient(surface)
    client.send_unanswered(Api.PRODUCE, 9, **{**ASKED[Api.PRODUCE].values, "acks": 0})
    assert client.closed


@pytest.mark.parametrize("version", range(14))
def test_all_topics_are_told_when_none_can_be_missing(version: int) -> None:
    surface = late_surface(shown=True, appears=True)
    answer = KafkaClient(surface).ask(Api.METADATA, version, topics=None if version else ())
    assert [t.name for t in answer.topics] == ["__consumer_offsets", "orders", NAME]


def test_all_topics_are_told_soon_even_when_one_may_be_missing() -> None:
    """It is also how clients find the brokers while the controller has no leader."""
    surface = FakeSurface()
    held = Held(surface)
    client = KafkaClient(surface)
    client.send(Api.METADATA, 9, topics=None)
    assert client.receive() == []
    surface.fake_loop.run(limits.METADATA_ALL_TOPICS_WAIT_MS)
    (answer,) = client.receive()
    assert [t.name for t in answer.topics] == ["__consumer_offsets", "orders"]
    held.tell(current=True)
    assert client.receive() == []


def test_pages_of_all_topics_wait_for_the_same() -> None:
    surface = late_surface(shown=True, appears=True)
    answer = KafkaClient(surface).ask(Api.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=100)
    assert [t.name for t in answer.topics] == ["__consumer_offsets", NAME, "orders"]


def test_a_topic_that_was_deleted_elsewhere_can_be_made_again_here() -> None:
    surface = late_surface()

    def gone() -> bool:
        del surface.topics["orders"]
        return True

    surface.on_image_question = gone
    new = [{"name": "orders", "num_partitions": 1, "replication_factor": -1}]
    answer = KafkaClient(surface).ask(Api.CREATE_TOPICS, 5, topics=new, timeout_ms=1_000)
    assert error_codes(answer) == [0]
    assert error_codes(KafkaClient(surface_with("orders", shown=True)).ask(Api.CREATE_TOPICS, 5, topics=new)) == [36]
    assert error_codes(KafkaClient(surface_with("orders", shown=False)).ask(Api.CREATE_TOPICS, 5, topics=new)) == [41]


def surface_with(name: str, *, shown: bool) -> FakeSurface:
    surface = late_surface(shown=shown)
    surface.add_topic(topic(name, 1))
    return surface


@pytest.mark.parametrize("by_id", [True, False])
def test_committed_offsets_of_a_topic_that_the_image_lacks_are_not_left_out(by_id: bool) -> None:
    """Since v10 topics are ids: asked for by one, or told of all by theirs."""
    topics = [{"topic_id": FRESH_ID, "partition_indexes": [0]}] if by_id else None

    def fetched(surface: FakeSurface) -> tuple[int, list[tuple[UUID, list[int]]]]:
        surface.on_group = lambda request: happy(request if by_id else request._replace(topics=((NAME, (0,)),)))
        (group,) = KafkaClient(surface).ask(Api.OFFSET_FETCH, 10, groups=[{"group_id": "g", "topics": topics}]).groups
        return int(group.error_code.value), [(t.topic_id, error_codes(t.partitions)) for t in group.topics]

    assert fetched(late_surface(shown=True, appears=True)) == (0, [(FRESH_ID, [0])])
    assert fetched(late_surface(shown=False)) == (15, [])
    assert fetched(late_surface(shown=True)) == (0, [(FRESH_ID, [100])] if by_id else [])
