"""Users' passwords in the controller's log (ADR 52): set, deleted, the first ones, and the checkpoint."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller import scram_credentials
from muster_coordinator.controller.commands import (
    DeleteScramCredential,
    FirstScramCredentials,
    NewScramCredential,
    SetScramCredential,
)
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.security.scram import ScramMechanism

from tests.controller.cluster_commands import VOTERS, Log, create, form, register
from tests.controller.test_replacement import at_level_3
from tests.controller.test_transitions import refused

SECRET, OTHER_SECRET = b"s" * 32, b"t" * 32


def new(user: str = "alice", mechanism: int = 2, **changes: object) -> NewScramCredential:
    size = 32 if mechanism == 1 else 64
    values = {"iterations": 4096, "salt": b"salt", "stored_key": b"K" * size, "server_key": b"V" * size, **changes}
    return NewScramCredential(user=user, mechanism=mechanism, **values)  # type: ignore[arg-type]


def sets(user: str = "alice", mechanism: int = 2, secret: bytes = SECRET, **changes: object) -> SetScramCredential:
    return SetScramCredential(credential=new(user, mechanism, **changes), secret=secret)


def deletes(user: str = "alice", mechanism: int = 2) -> DeleteScramCredential:
    return DeleteScramCredential(user=user, mechanism=mechanism)


def first(*credentials: NewScramCredential, secret: bytes = SECRET) -> FirstScramCredentials:
    return FirstScramCredentials(credentials=credentials, secret=secret)


def held(log: Log) -> dict[str, list[tuple[int, int]]]:
    return {
        user: [(one.mechanism.value, one.iterations) for one in credentials]
        for user, credentials in log.cluster.scram_users.items()
    }


def test_a_user_has_one_credential_for_each_mechanism_in_the_order_of_its_number() -> None:
    log = at_level_3(sets(), sets(mechanism=1, iterations=8192), sets("bob"), sets(iterations=16_384))
    assert held(log) == {"alice": [(1, 8192), (2, 16_384)], "bob": [(2, 4096)]}
    assert log.apply(deletes()).error == Code.NONE
    assert held(log) == {"alice": [(1, 8192)], "bob": [(2, 4096)]}
    log.apply(deletes(mechanism=1))
    assert held(log) == {"bob": [(2, 4096)]}
    said = refused(log, deletes(mechanism=1), Code.RESOURCE_NOT_FOUND)
    assert said == "Attempt to delete a user credential that does not exist"


def test_the_secret_is_the_first_ones_for_good() -> None:
    log = at_level_3(sets(), sets("bob", secret=OTHER_SECRET), deletes(), deletes("bob"), sets(secret=OTHER_SECRET))
    assert log.cluster.scram_secret == SECRET
    assert refused(at_level_3(), sets(secret=b"short"), Code.INVALID_REQUEST)


def test_a_new_password_is_the_same_credential_and_one_made_again_is_another() -> None:
    """So that the connections of a user that was deleted are known, however soon it is made again."""
    log = at_level_3(sets())
    since = log.cluster.scram_users["alice"][0].since
    log.apply(sets(salt=b"new"))
    assert log.cluster.scram_users["alice"][0].since == since
    assert log.cluster.scram_users["alice"][0].salt == b"new"
    log.apply(deletes())
    log.apply(sets())
    assert log.cluster.scram_users["alice"][0].since > since


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (sets(""), 93), (sets("a\n"), 93), (sets("ü" * 128), 93), (sets(mechanism=0), 33), (sets(mechanism=3), 33),
        (sets(iterations=4095), 93), (sets(iterations=16_385), 93), (sets(salt=b""), 93), (sets(salt=bytes(129)), 93),
        (sets(stored_key=bytes(32)), 93), (sets(server_key=b""), 93), (deletes(""), 93), (deletes(mechanism=7), 33),
        (deletes(), 91), (first(), 42),
    ],
)  # fmt: skip
def test_what_cannot_be_a_credential_is_refused(command: SetScramCredential, code: int) -> None:
    refused(at_level_3(), command, Code(code))


def test_there_are_so_many_users_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_credentials, "SCRAM_USERS_MAX", 2)
    log = at_level_3(sets("a"), sets("b"))
    assert "2 users" in refused(log, sets("c"), Code.POLICY_VIOLATION)
    assert log.apply(sets("a", mechanism=1)).error == Code.NONE, "who is there may have another password"


def test_the_first_users_are_set_once_and_never_bring_anybody_back() -> None:
    log = at_level_3(first(new("admin"), new("admin", 1), new("ops")))
    assert held(log) == {"admin": [(1, 4096), (2, 4096)], "ops": [(2, 4096)]}
    refused(log, first(new("other")), Code.POLICY_VIOLATION)
    for command in (deletes("admin"), deletes("admin", 1), deletes("ops")):
        assert log.apply(command).error == Code.NONE
    assert "had, users" in refused(log, first(new("admin")), Code.POLICY_VIOLATION)


def test_first_users_are_all_set_or_none() -> None:
    log = at_level_3()
    refused(log, first(new("admin"), new("ops", iterations=1)), Code.UNACCEPTABLE_CREDENTIAL)
    assert held(log) == {}
    assert log.cluster.scram_secret == b""


def test_below_their_level_there_are_no_users() -> None:
    for level in (1, 2):
        log = Log(form(feature_level=level), *(register(voter, feature_max=3) for voter in VOTERS))
        for command in (sets(), deletes(), first(new())):
            said = refused(log, command, Code.UNSUPPORTED_VERSION)
            assert said == f"having users needs feature level 3; the cluster has {level}"
            assert level_refusal(log.cluster, command) is not None


def test_no_text_of_a_command_or_of_the_image_shows_a_key() -> None:
    log = at_level_3(sets())
    for shown in (sets(), first(new()), log.cluster, log.cluster.scram_users):
        assert "KKKK" not in repr(shown)
        assert "VVVV" not in repr(shown)
        assert repr(SECRET) not in repr(shown)


@given(
    st.lists(
        st.one_of(
            st.builds(sets, st.sampled_from("abc"), st.integers(1, 2), iterations=st.integers(4096, 4099)),
            st.builds(deletes, st.sampled_from("abc"), st.integers(1, 2)),
            st.just(create("t")),
        ),
        max_size=12,
    )
)
def test_users_outlive_a_checkpoint(commands: list[SetScramCredential]) -> None:
    log = at_level_3()
    for command in commands:
        log.apply(command)
    twin = ControllerMachine()
    twin.restore(log.machine.image().encode())
    assert twin.cluster == log.cluster
    assert twin.cluster.scram_secret == log.cluster.scram_secret
    assert twin.state_hash() == log.machine.state_hash()


def test_users_that_cannot_be_are_corruption() -> None:
    machine = at_level_3(sets("a", 1), sets("a", 2), sets("b", 1)).machine
    head = machine.image().encode().head
    name_a, name_b = b"\0\0\0\x01a\0\0\0\x02", b"\0\0\0\x01b\0\0\0\x01"
    key, small = b"\0\0\0\x40" + b"K" * 64, b"\0\0\0\x20" + b"K" * 32
    for good, bad in (
        (name_b, name_a[:5] + name_b[5:]),  # the same name twice
        (name_a, b"\0\0\0\x01c" + name_a[5:]),  # out of order
        (name_a[:5], b"\0\0\0\x01\n"),
        (key, b"\0\0\0\x20" + b"K" * 64),
        (name_b + b"\x01", name_b + b"\x03"),
        (b"\0\0\0\x20" + SECRET, b"\0\0\0\0"),
        (name_b + b"\x01\0\0\x10\0", name_b + b"\x01\0\0\x0f\xff"),
    ):
        assert head.count(good) == 1, good
        with pytest.raises(Corruption):
            ControllerMachine().restore(CheckpointBody(head.replace(good, bad), ()))
    assert small in head


def test_mechanisms_have_kafkas_numbers() -> None:
    assert {mechanism.value: mechanism.sasl_name for mechanism in ScramMechanism} == {
        1: "SCRAM-SHA-256",
        2: "SCRAM-SHA-512",
    }
    assert dataclasses.is_dataclass(SetScramCredential)
