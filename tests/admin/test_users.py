"""A user's password, set through the admin API by who has the token: for when nobody can get in any more."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.controller.commands import CommandResult, SetScramCredential
from muster_coordinator.errors import Code
from muster_coordinator.security.scram import ScramMechanism, credential_of, salted_password

from tests.admin.test_admin_api import Harness, run
from tests.admin.test_balancing import answering
from tests.admin.test_replacement import at_level

PATH = "/v1/users/{name}/scram"
SALT = b"s" * 24
MADE = credential_of(ScramMechanism.SHA_512, salted_password(ScramMechanism.SHA_512, "canary", SALT, 4096), SALT, 4096)
BODY = {
    "mechanism": "SCRAM-SHA-512", "iterations": 4096, "salt": b64encode(SALT).decode(),
    "stored_key": b64encode(MADE.stored_key).decode(), "server_key": b64encode(MADE.server_key).decode(),
}  # fmt: skip


async def ask(h: Harness, body: object, name: str = "admin") -> tuple[int, Any]:
    return await h.ask("POST", f"/v1/users/{name}/scram", body, template=PATH)


def test_the_credential_is_proposed_and_the_audit_names_the_user_and_no_key(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = at_level(3)
        assert await ask(h, BODY, "a%2Fdmin%20%C3%A9") == (200, {"user": "a/dmin é", "mechanism": "SCRAM-SHA-512"})
        (command,) = h.replica.commands
        assert isinstance(command, SetScramCredential)
        new = command.credential
        assert (new.user, new.mechanism, new.iterations) == ("a/dmin é", ScramMechanism.SHA_512.value, 4096)
        assert (new.salt, new.stored_key, new.server_key) == (SALT, MADE.stored_key, MADE.server_key)
        assert len(command.secret) == 32
        (line,) = h.told
        assert line.fields["action"] == "POST /v1/users/a/dmin é/scram"
        assert BODY["stored_key"] not in str(line)

    run(tmp_path, body)


@pytest.mark.parametrize(
    "asked",
    [
        None, [], "text", 3, {}, {**BODY, "more": 1}, {**BODY, "mechanism": "PLAIN"}, {**BODY, "mechanism": None},
        {**BODY, "iterations": 4095}, {**BODY, "iterations": 16_385}, {**BODY, "iterations": True},
        {**BODY, "salt": ""}, {**BODY, "salt": "?"}, {**BODY, "salt": 3}, {**BODY, "salt": "é"},
        {**BODY, "salt": b64encode(b"s" * 129).decode()}, {**BODY, "stored_key": BODY["salt"]},
        {**BODY, "server_key": b64encode(b"k" * 65).decode()}, {**BODY, "mechanism": "SCRAM-SHA-256"},
    ],
)  # fmt: skip
def test_what_is_no_credential_is_not_understood(tmp_path: Path, asked: object) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = at_level(3)
        status, document = await ask(h, asked)
        assert (status, document["error"]) == (400, "bad_request")
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize("name", ["a%01b", "x" * 256, "a%7Fb"])
def test_what_is_no_name_is_not_taken(tmp_path: Path, name: str) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = at_level(3)
        assert (await ask(h, BODY, name))[0] == 400
        assert h.replica.commands == []

    run(tmp_path, body)


def test_the_longest_name_and_salt_and_the_most_iterations_are_taken(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = at_level(3)
        largest = {**BODY, "iterations": 16_384, "salt": b64encode(b"s" * 128).decode()}
        assert (await ask(h, largest, "x" * 255))[0] == 200

    run(tmp_path, body)


def test_below_feature_level_3_and_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = at_level(2)
        status, document = await ask(h, BODY)
        assert (status, document["error"]) == (409, "feature_level")
        h.replica.known_image = None
        assert (await ask(h, BODY))[0] == 503
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        (Code.NOT_CONTROLLER, 503, "no_leader"),
        (Code.REQUEST_TIMED_OUT, 503, "not_known"),
        (Code.POLICY_VIOLATION, 409, "refused"),
    ],
)
def test_what_the_log_says_is_passed_on(tmp_path: Path, code: Code, status: int, error: str) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = at_level(3)
        answering(h, CommandResult(code, "there are 10000 users, the most"))
        answered, document = await ask(h, BODY)
        assert (answered, document["error"]) == (status, error)

    run(tmp_path, body)
