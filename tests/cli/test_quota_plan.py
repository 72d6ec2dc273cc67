"""What a line of `muster quota` means, by the options of Kafka's `kafka-configs`."""

import pytest
from muster_coordinator.cli.quota_plan import Named, assigned, number, removed, shown
from muster_coordinator.security.quota_entities import QuotaEntity

ANNA: QuotaEntity = (("user", "anna"),)
HOST: QuotaEntity = (("ip", "10.0.0.1"),)


@pytest.mark.parametrize(
    ("named", "entity"),
    [
        (Named(user="anna"), ANNA),
        (Named(user="anna", client="app"), (("client-id", "app"), ("user", "anna"))),
        (Named(user="anna", client_defaults=True), (("client-id", ""), ("user", "anna"))),
        (Named(user_defaults=True, client="app"), (("client-id", "app"), ("user", ""))),
        (Named(user_defaults=True, client_defaults=True), (("client-id", ""), ("user", ""))),
        (Named(user_defaults=True), (("user", ""),)),
        (Named(client="app"), (("client-id", "app"),)),
        (Named(client_defaults=True), (("client-id", ""),)),
        (Named(ip="10.0.0.1"), HOST),
        (Named(ip_defaults=True), (("ip", ""),)),
        (Named(), ()),
    ],
)
def test_options_name_an_entity(named: Named, entity: QuotaEntity) -> None:
    assert named.entity() == entity


@pytest.mark.parametrize(
    "named",
    [
        Named(user="anna", user_defaults=True),
        Named(user=""),
        Named(ip="10.0.0.1", user="anna"),
        Named(client="c" * 1_025),
    ],
)
def test_options_that_name_none_are_refused(named: Named) -> None:
    with pytest.raises(ValueError, match=r"."):
        named.entity()


def test_quotas_are_read_and_held_against_their_entity() -> None:
    wanted = assigned(ANNA, ["producer_byte_rate=1e6", "request_percentage=12.5"])
    assert wanted == {"producer_byte_rate": 1e6, "request_percentage": 12.5}
    assert assigned(HOST, ["connection_creation_rate=20"]) == {"connection_creation_rate": 20}


@pytest.mark.parametrize(
    "text",
    [
        "producer_byte_rate", "producer_byte_rate=", "producer_byte_rate=fast", "producer_byte_rate=0",
        "producer_byte_rate=1.5", "producer_byte_rate=nan", "made_up=1", "connection_creation_rate=1",
    ],
)  # fmt: skip
def test_what_is_no_quota_of_a_user_is_refused_before_anything_is_sent(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        assigned(ANNA, [text])
    with pytest.raises(ValueError, match="twice"):
        assigned(ANNA, ["producer_byte_rate=1", "producer_byte_rate=2"])
    with pytest.raises(ValueError, match="say whose"):
        assigned((), ["producer_byte_rate=1"])


def test_without_a_key_all_are_removed_and_an_unknown_one_is_refused() -> None:
    assert removed(ANNA, (), ["b", "a"]) == ["a", "b"]
    assert removed(ANNA, ["request_percentage"], ["b", "a"]) == ["request_percentage"]
    with pytest.raises(ValueError, match="connection_creation_rate"):
        removed(ANNA, ["connection_creation_rate"], ())
    with pytest.raises(ValueError, match="say whose"):
        removed((), (), ())


def test_rows_have_the_default_as_kafkas_tools_write_it_and_whole_numbers() -> None:
    assert shown((("client-id", ""), ("user", "anna"))) == {"user": "anna", "client": "<default>", "ip": ""}
    assert (number(5.0), number(12.5)) == (5, 12.5)
