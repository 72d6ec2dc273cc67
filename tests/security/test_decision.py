"""Decisions equal those of a plain reading of Kafka's StandardAuthorizerData and Authorizer.authorizeByResourceType.

The oracle walks all ACLs, as `findResult` and `ResourcePattern` say; it knows neither the index nor its order.
"""

import random
import time
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.security.acl import Acl, AclFilter, acl_error, filter_error
from muster_coordinator.security.acl_index import AclIndex
from muster_coordinator.security.addresses import java_address
from muster_coordinator.security.decision import Rule, allows, allows_any_of_type, judge
from muster_coordinator.security.limits import ACL_TEXT_CHARS_MAX
from muster_coordinator.security.resources import Operation, Resource, ResourceType

LITERAL, PREFIXED, DENY, ALLOW, ALL = 3, 4, 2, 3, 2

names = st.text("ab*", min_size=1, max_size=5)
principals = st.sampled_from(("User:a", "User:b", "User:*", "Group:a"))
hosts = st.sampled_from(("*", "10.0.0.1", "10.0.0.2"))
acls = st.builds(
    Acl,
    st.sampled_from((2, 3)),
    names,
    st.sampled_from((LITERAL, PREFIXED)),
    principals,
    hosts,
    st.sampled_from((ALL, *map(int, Operation))),
    st.sampled_from((DENY, ALLOW)),
)


def holds(acl: Acl, kind: int, name: str) -> bool:
    if acl.resource_type != kind:
        return False
    return name.startswith(acl.name) if acl.pattern == PREFIXED else acl.name in (name, "*")


def find_result(acl: Acl, principal: str, host: str, operation: int) -> int | None:
    """StandardAuthorizerData.findResult; None: the ACL does not match."""
    if acl.principal not in (principal, "User:*") or acl.host not in ("*", host):
        return None
    if acl.operation != ALL:
        implied = {operation}
        if acl.permission == ALLOW and operation == Operation.DESCRIBE:
            implied = {8, 3, 4, 6, 7}
        if acl.permission == ALLOW and operation == Operation.DESCRIBE_CONFIGS:
            implied = {10, 11}
        if acl.operation not in implied:
            return None
    return acl.permission


def oracle(every: frozenset[Acl], principal: str, host: str, operation: int, kind: int, name: str) -> Rule:
    of_resource = [acl for acl in every if holds(acl, kind, name)]
    results = {find_result(acl, principal, host, operation) for acl in of_resource}
    if DENY in results:
        return Rule.DENY
    if ALLOW in results:
        return Rule.ALLOW
    return Rule.NO_ALLOW if of_resource else Rule.NO_ACL


def oracle_of_type(every: frozenset[Acl], principal: str, host: str, operation: int, kind: int, default: bool) -> bool:
    """Authorizer.authorizeByResourceType, line by line."""
    if allows(oracle(every, principal, host, operation, kind, "hardcode"), if_no_acl=default):
        return True
    deny: dict[int, set[str]] = {LITERAL: set(), PREFIXED: set()}
    allow: dict[int, set[str]] = {LITERAL: set(), PREFIXED: set()}
    wildcard = False
    for acl in every:
        if acl.resource_type != kind or acl.host not in (host, "*") or acl.principal not in (principal, "User:*"):
            continue
        if acl.operation not in (operation, ALL):
            continue
        if acl.permission == DENY:
            if acl.pattern == LITERAL and acl.name == "*":
                return False
            deny[acl.pattern].add(acl.name)
        elif acl.pattern == LITERAL and acl.name == "*":
            wildcard = True
        else:
            allow[acl.pattern].add(acl.name)
    if wildcard:
        return True
    for pattern, allowed in allow.items():
        for name in allowed:
            if pattern == LITERAL and name in deny[LITERAL]:
                continue
            if not any(name[: i + 1] in deny[PREFIXED] for i in range(len(name))):
                return True
    return False


def drawn(rand: random.Random) -> frozenset[Acl]:
    def one() -> Acl:
        return Acl(
            rand.choice((2, 2, 3)),
            "".join(rand.choices("ab*", (4, 2, 1), k=rand.randrange(1, 6))),
            rand.choice((LITERAL, PREFIXED)),
            rand.choice(("User:a", "User:b", "User:*", "Group:a")),
            rand.choice(("*", "*", "10.0.0.1", "10.0.0.2")),
            rand.choice((ALL, *map(int, Operation))),
            rand.choice((DENY, ALLOW, ALLOW)),
        )

    return frozenset(one() for _ in range(rand.randrange(15)))


def test_every_decision_is_kafkas_also_after_changes() -> None:
    rand = random.Random(18)
    rules = set()
    for _ in range(1_000):
        before = drawn(rand)
        after = frozenset(rand.sample(sorted(before), len(before) // 2)) | drawn(rand)
        index = AclIndex(before)
        for every in (before, after):
            if every is after:
                index.change(after - before, before - after)
            for _ in range(10):
                principal, host = rand.choice(("User:a", "User:b", "User:c")), f"10.0.0.{rand.randrange(1, 4)}"
                operation, kind = rand.choice(tuple(Operation)), rand.choice((ResourceType.TOPIC, ResourceType.GROUP))
                name = "".join(rand.choices("ab*", (4, 2, 1), k=rand.randrange(1, 6)))
                found = judge(index, principal, host, operation, Resource(kind, name))
                rules.add(found)
                assert found is oracle(every, principal, host, operation, kind, name), (every, name)
                for default in (False, True):
                    told = allows_any_of_type(index, principal, host, operation, kind, if_no_acl=default)
                    assert told == oracle_of_type(every, principal, host, operation, kind, default), every
    assert rules == {Rule.DENY, Rule.ALLOW, Rule.NO_ALLOW, Rule.NO_ACL}, "all that may be said was said"


def test_an_index_from_which_everything_went_is_empty() -> None:
    every = [Acl(2, name, pattern, "User:a", "*", 3, ALLOW) for name in "abc" for pattern in (LITERAL, PREFIXED)]
    index = AclIndex(every)
    index.change((), every)
    assert judge(index, "User:a", "h", Operation.READ, Resource(ResourceType.TOPIC, "a")) is Rule.NO_ACL
    assert list(index.of_principal(2, "User:a")) == []


class Counted(str):
    """A name that counts how often it is compared with another one."""

    __slots__ = ()
    compared: ClassVar = 0

    def __lt__(self, other: str) -> bool:
        Counted.compared += 1
        return str.__lt__(self, other)

    def startswith(self, *found: object) -> bool:  # type: ignore[override]
        Counted.compared += 1
        return str.startswith(self, *found)  # type: ignore[arg-type]

    __hash__ = str.__hash__


def test_a_decision_among_ten_thousand_acls_looks_at_a_few_names() -> None:
    """10,000 prefixes, and 3 that hold: one bisection, and the patterns on the way. A walk would compare 10,000."""
    rand = random.Random(7)
    every = [Acl(2, f"team-{n:05d}.", PREFIXED, f"User:{n}", "*", 3, ALLOW) for n in range(9_997)]
    every += [Acl(2, prefix, PREFIXED, "User:1", "*", 4, ALLOW) for prefix in ("t", "team-", "team-0")]
    rand.shuffle(every)
    index = AclIndex(every)
    judge(index, "User:1", "h", Operation.READ, Resource(ResourceType.TOPIC, "x"))  # arranges the names, once
    for name in ("team-00001.orders", "team-05000", "zzz", "a", "team-99999"):
        Counted.compared = 0
        judge(index, "User:1", "h", Operation.READ, Resource(ResourceType.TOPIC, Counted(name)))
        assert 0 < Counted.compared <= 24, (name, Counted.compared)
    began = time.process_time()
    for n in range(1_000):
        rule = judge(index, f"User:{n}", "h", Operation.READ, Resource(ResourceType.TOPIC, f"team-{n:05d}.orders"))
        assert rule is Rule.ALLOW
    assert time.process_time() - began < 0.5  # 500 us each; it takes 5


def test_nested_prefixes_are_all_found() -> None:
    """The deny is on the shortest of 500 patterns that hold; strings beside them lie between in the order."""
    every = [Acl(2, "a" * n, PREFIXED, "User:x", "*", 3, DENY if n == 1 else ALLOW) for n in range(1, 501)]
    every += [Acl(2, "a" * n + "b", PREFIXED, "User:x", "*", 3, ALLOW) for n in range(1, 501)]
    index = AclIndex(every)
    assert judge(index, "User:x", "h", Operation.READ, Resource(ResourceType.TOPIC, "a" * 400 + "c")) is Rule.DENY
    assert judge(index, "User:x", "h", Operation.READ, Resource(ResourceType.TOPIC, "b")) is Rule.NO_ACL


@settings(max_examples=50)
@given(acls, st.builds(
    AclFilter,
    st.sampled_from((1, 2, 3)),
    st.none() | names,
    st.sampled_from((1, 2, 3, 4)),
    st.none() | principals,
    st.none() | hosts,
    st.sampled_from((1, *range(2, 13))),
    st.sampled_from((1, 2, 3)),
))  # fmt: skip
def test_a_filter_finds_what_kafkas_finds(acl: Acl, wanted: AclFilter) -> None:
    """ResourcePatternFilter.matches and AccessControlEntryFilter.matches of the Java client."""

    def pattern() -> bool:
        if wanted.resource_type not in (1, acl.resource_type):
            return False
        if wanted.pattern not in (1, 2) and wanted.pattern != acl.pattern:
            return False
        if wanted.name is None:
            return True
        if wanted.pattern == 1 or wanted.pattern == acl.pattern:
            return wanted.name == acl.name
        if acl.pattern == LITERAL:
            return acl.name in (wanted.name, "*")
        return wanted.name.startswith(acl.name)

    entry = (
        wanted.principal in (None, acl.principal)
        and wanted.host in (None, acl.host)
        and wanted.operation in (1, acl.operation)
        and wanted.permission in (1, acl.permission)
    )
    assert wanted.matches(acl) == (pattern() and entry)


GOOD = Acl(2, "orders", LITERAL, "User:a", "*", 3, ALLOW)


@pytest.mark.parametrize(
    "bad",
    [
        GOOD._replace(resource_type=1),
        GOOD._replace(resource_type=0),
        GOOD._replace(resource_type=-3),
        GOOD._replace(resource_type=8),
        GOOD._replace(pattern=1),
        GOOD._replace(pattern=2),
        GOOD._replace(pattern=5),
        GOOD._replace(operation=1),
        GOOD._replace(operation=16),
        GOOD._replace(permission=1),
        GOOD._replace(permission=4),
        GOOD._replace(name=""),
        GOOD._replace(resource_type=4),
        GOOD._replace(principal="a"),
        GOOD._replace(name="n" * (ACL_TEXT_CHARS_MAX + 1)),
        GOOD._replace(host="n" * (ACL_TEXT_CHARS_MAX + 1)),
        GOOD._replace(principal="User:" + "n" * ACL_TEXT_CHARS_MAX),
    ],
)
def test_what_is_no_acl_is_refused(bad: Acl) -> None:
    assert acl_error(bad) is not None


def test_the_longest_acl_is_one() -> None:
    assert acl_error(GOOD) is None
    assert acl_error(GOOD._replace(name="n" * ACL_TEXT_CHARS_MAX, principal="User:" + "n" * 1_019)) is None
    assert acl_error(GOOD._replace(resource_type=4, name="kafka-cluster")) is None


def test_unknown_numbers_make_no_filter() -> None:
    anything = AclFilter(1, None, 1, None, None, 1, 1)
    assert filter_error(anything) is None
    for field in ("resource_type", "pattern", "operation", "permission"):
        for number in (0, 99, -1):
            assert filter_error(anything._replace(**{field: number})) is not None


@pytest.mark.parametrize(
    ("host", "as_java_has_it"),
    [
        ("/10.0.0.9", "10.0.0.9"),
        ("/::1", "0:0:0:0:0:0:0:1"),
        ("/2001:db8::a0", "2001:db8:0:0:0:0:0:a0"),
        ("/::ffff:10.0.0.9", "10.0.0.9"),
        ("/fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("unknown", "unknown"),
        ("/a:b", "a:b"),
    ],
)
def test_addresses_are_compared_as_java_writes_them(host: str, as_java_has_it: str) -> None:
    assert java_address(host) == as_java_has_it
