"""What a property of all requests does not say: Kafka's own choices, one by one (kafka.server.KafkaApis, 4.x)."""

from typing import Any

import pytest
from muster_coordinator.security.resources import CLUSTER, Operation
from muster_coordinator.upstream.apis import JUDGED
from muster_coordinator.upstream.rights.frames import Goes, Stays, judged
from muster_coordinator.upstream.rights.verdict import topic, transactional_id
from muster_coordinator.wire.versions import Api

from tests.upstream.rights.frames import CORRELATION, Owner, decode_request, request
from tests.upstream.test_brokers import framed
from tests.wire.kio_entities import decode_answer, plain

RIGHTS = {
    Api.PRODUCE: Operation.WRITE,
    Api.FETCH: Operation.READ,
    Api.LIST_OFFSETS: Operation.DESCRIBE,
    Api.OFFSET_FOR_LEADER_EPOCH: Operation.DESCRIBE,
    Api.DELETE_TOPICS: Operation.DELETE,
    Api.DELETE_RECORDS: Operation.DELETE,
    Api.CREATE_PARTITIONS: Operation.ALTER,
    Api.DESCRIBE_PRODUCERS: Operation.READ,
    Api.METADATA: Operation.DESCRIBE,
}
"""docs/security.md of Apache Kafka, "Operations and resources on protocols"."""
OF_CLUSTER = {
    Api.DESCRIBE_LOG_DIRS: Operation.DESCRIBE,
    Api.ELECT_LEADERS: Operation.ALTER,
    Api.ALTER_PARTITION_REASSIGNMENTS: Operation.ALTER,
    Api.LIST_PARTITION_REASSIGNMENTS: Operation.DESCRIBE,
    Api.DESCRIBE_CLIENT_QUOTAS: Operation.DESCRIBE_CONFIGS,
    Api.ALTER_CLIENT_QUOTAS: Operation.ALTER_CONFIGS,
    Api.DESCRIBE_QUORUM: Operation.DESCRIBE,
    Api.UPDATE_FEATURES: Operation.ALTER,
    Api.UNREGISTER_BROKER: Operation.ALTER,
}


def ask(api: Api, owner: Owner, version: int | None = None, **values: Any) -> Goes | Stays:
    version = JUDGED[api].high if version is None else version
    return judged(api, version, request(api, version, values), owner)


def told(api: Api, found: Goes | Stays, version: int | None = None) -> Any:
    assert isinstance(found, Stays)
    assert found.answer is not None
    version = JUDGED[api].high if version is None else version
    return plain(decode_answer(api, version, bytes(found.answer))[1])


def sent(api: Api, found: Goes | Stays) -> Any:
    assert isinstance(found, Goes)
    return plain(decode_request(api, found.version, found.frame))


def reworded(api: Api, found: Goes | Stays, version: int | None = None, **answer: Any) -> Any:
    """`version`: the client's; None: the highest."""
    assert isinstance(found, Goes)
    assert found.reworded is not None
    version = JUDGED[api].high if version is None else version
    given = framed(api, found.version, answer, CORRELATION)
    return plain(decode_answer(api, version, bytes(found.reworded(given)))[1])


def test_each_operation_is_kafkas() -> None:
    for api, operation in RIGHTS.items():
        owner = Owner()
        asked = "topic_names" if api == Api.DELETE_TOPICS else "topic_data" if api == Api.PRODUCE else "topics"
        one: Any = "theirs" if api == Api.DELETE_TOPICS else {"name": "theirs", "topic": "theirs"}
        ask(api, owner, **{asked: (one,), "replica_id": -1, "acks": 1})
        assert (operation, topic("theirs")) in owner.asked, api.name
    for api, operation in OF_CLUSTER.items():
        owner = Owner()
        ask(api, owner)
        assert owner.asked == [(operation, CLUSTER)], api.name


def test_who_may_make_topics_in_the_cluster_may_make_each_and_configs_are_for_who_may_describe_them() -> None:
    api, asked = Api.CREATE_TOPICS, ({"name": "theirs-one"}, {"name": "mine-one"})
    found = ask(api, Owner(cluster=True), topics=asked)
    assert [one["name"] for one in sent(api, found)["topics"]] == ["theirs-one", "mine-one"]
    config = {"name": "retention.ms", "value": "7"}
    made = [
        {"name": name, "error_code": 0, "num_partitions": 3, "replication_factor": 2, "configs": (config,)}
        for name in ("theirs-one", "mine-one")
    ]
    theirs, mine = reworded(api, found, topics=tuple(made))["topics"]
    assert (theirs["num_partitions"], theirs["configs"], theirs["topic_config_error_code"]) == (-1, (), 29)
    assert (mine["num_partitions"], len(mine["configs"]), mine["topic_config_error_code"]) == (3, 1, 0)


def test_a_question_for_all_topics_is_answered_with_ones_own() -> None:
    api = Api.METADATA
    found = ask(api, Owner(), topics=None, allow_auto_topic_creation=True)
    assert sent(api, found)["topics"] is None
    both = tuple({"name": name, "error_code": 0, "partitions": ()} for name in ("theirs-one", "mine-one"))
    assert [one["name"] for one in reworded(api, found, topics=both)["topics"]] == ["mine-one"]


def test_a_question_that_names_topics_of_others_goes_on_without_them() -> None:
    """Brokers are told in any case, and an empty list asks for these only: null would ask for all."""
    api = Api.METADATA
    found = ask(api, Owner(), topics=({"name": "theirs-one"},))
    assert sent(api, found)["topics"] == ()
    (denied,) = reworded(api, found, topics=())["topics"]
    assert (denied["name"], denied["error_code"]) == ("theirs-one", 29)


class Reader(Owner):
    """Of what is called mine, who may also make it, or may not."""

    def __init__(self, *, makes: bool) -> None:
        super().__init__()
        self.makes = makes

    def may_instead(self, operation: Operation, resource: Any) -> bool:
        assert (operation, resource) == (Operation.CREATE, CLUSTER)
        return False

    def sees(self, operation: Operation, resource: Any) -> bool:
        return self.makes if operation is Operation.CREATE else super().sees(operation, resource)


@pytest.mark.parametrize("makes", [True, False])
def test_a_question_makes_a_topic_only_by_a_right_to_make_it(makes: bool) -> None:
    """In versions that cannot say it, too: aiokafka asks in 0 and 1."""
    api = Api.METADATA
    for version in range(JUDGED[api].high + 1):
        found = ask(api, Reader(makes=makes), version, topics=({"name": "mine-one"},), allow_auto_topic_creation=True)
        assert sent(api, found)["allow_auto_topic_creation"] is makes
        assert isinstance(found, Goes)
        assert found.version == max(version, 4)
        if version < 4:
            topics = ({"name": "mine-one", "error_code": 0, "partitions": ()},)
            told_in_it = reworded(api, found, version, topics=topics, cluster_id="c")
            assert [one["name"] for one in told_in_it["topics"]] == ["mine-one"]


def test_an_empty_list_asks_for_all_topics_in_the_first_version_only() -> None:
    api = Api.METADATA
    assert [sent(api, ask(api, Owner(), version, topics=()))["topics"] for version in (0, 1, 4)] == [None, (), ()]


def test_nobody_is_told_what_the_replicas_user_may() -> None:
    for api in (Api.METADATA, Api.DESCRIBE_CLUSTER):
        for version in range(JUDGED[api].low, JUDGED[api].high + 1):
            wanted = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
            found = sent(api, ask(api, Owner(everything=True), version, **wanted))
            assert not any(found.get(name) for name in wanted)


def test_there_are_no_sessions_of_fetch() -> None:
    api = Api.FETCH
    begun = ask(api, Owner(), replica_id=-1, session_id=0, session_epoch=0, topics=({"topic": "mine-one"},))
    assert (sent(api, begun)["session_id"], sent(api, begun)["session_epoch"]) == (0, -1)
    later = told(api, ask(api, Owner(everything=True), replica_id=-1, session_id=7, session_epoch=3))
    assert (later["error_code"], later["session_id"]) == (70, 0)


def test_a_follower_has_the_right_of_a_broker_or_none() -> None:
    api, topics = Api.FETCH, ({"topic": "mine-one", "partitions": ({"partition": 0},)},)
    (one,) = told(api, ask(api, Owner(), replica_id=1, topics=topics))["responses"]
    assert one["partitions"][0]["error_code"] == 29
    assert isinstance(ask(api, Owner(cluster=True), replica_id=1, topics=topics), Goes)


def test_what_wants_no_answer_and_is_denied_ends_the_connection() -> None:
    api = Api.PRODUCE
    for names in (("theirs-one",), ("mine-one", "theirs-one")):
        found = ask(api, Owner(), acks=0, topic_data=tuple({"name": name} for name in names))
        assert found == Stays(None)
    assert isinstance(ask(api, Owner(), acks=0, topic_data=({"name": "mine-one"},)), Goes)


def test_a_transactional_batch_needs_the_right_to_its_transaction() -> None:
    api, data = Api.PRODUCE, ({"name": "mine-one", "partition_data": ({"index": 0, "records": None},)},)
    denied = told(api, ask(api, Owner(), acks=1, transactional_id="theirs-one", topic_data=data))
    assert denied["responses"][0]["partition_responses"][0]["error_code"] == 53


def test_partitions_are_added_to_a_transaction_all_or_none() -> None:
    api = Api.ADD_PARTITIONS_TO_TXN
    topics = tuple({"name": name, "partitions": (0,)} for name in ("mine-one", "theirs-one"))
    found = told(
        api,
        ask(api, Owner(), v3_and_below_transactional_id="mine-one", v3_and_below_topics=topics),
    )["results_by_topic_v3_and_below"]
    codes = {one["name"]: one["results_by_partition"][0]["partition_error_code"] for one in found}
    assert codes == {"mine-one": 55, "theirs-one": 29}


def test_a_producer_id_is_for_who_may_write_anything_or_by_the_right_to_its_transaction() -> None:
    class Nobody(Owner):
        def may_some(self, operation: Operation, kind: Any) -> bool:
            return False

    api = Api.INIT_PRODUCER_ID
    assert told(api, ask(api, Nobody(), transactional_id=None))["error_code"] == 31
    assert isinstance(ask(api, Nobody(cluster=True), transactional_id=None), Goes)
    assert isinstance(ask(api, Owner(), transactional_id=None), Goes)
    assert told(api, ask(api, Owner(cluster=True), transactional_id="theirs-one"))["error_code"] == 53
    assert told(Api.END_TXN, ask(Api.END_TXN, Owner(cluster=True), transactional_id="theirs-one"))["error_code"] == 53


def test_transactions_of_others_are_in_no_list() -> None:
    api = Api.LIST_TRANSACTIONS
    both = tuple(
        {"transactional_id": name, "producer_id": 1, "transaction_state": "Ongoing"} for name in ("theirs", "mine")
    )
    found = reworded(api, ask(api, Owner()), error_code=0, transaction_states=both)
    assert [one["transactional_id"] for one in found["transaction_states"]] == ["mine"]
    owner = Owner()
    described = ask(Api.DESCRIBE_TRANSACTIONS, owner, transactional_ids=("mine",))
    assert (Operation.DESCRIBE, transactional_id("mine")) in owner.asked
    topics = tuple({"topic": name, "partitions": (0,)} for name in ("theirs-one", "mine-one"))
    state: dict[str, Any] = {"transaction_start_time_ms": 5} | {
        "error_code": 0,
        "transactional_id": "mine",
        "transaction_state": "Ongoing",
        "topics": topics,
    }
    (found,) = reworded(Api.DESCRIBE_TRANSACTIONS, described, transaction_states=(state,))["transaction_states"]
    assert [one["topic"] for one in found["topics"]] == ["mine-one"]


def test_a_config_is_a_topics_a_groups_or_the_clusters() -> None:
    api = Api.DESCRIBE_CONFIGS
    for kind, code in ((2, 29), (32, 30), (4, 31), (8, 31), (16, 31)):
        (one,) = told(api, ask(api, Owner(), resources=({"resource_type": kind, "resource_name": "theirs"},)))[
            "results"
        ]
        assert (one["error_code"], one["resource_type"], one["resource_name"]) == (code, kind, "theirs")
