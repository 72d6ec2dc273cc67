"""Kafka's text of a first administrator; what is wrong is said without a word of it."""

import base64

import pytest
from muster_coordinator.security.scram import ScramMechanism, credential_of, salted_password
from muster_coordinator.security.scram_text import parse_scram

SALT = b"random salt"
KAFKAS = (
    'SCRAM-SHA-256=[name=alice,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=",'
    'saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="]'
)
"""The form of KIP-900."""


def test_a_password_is_salted_here() -> None:
    found = parse_scram("SCRAM-SHA-512=[name=admin,password=a=b c]", SALT)
    mechanism = ScramMechanism.SHA_512
    assert found.user == "admin"
    assert found.credential == credential_of(mechanism, salted_password(mechanism, "a=b c", SALT, 4096), SALT, 4096)


def test_one_that_is_salted_is_taken_as_it_is() -> None:
    found = parse_scram(KAFKAS, SALT)
    salt = base64.b64decode("MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=")
    salted = base64.b64decode("mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE=")
    assert found.user == "alice"
    assert found.credential == credential_of(ScramMechanism.SHA_256, salted, salt, 8192)


def test_a_value_with_a_comma_is_quoted() -> None:
    found = parse_scram('SCRAM-SHA-256=[name="a,b",password="c,d"]', SALT)
    assert found.user == "a,b"
    same = credential_of(ScramMechanism.SHA_256, salted_password(ScramMechanism.SHA_256, "c,d", SALT, 4096), SALT, 4096)
    assert found.credential == same


@pytest.mark.parametrize(
    "text",
    [
        "", "admin:canary", "SCRAM-SHA-1=[name=a,password=canary]", "SCRAM-SHA-512=[password=canary]",
        "SCRAM-SHA-512=[name=a]", "SCRAM-SHA-512=[name=a,password=]", "SCRAM-SHA-512=[name=a,password=canary",
        "SCRAM-SHA-512=[name=a,password=canary,iterations=4095]", "SCRAM-SHA-512=[name=a,password=canary,iterations=x]",
        "SCRAM-SHA-512=[name=a,password=canary,iterations=999999999]", "SCRAM-SHA-512=[name=a,password=canary,more=1]",
        "SCRAM-SHA-512=[name=a,password=canary,name=b]", "SCRAM-SHA-512=[name=a,password=canary,saltedpassword=AA==]",
        "SCRAM-SHA-512=[name=a,saltedpassword=AA==]", "SCRAM-SHA-512=[name=a,password=canary,salt=canary!]",
        "SCRAM-SHA-512=[name=a\n,password=canary]",
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_without_quoting(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_scram(text, SALT)
    assert "canary" not in str(caught.value)
