"""A login's frames, against Kafka's schemas as kio has them: what is sent, and what is believed."""

from typing import Any

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.security.scram import ScramMechanism, ScramServer, credential_of, salted_password
from muster_coordinator.upstream.account import MECHANISMS, Account
from muster_coordinator.upstream.limits import LOGIN_TOLD_CHARS_MAX
from muster_coordinator.upstream.login import Login
from muster_coordinator.wire.versions import Api

from tests.upstream.test_brokers import framed
from tests.upstream.test_looks import read_request

SALT = b"salt" * 4


def login(mechanism: str, password: str = "canary") -> Login:
    return Login(Account(mechanism, "muster", password), lambda: "nonce")


def taken(mechanisms: tuple[str, ...] = MECHANISMS, code: int = 0) -> bytes:
    return framed(Api.SASL_HANDSHAKE, 1, {"error_code": code, "mechanisms": mechanisms}, 1)


def answered(message: bytes = b"", code: int = 0, told: str | None = None) -> bytes:
    values = {"error_code": code, "error_message": told, "auth_bytes": message, "session_lifetime_ms": 0}
    return framed(Api.SASL_AUTHENTICATE, 1, values, 2)


def asked(frame: bytes | None) -> Any:
    assert frame is not None
    return read_request(Api.SASL_AUTHENTICATE, 1, frame)


def test_plain() -> None:
    one = login("PLAIN")
    handshake = read_request(Api.SASL_HANDSHAKE, 1, one.begin())
    assert handshake.mechanism == "PLAIN"  # type: ignore[attr-defined]
    assert asked(one.receive(taken())).auth_bytes == b"\0muster\0canary"
    assert one.receive(answered()) is None


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("right", [True, False])
def test_scram(mechanism: ScramMechanism, right: bool) -> None:
    credential = credential_of(mechanism, salted_password(mechanism, "canary", SALT, 4096), SALT, 4096)
    server = ScramServer(mechanism, lambda name: credential if name == "muster" else None, "theirs", bytes(32))
    one = login(mechanism.sasl_name, "canary" if right else "another canary")
    one.begin()
    first: Any = server.step(asked(one.receive(taken())).auth_bytes)
    final: Any = server.step(asked(one.receive(answered(first.message))).auth_bytes)
    if right:
        assert one.receive(answered(final.message)) is None
    else:
        with pytest.raises(WireError, match="refuses the user muster: no"):
            one.receive(answered(code=58, told="no"))


def test_a_server_that_takes_any_password_of_scram_is_not_believed() -> None:
    one = login("SCRAM-SHA-512")
    one.begin()
    one.receive(taken())
    one.receive(answered(b"r=noncetheirs,s=c2FsdA==,i=4096"))
    with pytest.raises(WireError, match="has not shown"):
        one.receive(answered(b"v=AAAA"))


def test_another_mechanism_is_told() -> None:
    one = login("PLAIN")
    one.begin()
    with pytest.raises(WireError, match="does not take PLAIN, but SCRAM-SHA-256"):
        one.receive(taken(("SCRAM-SHA-256",), 33))


def test_what_a_server_says_is_cut_and_no_secret_is_in_a_repr() -> None:
    one = login("PLAIN")
    one.begin()
    one.receive(taken())
    with pytest.raises(WireError) as refused:
        one.receive(answered(code=58, told="x" * 5_000))
    assert len(str(refused.value)) < LOGIN_TOLD_CHARS_MAX + 100
    assert "canary" not in repr(Account("PLAIN", "muster", "canary"))


def test_cut_answers_are_errors() -> None:
    for frame in (taken(), answered(b"message")):
        for stop in range(len(frame)):
            one = login("PLAIN")
            one.begin()
            if frame is not taken():
                one.receive(taken())
            with pytest.raises(WireError):
                one.receive(frame[:stop])
