"""The stream `muster.audit`: one line for each request that changes something, refused ones too; no secret in any."""

from typing import Any

import pytest
from muster_coordinator.api.audit import NAMES_MAX, REMOVED_BY_ADMIN, RESOURCES
from muster_coordinator.api.authorize import Operation, Resource, allow_all
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.context import RequestContext
from muster_coordinator.events import AUDITED, Event
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.api.kafka_client import KafkaClient
from tests.api.test_every_version import REQUESTS, SERVED, happy_surface
from tests.made_settings import api_settings

CHANGING = sorted(int(api) for api in RESOURCES)


def nobody(_context: RequestContext, _operation: Operation, _resource: Resource) -> bool:
    return False


def everybody(_context: RequestContext, _operation: Operation, _resource: Resource) -> bool:
    return True


def audited(authorize: Any = everybody) -> tuple[KafkaClient, list[Event]]:
    told: list[Event] = []
    surface = happy_surface()
    dispatcher = Dispatcher(surface, api_settings(), authorize, tell=told.append)
    return KafkaClient(surface, dispatcher=dispatcher), told


@pytest.mark.parametrize("api", CHANGING)
def test_each_change_leaves_one_line_and_so_does_one_that_is_refused(api: int) -> None:
    version = VERSIONS[api].max
    for authorize in (everybody, nobody):
        client, told = audited(authorize)
        client.ask(api, version, **REQUESTS[Api(api)])
        (event,) = told
        assert event.kind is AUDITED
        said = dict(event.fields)
        assert (said["principal"], said["peer"], said["listener"]) == ("User:ANONYMOUS", "10.0.0.9", "PLAINTEXT")
        assert (said["client"], said["action"]) == ("tester", Api(api).name)
        assert said["resources"]
        if authorize is nobody:
            assert "AUTHORIZATION_FAILED" in str(said["result"])


def test_what_is_asked_and_changes_nothing_leaves_none() -> None:
    client, told = audited(allow_all)
    for api, version in SERVED:
        if api not in RESOURCES and version == VERSIONS[api].max:
            client.ask(api, version, **REQUESTS[Api(api)])
    assert told == []


def test_whoever_can_change_something_is_on_the_list() -> None:
    """The rest reads, or is what consumers and producers do all day."""
    reads = {
        Api.FETCH, Api.LIST_OFFSETS, Api.METADATA, Api.OFFSET_FETCH, Api.FIND_COORDINATOR, Api.DESCRIBE_GROUPS,
        Api.LIST_GROUPS, Api.API_VERSIONS, Api.OFFSET_FOR_LEADER_EPOCH, Api.DESCRIBE_ACLS, Api.DESCRIBE_CONFIGS,
        Api.DESCRIBE_LOG_DIRS, Api.LIST_PARTITION_REASSIGNMENTS, Api.DESCRIBE_CLIENT_QUOTAS, Api.DESCRIBE_QUORUM,
        Api.DESCRIBE_USER_SCRAM_CREDENTIALS,
        Api.DESCRIBE_CLUSTER, Api.DESCRIBE_PRODUCERS, Api.DESCRIBE_TRANSACTIONS, Api.LIST_TRANSACTIONS,
        Api.DESCRIBE_TOPIC_PARTITIONS,
    }  # fmt: skip
    work = {
        Api.PRODUCE, Api.OFFSET_COMMIT, Api.JOIN_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP, Api.SYNC_GROUP,
        Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.END_TXN, Api.TXN_OFFSET_COMMIT,
        Api.INIT_PRODUCER_ID, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE,
    }  # fmt: skip
    assert RESOURCES.keys() | reads | work == VERSIONS.keys()


def test_offsets_that_are_reset_leave_a_line_once_somebody_decides_who_may() -> None:
    client, told = audited()
    commit = {**REQUESTS[Api.OFFSET_COMMIT], "generation_id_or_member_epoch": -1, "member_id": ""}
    client.ask(Api.OFFSET_COMMIT, 8, **commit)
    assert [(event.fields["action"], event.fields["resources"]) for event in told] == [("OFFSET_COMMIT", "group:g")]
    client.ask(Api.OFFSET_COMMIT, 8, **{**commit, "generation_id_or_member_epoch": 3, "member_id": "m-1"})
    assert len(told) == 1, "a member's commit is its work"
    surface = happy_surface()
    opened: list[Event] = []
    KafkaClient(surface, dispatcher=Dispatcher(surface, api_settings(), tell=opened.append)).ask(
        Api.OFFSET_COMMIT, 8, **commit
    )
    assert opened == []


@pytest.mark.parametrize(
    ("members", "version", "told"),
    [
        ([{"member_id": "m-1"}], 5, None),
        ([{"member_id": "m-1", "group_instance_id": "pod-1"}], 5, None),  # KIP-1092: a static member leaves for good
        ([{"member_id": "m-1", "reason": "the consumer is being closed"}], 5, None),
        ([], 5, None),
        ([{"member_id": "", "group_instance_id": "pod-1"}], 3, "group:g, member:pod-1"),
        ([{"member_id": "m-1"}, {"member_id": "m-2"}], 4, "group:g, member:m-1, member:m-2"),
        ([{"member_id": "m-1", "reason": f"{REMOVED_BY_ADMIN}: rollout"}], 5, "group:g, member:m-1"),
    ],
)
def test_who_removes_others_from_a_group_leaves_a_line_and_who_leaves_does_not(
    members: list[dict[str, str]], version: int, told: str | None
) -> None:
    for authorize in (everybody, nobody):
        client, events = audited(authorize)
        client.ask(Api.LEAVE_GROUP, version, group_id="g", members=members)
        assert [event.fields["resources"] for event in events] == ([] if told is None else [told])
        if events and authorize is nobody:
            assert events[0].fields["result"] == "GROUP_AUTHORIZATION_FAILED"
    client, events = audited()
    client.ask(Api.LEAVE_GROUP, 2, group_id="g", member_id="m-1")
    assert events == [], "who that is, is not in the request"


def test_of_many_resources_some_are_named() -> None:
    client, told = audited()
    names = [f"group-{n:03d}" for n in range(NAMES_MAX + 5)]
    client.ask(Api.DELETE_GROUPS, 2, groups_names=names)
    said = str(told[0].fields["resources"])
    assert said.startswith("group:group-000, ")
    assert said.endswith("group:group-019, and 5 more")


def test_values_are_never_told() -> None:
    client, told = audited()
    config = {"name": "retention.ms", "config_operation": 0, "value": "canary-secret"}
    resource = {"resource_type": 2, "resource_name": "orders", "configs": [config]}
    client.ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert [event.fields["resources"] for event in told] == ["topic:orders"]
    assert "canary-secret" not in str(told)
