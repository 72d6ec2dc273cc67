"""AlterClientQuotas and DescribeClientQuotas: Kafka's entities, filters and refusals."""

from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient
from tests.api.test_acls import Secured


def entry(*parts: tuple[str, str | None], remove: bool = False, **quotas: float) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
        "ops": [{"key": key, "value": value, "remove": remove} for key, value in quotas.items()],
    }


def alter(client: KafkaClient, *entries: dict[str, Any], validate_only: bool = False) -> list[int]:
    answer = client.ask(Api.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=validate_only)
    return [int(one.error_code.value) for one in answer.entries]


def found(client: KafkaClient, *components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    asked = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components]
    answer = client.ask(Api.DESCRIBE_CLIENT_QUOTAS, 1, components=asked, strict=strict)
    assert int(answer.error_code.value) == 0
    return [tuple((part.entity_type, part.entity_name) for part in one.entity) for one in answer.entries]


@pytest.fixture
def client() -> KafkaClient:
    return KafkaClient(Secured())


USER, CLIENT, BOTH = ("user", "a"), ("client-id", "c"), (("client-id", None), ("user", "a"))


def test_quotas_are_set_shown_and_removed(client: KafkaClient) -> None:
    rates = {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}
    assert alter(client, entry(USER, **rates), entry(CLIENT, request_percentage=12.5), entry(*BOTH, **rates)) == [0] * 3
    answer = client.ask(Api.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
    told = {
        tuple((part.entity_type, part.entity_name) for part in one.entity): {v.key: v.value for v in one.values}
        for one in answer.entries
    }
    assert told == {(USER,): rates, (CLIENT,): {"request_percentage": 12.5}, BOTH: rates}
    removed = [entry(USER, remove=True, **rates), entry(CLIENT, remove=True, request_percentage=0.0)]
    assert alter(client, *removed) == [0, 0]
    assert found(client) == [BOTH]


def test_filters_find_what_kafkas_find(client: KafkaClient) -> None:
    alter(client, *(entry(*one, producer_byte_rate=1.0) for one in ((USER,), (CLIENT,), BOTH, (("user", None),))))
    assert found(client, ("user", 0, "a")) == [BOTH, (USER,)]
    assert found(client, ("user", 0, "a"), strict=True) == [(USER,)]
    assert found(client, ("user", 1, None)) == [(("user", None),)]
    assert set(found(client, ("user", 2, None), strict=True)) == {(USER,), (("user", None),)}
    assert found(client, ("user", 2, None), ("client-id", 1, None)) == [BOTH]
    assert found(client, ("ip", 2, None)) == []


@pytest.mark.parametrize(
    "bad",
    [
        entry(producer_byte_rate=1.0),
        entry(("planet", "a"), producer_byte_rate=1.0),
        entry(USER, made_up=1.0),
        entry(USER, producer_byte_rate=0.0),
        entry(USER, producer_byte_rate=0.5),
        entry(USER, producer_byte_rate=float("inf")),
        entry(USER, connection_creation_rate=1.0),
        entry(USER, ("ip", "10.0.0.1"), connection_creation_rate=1.0),
        entry(("user", ""), producer_byte_rate=1.0),
        {**entry(USER), "ops": [{"key": "request_percentage", "value": 1.0, "remove": False}] * 2},
    ],
)
def test_one_that_is_not_valid_is_refused_and_those_beside_it_are_set(client: KafkaClient, bad: dict[str, Any]) -> None:
    assert alter(client, bad, entry(CLIENT, producer_byte_rate=1.0)) == [Code.INVALID_REQUEST, 0]
    assert found(client) == [(CLIENT,)]


def test_an_entity_that_is_named_twice_is_not_changed(client: KafkaClient) -> None:
    one = entry(USER, producer_byte_rate=1.0)
    assert alter(client, one, one) == [42, 42]
    assert found(client) == []


def test_what_is_only_validated_changes_nothing(client: KafkaClient) -> None:
    assert alter(client, entry(USER, producer_byte_rate=1.0), validate_only=True) == [0]
    assert found(client) == []
