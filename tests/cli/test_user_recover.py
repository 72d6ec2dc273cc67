"""`muster user recover` against an HTTP server that answers as a replica does: what is sent lets that password in."""

import base64
import hashlib
import hmac

import pytest
from muster_coordinator.cli.exits import Exit

from tests.cli.test_cluster_status import replicas, token

__all__ = ["replicas", "token"]
PASSWORD = "canary-new"


@pytest.fixture
def recover(muster, replicas, token):
    def run(*words: str, stdin: str = f"{PASSWORD}\n"):
        where = ("--admin", replicas[0].address, "--token-file", token)
        return muster("user", "recover", *words, *where, stdin=stdin)

    return run


def test_the_keys_that_are_sent_are_of_the_password_as_rfc_5802_says(recover, replicas):
    replicas[0].post_answers = [(200, {"user": "a/b", "mechanism": "SCRAM-SHA-256"})]
    ran = recover("a/b", "--mechanism", "SCRAM-SHA-256")
    assert (ran.code, ran.err) == (Exit.OK, "muster: user a/b has a password for SCRAM-SHA-256\n")
    ((path, sent),) = replicas[0].posted
    assert path == "/v1/users/a%2Fb/scram"
    salt = base64.b64decode(sent["salt"])
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, sent["iterations"])
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    assert base64.b64decode(sent["stored_key"]) == stored
    assert base64.b64decode(sent["server_key"]) == hmac.digest(salted, b"Server Key", "sha256")
    assert PASSWORD not in str(sent) + ran.out + ran.err


def test_two_times_have_two_salts(recover, replicas):
    replicas[0].post_answers = [(200, {}), (200, {})]
    assert [recover("admin").code, recover("admin").code] == [Exit.OK, Exit.OK]
    first, second = (sent["salt"] for _, sent in replicas[0].posted)
    assert first != second


@pytest.mark.parametrize(("status", "code"), [(409, Exit.REFUSED), (400, Exit.REFUSED), (503, Exit.UNREACHABLE)])
def test_a_refusal_is_told_in_its_words(recover, replicas, status, code):
    replicas[0].post_answers = [(status, {"error": "x", "message": "not before feature level 3"})]
    ran = recover("admin")
    assert ran.code == code
    assert "user admin was not changed: not before feature level 3" in ran.err


@pytest.mark.parametrize(
    ("words", "stdin"), [(("",), "x\n"), (("admin", "--mechanism", "PLAIN"), "x\n"), (("admin",), "\n")]
)
def test_what_cannot_be_is_not_sent(recover, replicas, words, stdin):
    assert recover(*words, stdin=stdin).code == Exit.USAGE
    assert replicas[0].posted == []
