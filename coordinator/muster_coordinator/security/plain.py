"""PLAIN (RFC 4616), the server's side: a name and a password in clear text, so only where the connection is encrypted.

Users are those of a listener's configuration, as Kafka's PlainLoginModule has them. What this does not do: store or
hash passwords; whoever reads the configuration file has them.
"""

import hmac
from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.security.limits import PLAIN_MESSAGE_BYTES_MAX
from muster_coordinator.security.outcome import Accepted, Outcome, Refused

INVALID = "Authentication failed: Invalid username or password"
"""Kafka's text."""


class PlainMessage(NamedTuple):
    """The client's only one."""

    user: str
    password: str


def read_plain(message: bytes) -> PlainMessage | Refused:
    """[authorization id] NUL name NUL password. As in Kafka, the authorization id is none or the name."""
    if len(message) > PLAIN_MESSAGE_BYTES_MAX:
        return Refused(f"a message of {len(message)} bytes", told=INVALID)
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        return Refused("a message that is not UTF-8", told=INVALID)
    if len(parts) != 3 or not parts[1] or not parts[2]:
        return Refused("a malformed message", told=INVALID)
    authorization_id, user, password = parts
    if authorization_id not in ("", user):
        return Refused("the authorization id is not the user", user, told=INVALID)
    return PlainMessage(user, password)


class PlainServer:
    """One exchange: a single message."""

    __slots__ = ("_users",)

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def step(self, message: bytes) -> Outcome:
        """The server's answer to the client's only message."""
        read = read_plain(message)
        if isinstance(read, Refused):
            return read
        user, password = read
        # Somebody's password is compared in any case: who is not there takes as long as who gives a wrong one.
        expected = self._users.get(user)
        same = hmac.compare_digest(password.encode(), (password[::-1] if expected is None else expected).encode())
        if expected is None or not same:
            return Refused("no such user, or a wrong password", user, told=INVALID)
        return Accepted(b"", user)
