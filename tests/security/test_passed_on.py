"""A login that another server judges: our own servers of PLAIN and SCRAM stand for it, kafka-python's for the client.

Who a client is here must be who it is there, whatever it sends: the servers read the same bytes, and the names are
compared.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient
from muster_coordinator.security.limits import SCRAM_MESSAGE_BYTES_MAX
from muster_coordinator.security.outcome import Accepted, Challenge, Elsewhere, Judged, Refused
from muster_coordinator.security.passed_on import PassedOn
from muster_coordinator.security.plain import PlainServer
from muster_coordinator.security.scram import ScramMechanism, ScramServer, credential_of, salted_password
from muster_coordinator.security.session import MECHANISMS, OTHER_USER, ListenerSasl, SaslSession

SALT = b"salt" * 4
CREDENTIAL = credential_of(
    ScramMechanism.SHA_256, salted_password(ScramMechanism.SHA_256, "canary", SALT, 4096), SALT, 4096
)
SCRAM = "SCRAM-SHA-256"
NOW = 1_000


def scram_there(user: str) -> ScramServer:
    return ScramServer(ScramMechanism.SHA_256, lambda name: CREDENTIAL if name == user else None, "theirs", bytes(32))


def asked(outcome: object) -> bytes:
    assert isinstance(outcome, Elsewhere), outcome
    return outcome.message


def _bytes(message: str | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.encode()


def by_scram(user: str, password: str, lifetime_ms: int = 0) -> object:
    """The outcome of the last message, of a client whose user the other server knows."""
    name = user.replace("=", "=3D").replace(",", "=2C")  # kafka-python leaves that to its caller
    client, there, here = ScramClient(name, password, SCRAM), scram_there(user), PassedOn(SCRAM)
    first = there.step(asked(here.step(_bytes(client.first_message()))))
    assert isinstance(first, Challenge)
    challenge = here.judged(Judged(first.message), NOW)
    assert challenge == first
    client.process_server_first_message(first.message)
    last = there.step(asked(here.step(_bytes(client.final_message()))))
    if isinstance(last, Accepted):
        client.process_server_final_message(last.message)
        return here.judged(Judged(last.message, lifetime_ms=lifetime_ms), NOW)
    return here.judged(Judged(b"", refused="no"), NOW)


@pytest.mark.parametrize("user", ["alice", "a,b=c", "ünsal", "x" * 255])
def test_scram(user: str) -> None:
    accepted = by_scram(user, "canary")
    assert isinstance(accepted, Accepted)
    assert (accepted.user, accepted.expires_ms) == (user, None)
    assert by_scram(user, "another") == Refused("the upstream refuses it: no", user, told="no")


def test_the_end_of_the_session_is_that_servers() -> None:
    accepted = by_scram("alice", "canary", 5_000)
    assert isinstance(accepted, Accepted)
    assert accepted.expires_ms == NOW + 5_000


def test_plain() -> None:
    here = PassedOn("PLAIN")
    message = asked(here.step(b"\0alice\0canary"))
    assert message == b"\0alice\0canary"
    assert here.judged(Judged(b""), NOW) == Accepted(b"", "alice")


def test_who_is_refused_there_is_nobody_here() -> None:
    one = session()
    one.handshake("PLAIN", 0, PassedOn)
    one.step(b"\0alice\0canary")
    refused = one.judged(Judged(b"", refused="no"), NOW)
    assert isinstance(refused, Refused)
    assert (refused.told, one.user) == ("no", None)


@given(st.lists(st.sampled_from([b"\0", b"a", b"alice", b"\xff", b"=", b",", b" "]), max_size=8).map(b"".join))
def test_plain_is_never_somebody_else_than_there(message: bytes) -> None:
    here, there = PassedOn("PLAIN").step(message), PlainServer({"alice": "a", "a": "alice"})
    judged = there.step(message)
    if isinstance(judged, Accepted):
        one = PassedOn("PLAIN")
        one.step(message)
        assert one.judged(Judged(b""), NOW) == Accepted(b"", judged.user)
    else:
        assert isinstance(here, Refused | Elsewhere)


@pytest.mark.parametrize(
    "first",
    [
        b"n,a=bob,n=alice,r=x",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=alice,n=bob,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=al\0ice,r=x",
        b"n,,n=al=41ice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"\xff",
        b"n,,n=alice,r=" + b"x" * SCRAM_MESSAGE_BYTES_MAX,
        b"",
    ],
)
def test_a_first_message_of_which_the_name_is_not_plain_goes_nowhere(first: bytes) -> None:
    assert isinstance(PassedOn(SCRAM).step(first), Refused)


def test_a_success_without_a_verifier_confirms_nobody() -> None:
    """RFC 5802, 7: `v=` or `e=`. Kafka gives the latter with a code, others may not."""
    for last in (b"", b"e=invalid-proof", b"r=x"):
        here = PassedOn(SCRAM)
        here.step(b"n,,n=alice,r=x")
        here.judged(Judged(b"r=xy,s=c2FsdA==,i=4096"), NOW)
        here.step(b"c=biws,r=xy,p=AAAA")
        assert isinstance(here.judged(Judged(last), NOW), Refused)


def test_a_long_last_message_goes_nowhere() -> None:
    here = PassedOn(SCRAM)
    here.step(b"n,,n=alice,r=x")
    here.judged(Judged(b"r=xy,s=c2FsdA==,i=4096"), NOW)
    assert isinstance(here.step(bytes(SCRAM_MESSAGE_BYTES_MAX + 1)), Refused)


def session() -> SaslSession:
    return SaslSession(ListenerSasl(mechanisms=MECHANISMS, reauth_ms={}, elsewhere=True))


def log_in(one: SaslSession, user: str, now_ms: int) -> object:
    assert one.handshake("PLAIN", now_ms, PassedOn) is None
    assert isinstance(one.step(f"\0{user}\0canary".encode()), Elsewhere)
    assert one.user in (None, "alice"), "nobody before that server has said so"
    return one.judged(Judged(b""), NOW)


def test_a_session_is_a_users_who_may_show_himself_again_but_no_other() -> None:
    one = session()
    assert log_in(one, "alice", 0) == Accepted(b"", "alice")
    assert log_in(one, "alice", 2_000) == Accepted(b"", "alice")
    other = log_in(one, "bob", 4_000)
    assert isinstance(other, Refused)
    assert (other.told, one.user) == (OTHER_USER, "alice")


def test_what_is_said_late_is_nobodys() -> None:
    one = session()
    assert one.judged(Judged(b""), NOW) is None
    one.handshake("PLAIN", 0, PassedOn)
    one.step(b"\0alice\0canary")
    assert isinstance(one.step(b"\0bob\0canary"), Refused), "a second message, before the answer to the first"
    assert one.judged(Judged(b""), NOW) is None
    assert one.user is None


def test_no_secret_is_in_a_repr() -> None:
    assert "canary" not in repr(PassedOn("PLAIN").step(b"\0alice\0canary"))
