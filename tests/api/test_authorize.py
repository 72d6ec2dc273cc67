"""Every handler asks before it looks at any state, and says no with the right code (decision 11)."""

import pytest
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.api.kafka_client import KafkaClient
from tests.api.test_every_version import REQUESTS, SERVED, error_codes, happy_surface

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

ASKED: dict[int, tuple[Operation, ResourceType, int]] = {
    Api.PRODUCE: (Operation.WRITE, TOPIC, 29),
    Api.FETCH: (Operation.READ, TOPIC, 29),
    Api.LIST_OFFSETS: (Operation.DESCRIBE, TOPIC, 29),
    Api.METADATA: (Operation.DESCRIBE, TOPIC, 29),
    Api.OFFSET_COMMIT: (Operation.READ, GROUP, 30),
    Api.OFFSET_FETCH: (Operation.DESCRIBE, GROUP, 30),
    Api.FIND_COORDINATOR: (Operation.DESCRIBE, GROUP, 30),
    Api.JOIN_GROUP: (Operation.READ, GROUP, 30),
    Api.HEARTBEAT: (Operation.READ, GROUP, 30),
    Api.LEAVE_GROUP: (Operation.READ, GROUP, 30),
    Api.SYNC_GROUP: (Operation.READ, GROUP, 30),
    Api.DESCRIBE_GROUPS: (Operation.DESCRIBE, GROUP, 30),
    Api.CREATE_TOPICS: (Operation.CREATE, CLUSTER, 29),
    Api.DELETE_TOPICS: (Operation.DELETE, CLUSTER, 29),
    Api.DELETE_RECORDS: (Operation.DELETE, TOPIC, 29),
    Api.INIT_PRODUCER_ID: (Operation.IDEMPOTENT_WRITE, CLUSTER, 31),
    Api.OFFSET_FOR_LEADER_EPOCH: (Operation.CLUSTER_ACTION, CLUSTER, 29),
    Api.ADD_PARTITIONS_TO_TXN: (Operation.WRITE, TRANSACTIONAL_ID, 53),
    Api.ADD_OFFSETS_TO_TXN: (Operation.WRITE, TRANSACTIONAL_ID, 53),
    Api.END_TXN: (Operation.WRITE, TRANSACTIONAL_ID, 53),
    Api.WRITE_TXN_MARKERS: (Operation.ALTER, CLUSTER, 31),
    Api.DESCRIBE_TRANSACTIONS: (Operation.DESCRIBE, TRANSACTIONAL_ID, 53),
    Api.DESCRIBE_ACLS: (Operation.DESCRIBE, CLUSTER, 31),
    Api.CREATE_ACLS: (Operation.ALTER, CLUSTER, 31),
    Api.DELETE_ACLS: (Operation.ALTER, CLUSTER, 31),
    Api.ALTER_CONFIGS: (Operation.ALTER_CONFIGS, TOPIC, 29),
    Api.DESCRIBE_LOG_DIRS: (Operation.DESCRIBE, CLUSTER, 31),
    Api.ELECT_LEADERS: (Operation.ALTER, CLUSTER, 31),
    Api.DESCRIBE_CLIENT_QUOTAS: (Operation.DESCRIBE_CONFIGS, CLUSTER, 31),
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: (Operation.DESCRIBE, CLUSTER, 31),
    Api.ALTER_USER_SCRAM_CREDENTIALS: (Operation.ALTER, CLUSTER, 31),
    Api.ALTER_CLIENT_QUOTAS: (Operation.ALTER_CONFIGS, CLUSTER, 31),
    Api.DESCRIBE_PRODUCERS: (Operation.READ, TOPIC, 29),
    Api.DESCRIBE_QUORUM: (Operation.DESCRIBE, CLUSTER, 31),
    Api.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, TOPIC, 29),
    Api.CREATE_PARTITIONS: (Operation.ALTER, TOPIC, 29),
    Api.DELETE_GROUPS: (Operation.DELETE, GROUP, 30),
    Api.INCREMENTAL_ALTER_CONFIGS: (Operation.ALTER_CONFIGS, TOPIC, 29),
    Api.ALTER_PARTITION_REASSIGNMENTS: (Operation.ALTER, CLUSTER, 31),
    Api.LIST_PARTITION_REASSIGNMENTS: (Operation.DESCRIBE, CLUSTER, 31),
    Api.OFFSET_DELETE: (Operation.DELETE, GROUP, 30),
    Api.TXN_OFFSET_COMMIT: (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, 53),
    Api.UNREGISTER_BROKER: (Operation.ALTER, CLUSTER, 31),
    Api.UPDATE_FEATURES: (Operation.ALTER, CLUSTER, 31),
    Api.DESCRIBE_TOPIC_PARTITIONS: (Operation.DESCRIBE, TOPIC, 29),
}
ASKED_OF_BROKERS = {
    (Api.ADD_PARTITIONS_TO_TXN, 4): (Operation.CLUSTER_ACTION, CLUSTER, 31),
    (Api.ADD_PARTITIONS_TO_TXN, 5): (Operation.CLUSTER_ACTION, CLUSTER, 31),
}
"""Versions that only brokers send."""
NEEDS_NO_RIGHT = {Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE, Api.DESCRIBE_CLUSTER}
SHOWS_NOTHING = {Api.LIST_TRANSACTIONS}
"""It lists the transactional ids that one may DESCRIBE; `test_transactions` has some."""
HAS_NO_CODE = {(Api.DESCRIBE_LOG_DIRS, 1), (Api.DESCRIBE_LOG_DIRS, 2)}
"""Without a field for the code, nothing is listed, as in Kafka."""
LISTED_BY_GROUP = {Api.LIST_GROUPS}
"""Without DESCRIBE on the cluster each group is asked about; see below."""


class Guard:
    """Refuses everything and remembers what was asked."""

    def __init__(self, allowed: frozenset[ResourceType] = frozenset()) -> None:
        self.asked: list[tuple[Operation, Resource]] = []
        self.allowed = allowed

    def __call__(self, _context: RequestContext, operation: Operation, resource: Resource) -> bool:
        self.asked.append((operation, resource))
        return resource.type in self.allowed


def test_every_api_is_covered_here() -> None:
    missing = VERSIONS.keys() - ASKED.keys() - NEEDS_NO_RIGHT - SHOWS_NOTHING - LISTED_BY_GROUP
    assert not missing, "add the right that it asks for to ASKED in this file"
    assert ASKED.keys() | NEEDS_NO_RIGHT | SHOWS_NOTHING | LISTED_BY_GROUP == VERSIONS.keys()


@pytest.mark.parametrize(("api", "version"), [(a, v) for a, v in SERVED if a in ASKED])
def test_a_denied_request_gets_its_code_and_no_look_at_any_state(api: int, version: int) -> None:
    surface, guard = happy_surface(), Guard()
    answer = KafkaClient(surface, authorize=guard).ask(api, version, **REQUESTS[api])
    operation, kind, expected = ASKED_OF_BROKERS.get((Api(api), version), ASKED[api])
    assert guard.asked[0][0] is operation
    assert guard.asked[0][1].type is kind
    assert set(error_codes(answer)) - {0} == ({expected} if (api, version) not in HAS_NO_CODE else set())
    assert surface.lookups == []
    assert surface.group_requests == []
    assert surface.commands == []


@pytest.mark.parametrize("version", range(6))
def test_list_groups_shows_only_what_may_be_seen(version: int) -> None:
    surface = happy_surface()
    denied = KafkaClient(surface, authorize=Guard()).ask(Api.LIST_GROUPS, version)
    assert denied.groups == ()
    by_group = KafkaClient(surface, authorize=Guard(frozenset([GROUP]))).ask(Api.LIST_GROUPS, version)
    assert {g.group_id for g in by_group.groups} == {"g"}


@pytest.mark.parametrize("api", [Api.OFFSET_COMMIT, Api.OFFSET_FETCH, Api.OFFSET_DELETE])
def test_topics_are_asked_about_too_once_the_group_is_allowed(api: int) -> None:
    surface, guard = happy_surface(), Guard(frozenset([GROUP]))
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        answer = KafkaClient(surface, authorize=guard).ask(api, version, **REQUESTS[api])
        assert 29 in error_codes(answer)
    kinds = {resource.type for _, resource in guard.asked}
    assert kinds == {GROUP, TOPIC}


def test_all_topics_leaves_out_what_may_not_be_seen() -> None:
    """No 29 in a list of everything: that would tell the names."""

    def only_orders(_context: RequestContext, _operation: Operation, resource: Resource) -> bool:
        return resource.name == "orders"

    client = KafkaClient(happy_surface(), authorize=only_orders)
    assert [t.name for t in client.ask(Api.METADATA, 9, topics=None).topics] == ["orders"]
    paged = client.ask(Api.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=100)
    assert [t.name for t in paged.topics] == ["orders"]


def test_all_committed_offsets_leave_out_what_may_not_be_seen() -> None:
    def groups_only(_context: RequestContext, _operation: Operation, resource: Resource) -> bool:
        return resource.type is GROUP

    client = KafkaClient(happy_surface(), authorize=groups_only)
    answer = client.ask(Api.OFFSET_FETCH, 7, group_id="g", topics=None)
    assert answer.topics == ()


def test_who_asks_is_asked_about_at_every_repetition_of_a_heartbeat() -> None:
    surface = happy_surface()
    surface.on_heartbeat = lambda _: Code.NONE
    asked: list[bool] = []

    def authorize(_context: RequestContext, _operation: Operation, _resource: Resource) -> bool:
        asked.append(len(asked) < 2)
        return asked[-1]

    client = KafkaClient(surface, authorize=authorize)
    answers = [client.ask(Api.HEARTBEAT, 4, group_id="g", member_id="m").error_code for _ in range(3)]
    assert asked == [True, True, False]
    assert int(answers[2].value) == Code.GROUP_AUTHORIZATION_FAILED
    assert surface.heartbeats_at_once == 0


def test_the_context_that_is_asked_about_is_the_requests() -> None:
    contexts: list[RequestContext] = []

    def note(context: RequestContext, _operation: Operation, _resource: Resource) -> bool:
        contexts.append(context)
        return True

    KafkaClient(happy_surface(), authorize=note, listener="EXTERNAL").ask(Api.HEARTBEAT, 3, group_id="g")
    assert (contexts[0].principal, contexts[0].listener, contexts[0].api_key) == ("User:ANONYMOUS", "EXTERNAL", 12)
