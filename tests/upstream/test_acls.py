"""The upstream's ACLs, as its brokers tell them: Kafka's schemas by kio, in each version; what is not understood."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.limits import ACL_TEXT_CHARS_MAX
from muster_coordinator.upstream.acls import ToldAcls, acls_version, ask_acls, read_acls
from muster_coordinator.upstream.apis import Offered
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.upstream.test_brokers import framed
from tests.upstream.test_looks import read_request

VERSION_RANGE = range(VERSIONS[Api.DESCRIBE_ACLS].min, VERSIONS[Api.DESCRIBE_ACLS].max + 1)
JUDGED = (2, 3, 4, 5)
ANY = 1


def told(version: int, *acls: Acl, code: int = 0, message: str | None = None) -> ToldAcls:
    """One resource for each, as no broker has to join them."""
    resources = [
        {
            "resource_type": acl.resource_type, "resource_name": acl.name, "pattern_type": acl.pattern,
            "acls": [
                {
                    "principal": acl.principal, "host": acl.host, "operation": acl.operation,
                    "permission_type": acl.permission,
                }
            ],
        }
        for acl in acls
    ]  # fmt: skip
    values = {"error_code": code, "error_message": message, "resources": resources}
    return ToldAcls(version, framed(Api.DESCRIBE_ACLS, version, values, 4))


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
ACLS = st.builds(
    Acl,
    resource_type=st.sampled_from((*JUDGED, 6, 7, 99)),
    name=TEXTS | st.just("n" * (ACL_TEXT_CHARS_MAX + 1)),
    pattern=st.sampled_from((3, 4)),
    principal=TEXTS.map(lambda name: f"User:{name}"),
    host=st.sampled_from(("*", "10.0.0.1")),
    operation=st.integers(2, 30),
    permission=st.sampled_from((2, 3)),
)


@given(st.sampled_from(VERSION_RANGE), st.lists(ACLS, max_size=8))
def test_all_that_is_judged_here_is_read(version: int, acls: list[Acl]) -> None:
    assert read_acls(told(version, *acls)) == {acl for acl in acls if acl.resource_type in JUDGED}


@pytest.mark.parametrize("version", VERSION_RANGE)
def test_everything_is_asked_for(version: int) -> None:
    asked: Any = read_request(Api.DESCRIBE_ACLS, version, ask_acls(version, 4))
    assert (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type) == (ANY,) * 4
    assert (asked.resource_name_filter, asked.principal_filter, asked.host_filter) == (None, None, None)


GROUP = Acl(3, "g", 3, "User:a", "*", 3, 3)


@pytest.mark.parametrize("odd", [{"pattern": 5}, {"pattern": 0}, {"permission": 4}, {"permission": 0}])
def test_one_that_is_not_understood_is_not_passed_over(odd: dict[str, int]) -> None:
    """It could be a DENY."""
    with pytest.raises(WireError, match="not known here"):
        read_acls(told(3, GROUP, GROUP._replace(**odd)))


def test_a_pattern_that_is_not_understood_hides_no_other() -> None:
    with pytest.raises(WireError):
        read_acls(told(3, GROUP._replace(pattern=5, permission=2)))


@pytest.mark.parametrize(
    ("code", "why"),
    [(31, "has no right to describe the cluster"), (54, "it has no authorizer"), (-1, "error -1: words")],
)
def test_a_refusal_is_told_in_words(code: int, why: str) -> None:
    with pytest.raises(WireError, match=why):
        read_acls(told(2, code=code, message="words"))


def test_cut_answers_are_errors() -> None:
    whole = told(2, GROUP)
    for stop in range(len(whole.frame)):
        with pytest.raises(WireError):
            read_acls(whole._replace(frame=whole.frame[:stop]))


@pytest.mark.parametrize(("theirs", "version"), [((0, 1), 1), ((1, 3), 3), ((1, 9), 3), ((2, 2), 2)])
def test_the_highest_version_that_both_speak(theirs: tuple[int, int], version: int) -> None:
    assert acls_version({Api.DESCRIBE_ACLS: Offered(*theirs)}) == version


@pytest.mark.parametrize("theirs", [{}, {Api.DESCRIBE_ACLS: Offered(0, 0)}, {Api.DESCRIBE_ACLS: Offered(8, 9)}])
def test_no_version_in_common(theirs: dict[int, Offered]) -> None:
    with pytest.raises(WireError, match="DescribeAcls"):
        acls_version(theirs)
