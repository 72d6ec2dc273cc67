"""How a replica logs in to a broker of the upstream (KIP-43, KIP-152): the first frames of a connection.

    frame = login.begin()
    while frame: send it; frame = login.receive(the answer)

What it does not do: sockets (`runtime.upstream_dial`), or log in again on a connection whose session ends: the broker
closes it, and the client of that connection makes a new one.
"""

from collections.abc import Callable

from muster_coordinator.errors import WireError
from muster_coordinator.security.scram import ScramMechanism
from muster_coordinator.security.scram_client import ScramClient
from muster_coordinator.security.session import SCRAM_SHA_256, SCRAM_SHA_512
from muster_coordinator.upstream.account import Account
from muster_coordinator.upstream.frames import framed, read_answer
from muster_coordinator.upstream.limits import LOGIN_TOLD_CHARS_MAX
from muster_coordinator.wire.versions import Api

_SCRAM = {SCRAM_SHA_256: ScramMechanism.SHA_256, SCRAM_SHA_512: ScramMechanism.SHA_512}
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 1


class Login:
    """Of one connection. `receive` raises `WireError` if it is refused, or the server cannot prove who it is."""

    def __init__(self, account: Account, nonce: Callable[[], str]) -> None:
        self._account = account
        scram = _SCRAM.get(account.mechanism)
        self._scram = None if scram is None else ScramClient(scram, account.user, account.password, nonce())
        self._asked = 0
        """Requests that were made."""

    def begin(self) -> bytes:
        """The first request."""
        self._asked = 1
        return framed(Api.SASL_HANDSHAKE, _HANDSHAKE_VERSION, 1, {"mechanism": self._account.mechanism})

    def receive(self, frame: bytes) -> bytes | None:
        """The next request after this answer; None: the user is logged in."""
        if self._asked == 1:
            answer = read_answer(Api.SASL_HANDSHAKE, _HANDSHAKE_VERSION, frame)
            if answer.error_code:
                offered = ", ".join(answer.mechanisms)[:LOGIN_TOLD_CHARS_MAX]
                raise WireError(f"it does not take {self._account.mechanism}, but {offered or 'nothing'}")
            return self._ask(self._first())
        answer = read_answer(Api.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, frame)
        if answer.error_code:
            told = (answer.error_message or f"error {answer.error_code}")[:LOGIN_TOLD_CHARS_MAX]
            raise WireError(f"it refuses the user {self._account.user}: {told}")
        if self._scram is None:
            return None
        if self._asked == 2:  # after the handshake and the first message
            return self._ask(self._scram.answer(answer.auth_bytes))
        self._scram.check(answer.auth_bytes)
        return None

    def _first(self) -> bytes:
        account = self._account
        return f"\0{account.user}\0{account.password}".encode() if self._scram is None else self._scram.first()

    def _ask(self, message: bytes) -> bytes:
        self._asked += 1
        return framed(Api.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, self._asked, {"auth_bytes": message})
