"""Messages of SaslHandshake v0: what follows it are bare messages with nothing but their length, until the client is
authenticated.

Mechanism: a message is handled as the SaslAuthenticate request that took its place later, and its answer is the message
alone. What it does not do: read frames (`wire.connection`).
"""

from typing import NamedTuple

from typing_extensions import override

from muster_coordinator.wire.route import Route
from muster_coordinator.wire.versions import Api

_SIZE_BYTES = 4


class Token(NamedTuple):
    """A bare message, in the form of a SaslAuthenticate request."""

    auth_bytes: bytes


class _BareRoute(Route):
    """Of bare messages: an answer is its message and its length."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Api.SASL_AUTHENTICATE, 0)
        self.encode = lambda out, answer: out.extend(answer["auth_bytes"])

    @override
    def start_answer(self, correlation: int) -> bytearray:
        return bytearray(_SIZE_BYTES)


BARE_MESSAGES: Route = _BareRoute()
