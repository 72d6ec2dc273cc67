"""What a line of `muster acl` means, by the help texts and documentation of Kafka's `kafka-acls`."""

import pytest
from muster_coordinator.cli.acl_plan import Granted, Resources, added, filters, operation_of, word
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.resources import AclOperation, AclResourceType, PatternType, Permission

ALICE = Granted(allowed=["User:alice"])
TOPIC, GROUP, CLUSTER, TXN = 2, 3, 4, 5
READ, WRITE, CREATE, DESCRIBE, IDEMPOTENT, ALL = 3, 4, 5, 8, 12, 2
LITERAL, PREFIXED, DENY, ALLOW = 3, 4, 2, 3


def said(*acls: Acl) -> set[tuple[int, str, int]]:
    return {(acl.resource_type, acl.name, acl.operation) for acl in acls}


def test_a_line_means_every_combination_once() -> None:
    granted = Granted(["User:a", "User:b"], ["User:c"], ["10.0.0.1", "10.0.0.2"], [])
    found = added(Resources(topics=["t", "u", "t"]), granted, [AclOperation.READ, AclOperation.WRITE])
    assert len(found) == len(set(found)) == 2 * 2 * (2 * 2 + 1)
    assert Acl(TOPIC, "u", LITERAL, "User:b", "10.0.0.2", WRITE, ALLOW) in found
    assert Acl(TOPIC, "t", LITERAL, "User:c", "*", READ, DENY) in found
    assert not any(acl.host == "10.0.0.1" for acl in found if acl.permission == DENY)


def test_without_an_operation_it_is_all_of_them() -> None:
    assert said(*added(Resources(groups=["g"]), ALICE, [])) == {(GROUP, "g", ALL)}


def test_a_producer_by_kafkas_documentation() -> None:
    """ "--producer: WRITE, DESCRIBE and CREATE on topic"; a transactional id: WRITE and DESCRIBE."""
    resources = Resources(topics=["t"], transactional_ids=["x"])
    assert said(*added(resources, ALICE, [], producer=True, idempotent=True)) == {
        (TOPIC, "t", WRITE), (TOPIC, "t", DESCRIBE), (TOPIC, "t", CREATE), (TXN, "x", WRITE), (TXN, "x", DESCRIBE),
        (CLUSTER, "kafka-cluster", IDEMPOTENT),
    }  # fmt: skip


def test_a_consumer_by_kafkas_documentation() -> None:
    """ "--consumer: READ and DESCRIBE on topic and READ on consumer group"."""
    found = added(Resources(topics=["t"], groups=["g"]), ALICE, [], consumer=True, pattern=PatternType.PREFIXED)
    assert said(*found) == {(TOPIC, "t", READ), (TOPIC, "t", DESCRIBE), (GROUP, "g", READ)}
    assert {acl.pattern for acl in found} == {PREFIXED}


def test_both_at_once() -> None:
    resources = Resources(topics=["t"], groups=["g"])
    found = said(*added(resources, ALICE, [], producer=True, consumer=True))
    assert found >= {(TOPIC, "t", READ), (TOPIC, "t", WRITE), (GROUP, "g", READ)}


def test_the_name_of_the_cluster_is_no_prefix() -> None:
    (acl,) = added(Resources(cluster=True), ALICE, [AclOperation.ALTER], pattern=PatternType.PREFIXED)
    assert (acl.name, acl.pattern) == ("kafka-cluster", LITERAL)


@pytest.mark.parametrize(
    ("resources", "granted", "more", "why"),
    [
        (Resources(topics=["t"]), Granted(), {}, "name somebody"),
        (Resources(), ALICE, {}, "name a resource"),
        (Resources(topics=["t"]), Granted(["User:a"], [], [], ["10.0.0.1"]), {}, "a host goes with"),
        (Resources(topics=["t"]), ALICE, {"consumer": True}, "--consumer needs --group"),
        (Resources(groups=["g"]), ALICE, {"consumer": True}, "need --topic"),
        (Resources(topics=["t"], groups=["g"]), ALICE, {"producer": True}, "--group goes with --consumer"),
        (Resources(topics=["t"], cluster=True), ALICE, {"producer": True}, "no right to the cluster"),
        (Resources(topics=["t"]), ALICE, {"idempotent": True}, "goes with --producer"),
        (Resources(topics=["t"], groups=["g"]), ALICE, {"consumer": True, "idempotent": True}, "goes with --producer"),
    ],
)
def test_a_line_that_means_nothing_is_refused(
    resources: Resources, granted: Granted, more: dict[str, bool], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        added(resources, granted, [], **more)


def test_a_client_and_an_operation_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="leave --operation out"):
        added(Resources(topics=["t"]), ALICE, [AclOperation.READ], producer=True)


def test_filters_find_what_is_named_or_everything() -> None:
    (every,) = filters(Resources())
    assert every == (AclResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY)
    found = filters(Resources(topics=["t"], groups=["g"]), principals=["User:a"], pattern=PatternType.MATCH)
    assert [(one.resource_type, one.name, one.pattern, one.principal) for one in found] == [
        (TOPIC, "t", PatternType.MATCH, "User:a"),
        (GROUP, "g", PatternType.MATCH, "User:a"),
    ]


@pytest.mark.parametrize("text", ["IdempotentWrite", "idempotent_write", "IDEMPOTENT-WRITE"])
def test_operations_are_written_as_people_write_them(text: str) -> None:
    assert operation_of(text) is AclOperation.IDEMPOTENT_WRITE


@pytest.mark.parametrize("text", ["", "any", "reed"])
def test_what_is_no_operation_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(ValueError, match="is none of All, Read, Write"):
        operation_of(text)


def test_a_number_that_is_not_known_is_shown() -> None:
    assert (word(3, AclOperation), word(99, AclOperation)) == ("READ", "99")
