"""SCRAM by the RFCs' own exchanges, by kafka-python's client, and by attackers: what is not proven is refused."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient
from muster_coordinator.security import limits
from muster_coordinator.security.outcome import Accepted, Challenge, Refused
from muster_coordinator.security.scram import (
    ScramCredential,
    ScramMechanism,
    ScramServer,
    Shape,
    credential_error,
    credential_of,
    dummy_credential,
    salted_password,
    user_name_error,
)

SECRET = b"s" * 32
PASSWORD = "pencil"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_7677 = (
    "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


def credential(
    mechanism: ScramMechanism = ScramMechanism.SHA_256,
    password: str = PASSWORD,
    salt: bytes = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="),
) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, salt, 4096), salt, 4096)


def server(
    users: dict[str, ScramCredential] | None = None,
    *,
    mechanism: ScramMechanism = ScramMechanism.SHA_256,
    nonce: str = NONCE,
) -> ScramServer:
    return ScramServer(mechanism, ({"user": credential()} if users is None else users).get, nonce, SECRET)


def refused(outcome: object) -> Refused:
    assert isinstance(outcome, Refused), outcome
    assert PASSWORD not in repr(outcome)
    return outcome


def test_the_exchange_of_rfc_7677_is_accepted_byte_for_byte() -> None:
    exchange = server()
    first, challenge, final, verifier = RFC_7677
    assert exchange.step(first.encode()) == Challenge(challenge.encode())
    assert exchange.step(final.encode()) == Accepted(verifier.encode(), "user")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["user", "Jürgen", "a" * 255])
def test_another_implementations_client_is_accepted_and_accepts(mechanism: ScramMechanism, user: str) -> None:
    exchange = server({user: credential(mechanism)}, mechanism=mechanism)
    client = ScramClient(user, PASSWORD, mechanism.sasl_name)
    challenge = exchange.step(client.first_message())
    assert isinstance(challenge, Challenge)
    client.process_server_first_message(challenge.message)
    accepted = exchange.step(client.final_message())
    assert isinstance(accepted, Accepted)
    client.process_server_final_message(accepted.message)
    assert accepted.user == user


def exchanged(exchange: ScramServer, user: str, password: str) -> object:
    client = ScramClient(user, password, exchange.mechanism.sasl_name)
    challenge = exchange.step(client.first_message())
    assert isinstance(challenge, Challenge)
    client.process_server_first_message(challenge.message)
    return exchange.step(client.final_message())


def test_a_name_with_a_comma_and_an_equals_sign_is_escaped() -> None:
    exchange = server({"a,b=c": credential()})
    challenge = exchange.step(b"n,,n=a=2Cb=3Dc,r=abc")
    assert isinstance(challenge, Challenge)
    assert exchange.step(b"c=biws,r=abc" + NONCE.encode() + b",p=" + base64.b64encode(bytes(32))) == Refused(
        "no such user, or a wrong password", "a,b=c", doubtful=True, judged_by=credential()
    )
    refused(server().step(b"n,,n=a=2cb,r=abc"))


def test_a_wrong_password_is_doubtful_and_says_by_what_it_was_judged() -> None:
    outcome = refused(exchanged(server(), "user", "pen"))
    assert (outcome.user, outcome.doubtful, outcome.judged_by) == ("user", True, credential())
    assert repr(credential().stored_key)[2:-1] not in repr(outcome)


def test_who_does_not_exist_is_challenged_like_anybody_and_always_in_the_same_way() -> None:
    """No enumeration: the salt is stable for a name, differs between names and mechanisms, and no replica's own."""
    first = b"n,,n=nobody,r=abc"
    one, two = server({}).step(first), server({}).step(first)
    assert one == two
    assert isinstance(one, Challenge)
    salts = {
        server({}, mechanism=mechanism).step(b"n,,n=%b,r=abc" % name).message  # type: ignore[union-attr]
        for name in (b"nobody", b"noone")
        for mechanism in ScramMechanism
    }
    assert len(salts) == 4
    real = server({"nobody": credential(salt=b"x" * 24)}).step(first)
    assert isinstance(real, Challenge)
    assert len(real.message) == len(one.message)
    outcome = refused(exchanged(server({}), "nobody", PASSWORD))
    assert (outcome.doubtful, outcome.judged_by) == (True, None)
    assert outcome.why == refused(exchanged(server(), "user", "pen")).why


@given(st.sets(st.tuples(st.integers(4_096, 16_384), st.integers(1, 128)), min_size=1, max_size=8), st.data())
def test_who_does_not_exist_has_a_shape_of_those_who_do(pairs: set[tuple[int, int]], data: st.DataObject) -> None:
    """And keeps it when another shape comes, unless it takes that one: who exists never changes."""
    shapes = [Shape(*pair) for pair in sorted(pairs)]

    def shape(user: str, among: list[Shape]) -> Shape:
        dummy = dummy_credential(ScramMechanism.SHA_256, user, SECRET, among)
        assert credential_error(dummy) is None
        return Shape(dummy.iterations, len(dummy.salt))

    names = [f"user-{n}" for n in range(20)]
    last = data.draw(st.sampled_from(shapes))
    fewer = [one for one in shapes if one != last] or shapes
    for name in names:
        assert shape(name, shapes) in shapes
        assert shape(name, shapes) in (last, shape(name, fewer))
    if len(shapes) == 2:
        assert {shape(f"user-{n}", shapes) for n in range(64)} == set(shapes)


def test_no_proof_fits_a_dummy_even_one_made_of_its_own_keys() -> None:
    """Who knew the secret could compute the dummy's keys: the user is refused by name, not by proof alone."""
    dummy = dummy_credential(ScramMechanism.SHA_256, "nobody", SECRET)
    assert credential_error(dummy) is None
    assert dummy.stored_key not in (credential().stored_key, b"")


@pytest.mark.parametrize(
    "final",
    [
        "c=biws,r=rOprNGfwEbeRWgbNEkqO,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",  # CVE-2024-56128: half a nonce
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k1,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "c=eSws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=AAAA",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=,x=1",
        "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "",
    ],
)
def test_a_final_message_that_is_not_the_right_one_is_refused(final: str) -> None:
    exchange = server()
    exchange.step(RFC_7677[0].encode())
    refused(exchange.step(final.encode()))


def test_a_recorded_exchange_cannot_be_played_again() -> None:
    exchange = server(nonce="another")
    exchange.step(RFC_7677[0].encode())
    assert "nonce" in refused(exchange.step(RFC_7677[2].encode())).why


def test_nothing_follows_the_last_message_or_a_refusal() -> None:
    done = server()
    done.step(RFC_7677[0].encode())
    done.step(RFC_7677[2].encode())
    refused(done.step(RFC_7677[2].encode()))
    failed = server()
    refused(failed.step(b"x"))
    refused(failed.step(RFC_7677[0].encode()))
    early = server()
    refused(early.step(RFC_7677[2].encode()))


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"p=tls-unique,,n=user,r=abc", "malformed"),
        (b"n,a=admin,n=user,r=abc", "authorization id"),
        (b"n,,n=user,r=abc,tokenauth=true", "malformed"),
        (b"n,,n=user,r=abc,x=1", "extension"),
        (b"n,,m=ext,n=user,r=abc", "malformed"),
        (b"n,,n=,r=abc", "malformed"),
        (b"n,,n=user,r=", "malformed"),
        (b"n,,n=us=20er,r=abc", "malformed"),
        (b"n,,n=user\x00,r=abc", "malformed"),
        (b"n,,n=us\x07er,r=abc", "no user can have"),
        (b"n,,n=" + b"u" * 256 + b",r=abc", "no user can have"),
        (b"n,,n=\xff\xfe,r=abc", "UTF-8"),
        (b"n,,n=user,r=" + b"a" * (limits.SCRAM_MESSAGE_BYTES_MAX - 12), None),
        (b"n,,n=user,r=" + b"a" * (limits.SCRAM_MESSAGE_BYTES_MAX - 11), "bytes"),
        (b"n,,n=user,r=" + b"a" * 10_000_000, "bytes"),  # librdkafka #5603
        (b"n,,n=" + b"=2C" * 85 + b",r=abc", None),
        (b"", "malformed"),
        (b"n,a=user,n=user,r=abc", None),
        (b"y,,n=user,r=abc", None),
    ],
)
def test_first_messages(first: bytes, why: str | None) -> None:
    outcome = server().step(first)
    if why is None:
        assert isinstance(outcome, Challenge)
    else:
        assert why in refused(outcome).why


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(first: bytes, final: bytes) -> None:
    exchange = server()
    for prefix in (b"", b"n,,n=user,r="):
        outcome = server().step(prefix + first)
        assert isinstance(outcome, Refused | Challenge)
    exchange.step(RFC_7677[0].encode())
    refused(exchange.step(final))


@given(st.integers(0, len(RFC_7677[2]) - 1), st.integers(0, 7))
def test_one_flipped_bit_of_the_proof_message_is_refused(place: int, bit: int) -> None:
    exchange = server()
    exchange.step(RFC_7677[0].encode())
    final = bytearray(RFC_7677[2].encode())
    final[place] ^= 1 << bit
    outcome = exchange.step(bytes(final))
    # The last characters of base64 hold bits that decoding drops: the same proof in another spelling is none other.
    assert isinstance(outcome, Refused) or place >= len(final) - 2, final


def test_the_bounds_of_a_credential() -> None:
    def with_(**changes: object) -> ScramCredential:
        base = {"mechanism": ScramMechanism.SHA_512, "salt": b"s", "iterations": 4096, "stored_key": bytes(64)}
        return ScramCredential(**{**base, "server_key": bytes(64), **changes})  # type: ignore[arg-type]

    for good in ({}, {"iterations": 16_384}, {"salt": bytes(128)}):
        assert credential_error(with_(**good)) is None
    for bad in (
        {"iterations": 4095}, {"iterations": 16_385}, {"salt": b""}, {"salt": bytes(129)}, {"stored_key": bytes(32)},
        {"server_key": bytes(63)},
    ):  # fmt: skip
        assert credential_error(with_(**bad)), bad
    for name, legal in (
        ("a", True),
        ("ü" * 127, True),
        ("ü" * 128, False),
        ("", False),
        ("a\n", False),
        ("\x7f", False),
    ):
        assert (user_name_error(name) is None) is legal, name
