"""`sasl.jaas.config` as people have it; what is wrong is said without a word of it."""

import pytest
from muster_coordinator.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas, plain_users

KAFKAS = f'{PLAIN_MODULE} required username="admin" password="a;b" user_admin="a;b" user_alice="it\\"s = ,so";'
"""As in Kafka's documentation, with what a password may have."""


def test_users_of_a_broker() -> None:
    assert plain_users(KAFKAS) == {"admin": "a;b", "alice": 'it"s = ,so'}


def test_a_clients_line() -> None:
    login = parse_jaas(f"{SCRAM_MODULE} required\n  username='a b'\n  password=secret-canary ;")
    assert (login.module, login.options) == (SCRAM_MODULE, {"username": "a b", "password": "secret-canary"})
    assert "canary" not in repr(login)


@pytest.mark.parametrize(
    "text",
    [
        "", "x", f'{PLAIN_MODULE} user_a="canary";', f'{PLAIN_MODULE} required user_a="canary"',
        f'{PLAIN_MODULE} required user_a="canary;', f'{PLAIN_MODULE} required user_a="canary" user_a="canary";',
        f'{PLAIN_MODULE} required user_a="canary"; and more', f'{SCRAM_MODULE} required user_a="canary";',
        f'{PLAIN_MODULE} sometimes user_a="canary";',
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_without_quoting(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        plain_users(text)
    assert "canary" not in str(caught.value)
