"""DescribeUserScramCredentials and AlterUserScramCredentials: Kafka's codes and texts, and what reaches the log."""

from typing import Any

import pytest
from muster_coordinator.controller.commands import DeleteScramCredential, SetScramCredential
from muster_coordinator.errors import Code
from muster_coordinator.security.scram import ScramMechanism, salted_password
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code

SALTED = salted_password(ScramMechanism.SHA_512, "canary", b"salt", 4096)


def upsertion(name: str = "alice", **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "mechanism": 2, "iterations": 4096, "salt": b"salt", "salted_password": SALTED, **changes,
    }  # fmt: skip


def deletion(name: str = "alice", mechanism: int = 2) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def alter(
    client: KafkaClient, *upsertions: dict[str, Any], deletions: tuple[dict[str, Any], ...] = ()
) -> dict[str, tuple[int, str | None]]:
    answer = client.ask(Api.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=list(deletions), upsertions=list(upsertions))
    return {one.user: (code(one.error_code), one.error_message) for one in answer.results}


def describe(client: KafkaClient, *names: str) -> Any:
    users = [{"name": name} for name in names] or None
    return client.ask(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users)


def test_a_password_is_kept_as_two_keys_and_never_as_what_was_sent() -> None:
    surface = FakeSurface()
    assert alter(KafkaClient(surface), upsertion()) == {"alice": (0, None)}
    (command,) = surface.commands
    assert isinstance(command, SetScramCredential)
    kept = command.credential
    assert SALTED not in (kept.stored_key, kept.server_key, kept.salt)
    assert (kept.user, kept.mechanism, kept.iterations, kept.salt) == ("alice", 2, 4096, b"salt")
    assert len(command.secret) == 32


def test_users_are_described_with_mechanisms_and_iterations_alone() -> None:
    client = KafkaClient(FakeSurface())
    alter(client, upsertion(), upsertion("bob", mechanism=1, iterations=8192))
    alter(client, upsertion(mechanism=1, iterations=16_384))
    answer = describe(client)
    assert [
        (one.user, code(one.error_code), [(info.mechanism, info.iterations) for info in one.credential_infos])
        for one in answer.results
    ] == [("alice", 0, [(1, 16_384), (2, 4096)]), ("bob", 0, [(1, 8192)])]
    assert "salt" not in repr(answer)


def test_who_is_not_there_or_named_twice_is_told_in_kafkas_words() -> None:
    client = KafkaClient(FakeSurface())
    alter(client, upsertion())
    results = describe(client, "alice", "carol", "alice").results
    assert [(one.user, code(one.error_code), one.error_message) for one in results] == [
        ("alice", 92, "Cannot describe SCRAM credentials for the same user twice in a single request: alice"),
        ("carol", 91, "Attempt to describe a user credential that does not exist: carol"),
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": ""}, (93, "Username must not be empty")),
        ({"mechanism": 0}, (33, "Unknown SCRAM mechanism")),
        ({"mechanism": 3}, (33, "Unknown SCRAM mechanism")),
        ({"iterations": 4095}, (93, "Too few iterations")),
        ({"iterations": 16_385}, (93, "Too many iterations")),
        ({"salt": b""}, (93, "A salt has 1 to 128 bytes")),
        ({"salted_password": b""}, (93, "A salted password has 1 to 512 bytes")),
        ({"salted_password": bytes(513)}, (93, "A salted password has 1 to 512 bytes")),
        ({"name": "x" * 256}, (93, "Username is longer than 255 bytes")),
    ],
)
def test_what_cannot_be_a_password_is_refused_before_it_is_proposed(
    change: dict[str, Any], expected: tuple[int, str]
) -> None:
    surface = FakeSurface()
    asked = upsertion(**change)
    assert alter(KafkaClient(surface), asked) == {asked["name"]: expected}
    assert surface.commands == []


def test_a_user_may_be_named_once_in_a_request() -> None:
    """Kafka's rule: neither of the two is done, and others are."""
    surface = FakeSurface()
    client = KafkaClient(surface)
    alter(client, upsertion())
    twice = (92, "A user credential cannot be altered twice in the same request")
    assert alter(client, upsertion(), upsertion("bob"), deletions=(deletion(),)) == {
        "alice": twice, "bob": (0, None),
    }  # fmt: skip
    assert alter(client, upsertion(), upsertion(mechanism=1)) == {"alice": twice}
    assert [type(command) for command in surface.commands] == [SetScramCredential] * 2


def test_a_user_is_deleted_by_mechanism() -> None:
    surface = FakeSurface()
    client = KafkaClient(surface)
    alter(client, upsertion())
    gone = (91, "Attempt to delete a user credential that does not exist")
    assert alter(client, deletions=(deletion(mechanism=1),)) == {"alice": gone}
    assert alter(client, deletions=(deletion(),)) == {"alice": (0, None)}
    assert surface.commands[-1] == DeleteScramCredential(user="alice", mechanism=2)
    assert alter(client, deletions=(deletion(),)) == {"alice": gone}
    assert alter(client, deletions=(deletion(mechanism=9),)) == {"alice": (33, "Unknown SCRAM mechanism")}


def test_that_a_user_is_not_there_is_said_only_by_a_replica_that_is_not_behind() -> None:
    surface = FakeSurface()
    client = KafkaClient(surface)
    surface.on_image_question = lambda: False
    assert alter(client, deletions=(deletion(),))["alice"][0] == Code.NOT_CONTROLLER
    assert code(describe(client, "alice").error_code) == Code.REQUEST_TIMED_OUT
    assert code(describe(client).error_code) == Code.REQUEST_TIMED_OUT, "nor that there are none"

    def arrives() -> bool:
        surface.apply(SetScramCredential(credential=made[0], secret=b"x" * 32))
        return True

    other = FakeSurface()
    alter(KafkaClient(other), upsertion())
    made = [command.credential for command in other.commands if isinstance(command, SetScramCredential)]
    surface.on_image_question = arrives
    assert alter(client, deletions=(deletion(),)) == {"alice": (0, None)}


def test_below_their_level_there_are_no_users() -> None:
    surface = FakeSurface()
    surface.feature_level = 2
    assert alter(KafkaClient(surface), upsertion())["alice"][0] == Code.UNSUPPORTED_VERSION
    assert surface.commands == []
