"""What goes on to an existing Kafka with our ACLs in front leaves its line of the audit, with what the client was told:
that Kafka sees one user, so nobody else could say who it was."""

from collections.abc import Iterator
from typing import Any

import pytest
from muster_coordinator.api.audit import RESOURCES, UNANSWERED, Audit
from muster_coordinator.context import RequestContext
from muster_coordinator.events import AUDITED, Event
from muster_coordinator.upstream.apis import JUDGED
from muster_coordinator.upstream.rights.frames import Goes, Stays, judged
from muster_coordinator.wire.schema import Entity, schema
from muster_coordinator.wire.versions import Api

from tests.upstream.rights.frames import CORRELATION, MINE, THEIRS, Owner, of_theirs, request
from tests.upstream.test_brokers import framed

CHANGES = [
    (Api(api), version)
    for api in sorted(RESOURCES.keys() & JUDGED.keys())
    for version in range(JUDGED[api].low, JUDGED[api].high + 1)
]
READS = [(Api(api), offered.high) for api, offered in sorted(JUDGED.items()) if api not in RESOURCES]
OF_THE_CLUSTER = {
    Api.ALTER_CLIENT_QUOTAS, Api.ELECT_LEADERS, Api.ALTER_PARTITION_REASSIGNMENTS, Api.UPDATE_FEATURES,
    Api.UNREGISTER_BROKER,
}  # fmt: skip


class Client:
    """Whoever asks, with the audit that replicas have."""

    def __init__(self, api: Api, version: int, **rights: bool) -> None:
        self.lines: list[Event] = []
        context = RequestContext("User:alice", "CLOSED", 1, "by-hand", "/10.0.0.9", api, version, 0)
        self.rights = Owner(**rights, audit=lambda value: Audit(self.lines.append, resets=True).of(context, value))

    def line(self) -> dict[str, Any]:
        (event,) = self.lines
        assert event.kind is AUDITED
        return dict(event.fields)


def answers(entity: Entity, code: int) -> dict[str, Any]:
    """Values with one of each list and this code wherever there is one."""
    found: dict[str, Any] = {}
    for field in entity.fields + entity.tagged:
        if field.entity is not None:
            one: Any = answers(field.entity, code)
        elif field.kind == "string":
            one = MINE[0]
        elif field.name == "error_code":
            one = code
        else:
            one = {"bytes": b"", "bool": False, "uuid": bytes(16), "float64": 0.0}.get(field.kind, 0)
        found[field.name] = (one,) if field.array else one
    return found


def passed_on(api: Api, version: int) -> tuple[Client, Goes]:
    client = Client(api, version, everything=True)
    found = judged(api, version, request(api, version, of_theirs(schema(api, version, "request"))), client.rights)
    assert isinstance(found, Goes)
    assert client.lines == [], "nothing is known of it yet"
    return client, found


def test_what_changes_something_is_asked_of_here() -> None:
    assert {api for api, _ in CHANGES} >= {Api.CREATE_TOPICS, Api.DELETE_TOPICS, Api.INCREMENTAL_ALTER_CONFIGS}
    assert len({api for api, _ in CHANGES}) == 11


@pytest.mark.parametrize(("api", "version"), CHANGES, ids=str)
def test_each_change_leaves_a_line_with_what_that_kafka_has_answered(api: Api, version: int) -> None:
    for code, result in ((0, "done"), (42, "INVALID_REQUEST"), (-1, "UNKNOWN_SERVER_ERROR")):
        client, found = passed_on(api, version)
        frame = framed(api, found.version, answers(schema(api, found.version, "response"), code), CORRELATION)
        assert found.audited is not None
        found.audited(frame if found.reworded is None else found.reworded(frame))
        said = client.line()
        assert (said["principal"], said["peer"], said["listener"]) == ("User:alice", "10.0.0.9", "CLOSED")
        assert (said["client"], said["action"], said["result"]) == ("by-hand", api.name, result)
        assert said["resources"]


@pytest.mark.parametrize(("api", "version"), CHANGES, ids=str)
def test_one_that_is_denied_leaves_a_line_too(api: Api, version: int) -> None:
    client = Client(api, version)
    found = judged(api, version, request(api, version, of_theirs(schema(api, version, "request"))), client.rights)
    assert isinstance(found, Stays)
    assert found.audited is not None
    found.audited(found.answer)
    assert "AUTHORIZATION_FAILED" in str(client.line()["result"])


@pytest.mark.parametrize(("api", "version"), CHANGES, ids=str)
def test_without_an_answer_or_with_one_that_is_none_its_result_is_not_known(api: Api, version: int) -> None:
    for frame in (None, b"", b"\0\0\0\4\0\0\0\1", b"\0\0\0\x08" + b"\xff" * 8):
        client, found = passed_on(api, version)
        assert found.audited is not None
        found.audited(frame)
        assert client.line()["result"] == UNANSWERED


@pytest.mark.parametrize(("api", "version"), READS, ids=str)
def test_what_only_asks_leaves_none(api: Api, version: int) -> None:
    client = Client(api, version, everything=True)
    values = of_theirs(schema(api, version, "request"))
    found = judged(api, version, request(api, version, values), client.rights)
    assert found.audited is None
    assert client.lines == []


def denied(topics: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    return ({"name": name, "num_partitions": 1, "replication_factor": 1} for name in topics)


def test_one_line_names_what_was_asked_for_and_tells_both_answers() -> None:
    """The part that is denied is not sent on, and is in the line."""
    client = Client(Api.CREATE_TOPICS, 7)
    values = {"topics": tuple(denied((MINE[0], THEIRS[0])))}
    found = judged(Api.CREATE_TOPICS, 7, request(Api.CREATE_TOPICS, 7, values), client.rights)
    assert isinstance(found, Goes)
    assert found.reworded is not None
    assert found.audited is not None
    frame = framed(Api.CREATE_TOPICS, 7, {"topics": ({"name": MINE[0], "error_code": 0},)}, CORRELATION)
    found.audited(found.reworded(frame))
    said = client.line()
    assert said["resources"] == f"topic:{MINE[0]}, topic:{THEIRS[0]}"
    assert said["result"] == "TOPIC_AUTHORIZATION_FAILED"
