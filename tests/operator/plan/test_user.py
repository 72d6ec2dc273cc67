"""Decisions about a User: its credential, ACLs and quotas; what others have given it is never taken away."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_operator.api.user import OPERATIONS, parse_user
from muster_operator.plan.user import wanted_acls
from muster_operator.world.kafka_object import Acl, AddAcls, RemoveAcls, SetPassword
from muster_operator.world.views import Unknown

from tests.operator.plan.model_kafka import Model

ORDERS = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Describe"]}
GROUP = {
    "resource": {"type": "group", "name": "g", "patternType": "prefixed"},
    "operations": ["Read"],
    "host": "10.0.0.1",
}
SCRAM = ("it", "SCRAM-SHA-512")


def made(**spec: Any) -> Model:
    model = Model("User", **spec)
    model.settle()
    assert model.ready == ("True", "Applied")
    return model


def condition(model: Model, type_: str) -> tuple[str, str, str]:
    (one,) = [one for one in model.status["conditions"] if one["type"] == type_]
    return one["status"], one["reason"], one["message"]


def acl(name: str, operation: str = "Read") -> Acl:
    return Acl(permission="allow", operation=operation, host="*", resource="topic", pattern="literal", name=name)


def test_secret_credential_rights_and_quotas_are_made_and_then_left_alone() -> None:
    model = made(acls=[ORDERS, GROUP], quotas={"producerByteRate": 7})
    assert model.kafka.passwords == {SCRAM: model.secrets["it"].version}
    assert {str(one) for one in model.kafka.acls["User:it"]} == {
        "allow Read from * on literal topic orders",
        "allow Describe from * on literal topic orders",
        "allow Read from 10.0.0.1 on prefixed group g",
    }
    assert model.kafka.quotas["it"] == {"producer_byte_rate": 7.0}
    assert condition(model, "CredentialsReady")[:2] == ("True", "CredentialsSet")
    changes = len(model.kafka.changes)
    model.settle()
    assert len(model.kafka.changes) == changes


def test_one_user_with_each_field_at_its_maximum_can_be_recorded() -> None:
    rules = [
        {"resource": {"type": "topic", "name": f"{n:03}" + "x" * 246}, "operations": list(OPERATIONS), "host": "h" * 64}
        for n in range(100)
    ]
    model = made(acls=rules)
    recorded = model.status["acls"]
    assert len(recorded) == 100 * len(OPERATIONS)
    assert max(map(len, recorded)) <= 400
    assert sum(map(len, recorded)) < 1_000_000, "an object of Kubernetes has 1.5 MiB"


def test_a_right_that_is_taken_away_goes_and_a_right_of_others_stays() -> None:
    model = made(acls=[ORDERS, GROUP])
    model.kafka.acls["User:it"] |= {acl("theirs")}
    model.edit(acls=[GROUP])
    model.settle()
    assert {one.name for one in model.kafka.acls["User:it"]} == {"theirs", "g"}
    model.delete()
    model.settle()
    assert model.live is None
    assert model.kafka.acls["User:it"] == {acl("theirs")}


def test_a_right_that_was_there_before_is_not_made_its_own_by_naming_it() -> None:
    model = Model("User", acls=[ORDERS])
    model.kafka.acls["User:it"] = {acl("orders")}
    model.settle()
    assert model.status["acls"] == ["allow Describe from * on literal topic orders"]
    model.delete()
    model.settle()
    assert model.kafka.acls["User:it"] == {acl("orders")}


def test_what_is_made_is_recorded_first() -> None:
    model = Model("User", acls=[ORDERS], quotas={"requestPercentage": 5})
    while "acls" not in model.status:
        assert model.kafka.changes == []
        model.step()
    assert model.kafka.changes == []
    assert (model.status["mechanism"], model.status["quotas"]) == ("SCRAM-SHA-512", ["request_percentage"])


def test_a_credential_that_is_not_from_here_is_overwritten_only_if_that_is_meant() -> None:
    model = Model("User")
    model.kafka.passwords[SCRAM] = "theirs"
    model.settle()
    assert model.ready == ("False", "NotAdopted")
    assert model.kafka.passwords == {SCRAM: "theirs"}
    assert model.secrets == {}
    model.delete()
    assert model.live is None, "nothing holds it, and nothing of it is removed"
    model = Model("User")
    model.kafka.passwords[SCRAM] = "theirs"
    model.annotate(**{"muster.dev/adopt": "true"})
    model.settle()
    assert model.kafka.passwords == {SCRAM: model.secrets["it"].version}


def test_a_new_content_of_the_secret_is_a_new_password_in_kafka() -> None:
    model = Model("User", authentication={"passwordSecret": {"name": "mine"}})
    model.settle()
    assert model.ready == ("False", "SecretNotFound")
    model.put_secret("mine")
    model.settle()
    first = model.kafka.passwords[SCRAM]
    model.put_secret("mine")
    model.settle()
    assert model.kafka.passwords[SCRAM] != first
    sets = [one for one in model.kafka.changes if isinstance(one, SetPassword)]
    assert len(sets) == 2
    model.kafka.passwords.clear()
    model.settle()
    assert model.kafka.passwords == {SCRAM: model.secrets["it"].version}, "one that others have deleted comes back"


def test_a_secret_of_somebody_else_is_not_taken_over() -> None:
    model = Model("User")
    model.put_secret("it", owned=False)
    version = model.secrets["it"].version
    model.settle()
    assert model.ready == ("False", "NameTaken")
    assert (model.secrets["it"].version, model.kafka.passwords) == (version, {})


def test_another_secret_name_leaves_no_password_behind() -> None:
    model = made(secretName="first")
    model.edit(secretName="second")
    model.settle()
    assert set(model.secrets) == {"second"}
    assert model.kafka.passwords[SCRAM] == model.secrets["second"].version


def test_a_certificate_is_a_persons_matter_and_the_condition_says_for_whom() -> None:
    model = made(authentication={"type": "tls"}, acls=[ORDERS])
    assert (model.secrets, model.kafka.passwords) == ({}, {})
    status, reason, message = condition(model, "CredentialsReady")
    assert (status, reason) == ("False", "CertificateYours")
    assert "User:CN=it" in message
    assert len(model.kafka.acls["User:CN=it"]) == 2


def test_a_user_by_tokens_has_rights_and_quotas_and_nothing_secret_here() -> None:
    model = made(
        authentication={"type": "oauthbearer"}, userName="0b1c-77", acls=[ORDERS], quotas={"producerByteRate": 7}
    )
    status, reason, message = condition(model, "CredentialsReady")
    assert (status, reason) == ("Unknown", "TokenYours")
    assert "User:0b1c-77" in message
    assert (model.secrets, model.kafka.passwords) == ({}, {})
    assert len(model.kafka.acls["User:0b1c-77"]) == 2
    assert model.kafka.quotas["0b1c-77"] == {"producer_byte_rate": 7.0}
    assert "secret" not in model.status


def test_from_password_to_token_the_credential_and_its_secret_go() -> None:
    model = made()
    model.edit(authentication={"type": "oauthbearer"})
    model.settle()
    assert (model.secrets, model.kafka.passwords) == ({}, {})
    assert "mechanism" not in model.status


def test_from_password_to_certificate_the_credential_and_its_secret_go() -> None:
    model = made(userName="same")
    model.edit(authentication={"type": "tls"})
    model.settle()
    assert (model.kafka.passwords, model.secrets) == ({}, {})
    assert "mechanism" not in model.status


def test_from_one_mechanism_to_another_only_the_new_one_is_left() -> None:
    model = made()
    model.edit(authentication={"type": "scram-sha-256"})
    model.settle()
    assert set(model.kafka.passwords) == {("it", "SCRAM-SHA-256")}


def test_without_an_authorizer_rights_are_refused_and_users_without_rights_are_made() -> None:
    model = Model("User", acls=[ORDERS])
    model.kafka.authorizer = False
    model.settle()
    assert model.ready == ("False", "NoAuthorizer")
    model.edit(acls=[])
    model.settle()
    assert model.ready == ("True", "Applied")


def test_quotas_of_others_stay_and_its_own_go() -> None:
    model = made(quotas={"producerByteRate": 7, "consumerByteRate": 8})
    model.kafka.quotas["it"]["request_percentage"] = 9.0
    model.edit(quotas={"producerByteRate": 70})
    model.settle()
    assert model.kafka.quotas["it"] == {"producer_byte_rate": 70.0, "request_percentage": 9.0}
    model.delete()
    model.settle()
    assert model.kafka.quotas["it"] == {"request_percentage": 9.0}


@pytest.mark.parametrize("deletes", [True, False])
def test_the_policy_decides_what_becomes_of_the_user(deletes: bool) -> None:
    model = made(acls=[ORDERS], deletionPolicy="Delete" if deletes else "Retain")
    model.delete()
    model.settle()
    assert model.live is None
    assert (model.kafka.passwords == {}) == deletes
    assert (model.kafka.acls["User:it"] == set()) == deletes


def test_a_cluster_that_does_not_answer_is_not_taken_for_one_without_the_user() -> None:
    model = made(acls=[ORDERS])
    model.kafka.silent = Unknown(reason="AuthenticationFailed", message="the login is not taken")
    plan = model.step()
    assert (plan.actions, model.ready) == ((), ("Unknown", "AuthenticationFailed"))
    assert len(model.status["acls"]) == 2
    model.delete()
    model.settle()
    assert model.live is not None
    model.kafka.silent = None
    model.settle()
    assert (model.live, model.kafka.passwords) == (None, {})


def test_the_younger_of_two_objects_touches_nothing() -> None:
    model = Model("User", acls=[ORDERS])
    model.elder = "shop/first"
    model.settle()
    assert model.ready == ("False", "NameShared")
    model.delete()
    model.settle()
    assert (model.live, model.kafka.changes) == (None, [])


NAMES = st.sampled_from(["a", "b", "c"])
RULE = st.fixed_dictionaries(
    {
        "resource": st.fixed_dictionaries({"type": st.sampled_from(["topic", "group"]), "name": NAMES}),
        "operations": st.lists(st.sampled_from(["Read", "Write"]), min_size=1, max_size=2, unique=True),
        "permission": st.sampled_from(["allow", "deny"]),
    }
)
RULES = st.lists(RULE, max_size=3)


@given(
    first=RULES, later=st.lists(RULES, max_size=3), before=st.sets(NAMES), after=st.sets(NAMES),
    crashes=st.lists(st.integers(0, 4), max_size=6),
)  # fmt: skip
def test_rights_of_others_outlive_any_change_and_any_end_of_the_operator(
    first: list[Any], later: list[Any], before: set[str], after: set[str], crashes: list[int]
) -> None:
    """Others give rights before it exists and while it exists; the operator ends after any action. As long as it exists
    the user has its own rights and theirs, and afterwards exactly theirs."""
    model = Model("User", acls=first)
    foreign = {acl(name) for name in before}
    model.kafka.acls["User:it"] = set(foreign)
    ends = iter(crashes)
    for rules in (first, *later):
        model.edit(acls=rules)
        for crash in (next(ends, None), next(ends, None)):
            model.step(crash_after=crash)
    model.settle()
    wanted = set(wanted_acls(parse_user(model.live or {})))
    assert model.kafka.acls["User:it"] == wanted | foreign
    late = {acl(name, "Delete") for name in after}
    model.kafka.acls["User:it"] |= late
    model.delete()
    for crash in (next(ends, None), next(ends, None)):
        if model.live is not None:
            model.step(crash_after=crash)
    model.settle()
    assert model.live is None
    assert model.kafka.acls["User:it"] == foreign | late
    for change in model.kafka.changes:
        if isinstance(change, RemoveAcls):
            assert not set(change.acls) & (foreign | late)
        if isinstance(change, AddAcls):
            assert change.acls
