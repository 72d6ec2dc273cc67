"""A client's own login at a broker of the upstream: the frames around what the client says (KIP-43, KIP-152, ADR 100).

    frame = login.begin(mechanism, message)
    while it is a frame: send it; frame = login.receive(the answer)

Each exchange begins with a handshake, also a later one on the same connection (KIP-368). The client's own frames are
read and written anew, so that what the broker judges is what was read here. What this does not do: sockets
(`runtime.upstream_passage`), or read messages (`security.passed_on`).
"""

from muster_coordinator.errors import Code, WireError
from muster_coordinator.security.outcome import Elsewhere, Judged
from muster_coordinator.upstream.frames import framed, read_answer
from muster_coordinator.upstream.limits import LOGIN_TOLD_CHARS_MAX
from muster_coordinator.wire.versions import Api

_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 1


class PassedLogin:
    """Of one connection. Correlation ids are its own: 0 for all of its requests, each of which is answered before the
    next."""

    CORRELATION = 0

    def __init__(self) -> None:
        self._unsent = b""
        """The client's message, until the broker has taken its mechanism."""
        self._mechanism = ""
        self._shaken = True
        """Has the broker answered the handshake?"""

    def begin(self, mechanism: str, message: Elsewhere) -> bytes:
        """The request that the client's message becomes; of an exchange's first message, the one before it."""
        if not message.begins:
            return self._authenticate(message.message)
        self._mechanism, self._unsent, self._shaken = mechanism, message.message, False
        return framed(Api.SASL_HANDSHAKE, _HANDSHAKE_VERSION, self.CORRELATION, {"mechanism": mechanism})

    def receive(self, frame: bytes) -> bytes | Judged:
        """The next request after this answer, or what the client is to be told. Raises `WireError` if it says neither
        yes nor no."""
        if not self._shaken:
            return self._handshake(frame)
        answer = read_answer(Api.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, frame)
        if answer.error_code == Code.SASL_AUTHENTICATION_FAILED:
            return Judged(b"", refused=(answer.error_message or "Authentication failed")[:LOGIN_TOLD_CHARS_MAX])
        if answer.error_code:
            # Kafka's clients would give up for good. It may be what a broker says that cannot judge just now.
            told = (answer.error_message or "")[:LOGIN_TOLD_CHARS_MAX]
            raise WireError(f"error {answer.error_code} to a login: {told}")
        return Judged(bytes(answer.auth_bytes), lifetime_ms=max(0, answer.session_lifetime_ms))

    def _handshake(self, frame: bytes) -> bytes | Judged:
        answer = read_answer(Api.SASL_HANDSHAKE, _HANDSHAKE_VERSION, frame)
        unsent, self._unsent = self._unsent, b""
        if answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms)[:LOGIN_TOLD_CHARS_MAX]
            return Judged(b"", refused=f"The upstream does not take {self._mechanism}, but {offered or 'nothing'}")
        if answer.error_code:
            raise WireError(f"error {answer.error_code} to a handshake")
        self._shaken = True
        return self._authenticate(unsent)

    def _authenticate(self, message: bytes) -> bytes:
        return framed(Api.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, self.CORRELATION, {"auth_bytes": message})
