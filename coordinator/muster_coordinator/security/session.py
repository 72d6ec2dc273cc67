"""How one connection authenticates by SASL (KIP-43, KIP-152, KIP-368): a state machine over the mechanisms' own.

    FRESH --handshake--> EXCHANGING --last message--> AUTHENTICATED --handshake--> EXCHANGING (again) ...

Problem: what is a right message depends on what came before it. Mechanism: `handshake` chooses one of the listener's
mechanisms, `step` gives each message to it. A client that is authenticated may do so again, with the mechanism and as
the user that it has, once a second at most. Nothing follows a failure: the connection is closed. What this does not do:
close it, wait, ask the server that judges instead, or hold the clock (`api.sasl`, `wire.connection`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from muster_coordinator.security.limits import SESSION_REQUESTS_PAUSE_MS
from muster_coordinator.security.outcome import Accepted, Challenge, Elsewhere, Judged, KeyMissing, Outcome, Refused

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""Those that a listener may offer."""
OTHER_USER = "Cannot change principals during re-authentication"


class Mechanism(Protocol):
    """One exchange of messages."""

    def step(self, message: bytes) -> Outcome: ...


@runtime_checkable
class Asking(Mechanism, Protocol):
    """A `Mechanism` that another server judges."""

    def judged(self, said: Judged, wall_ms: int) -> Outcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSasl:
    """What a listener offers."""

    mechanisms: tuple[str, ...]
    reauth_ms: Mapping[str, int]
    """How long a session of each mechanism lasts at most; 0: for good."""
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Name -> password."""
    elsewhere: bool = False
    """Does the server behind this one judge its clients (`security.passed_on`)?"""
    subject_claim: str = ""
    """Of a token that is judged there: the claim that is the user."""


class _State(Enum):
    FRESH = "fresh"
    EXCHANGING = "exchanging"
    AUTHENTICATED = "authenticated"
    ENDED = "ended"


class Refusal(Enum):
    """Why a handshake is refused."""

    UNSUPPORTED = "a mechanism that the listener does not offer"
    OUT_OF_ORDER = "a handshake that is not one's turn"
    OTHER_MECHANISM = "another mechanism than that of the session"


class SaslSession:
    """See the module. `make` gives a new exchange of a mechanism."""

    __slots__ = ("_began_ms", "_exchange", "_state", "listener", "mechanism", "since", "user")

    def __init__(self, listener: ListenerSasl) -> None:
        self.listener = listener
        self.mechanism = ""
        self.user: str | None = None
        """Who the client is; None: it is not authenticated."""
        self.since = 0
        """See `outcome.Accepted.since`."""
        self._exchange: Mechanism | None = None
        self._state = _State.FRESH
        self._began_ms = 0

    @property
    def again(self) -> bool:
        """Is this not the first time that the client authenticates?"""
        return self.user is not None

    def handshake(self, mechanism: str, now_ms: int, make: Callable[[str], Mechanism]) -> Refusal | None:
        """The client chooses its mechanism."""
        state, self._state = self._state, _State.ENDED
        early = state is _State.AUTHENTICATED and now_ms - self._began_ms < SESSION_REQUESTS_PAUSE_MS
        if early or state not in (_State.FRESH, _State.AUTHENTICATED):
            return Refusal.OUT_OF_ORDER
        if mechanism not in self.listener.mechanisms:
            return Refusal.UNSUPPORTED
        if state is _State.AUTHENTICATED and mechanism != self.mechanism:
            return Refusal.OTHER_MECHANISM
        self.mechanism, self._began_ms = mechanism, now_ms
        self._exchange = make(mechanism)
        self._state = _State.EXCHANGING
        return None

    def step(self, message: bytes) -> Outcome | None:
        """The client's next message. None: it is not one's turn to send any."""
        exchange = self._exchange
        if self._state is not _State.EXCHANGING or exchange is None:
            self._state = _State.ENDED
            return None
        return self._after(exchange.step(message))

    def judged(self, said: Judged, wall_ms: int) -> Outcome | None:
        """What the other server says to the message that was `Elsewhere`. None: nothing is with it any more."""
        exchange = self._exchange
        if self._state is not _State.EXCHANGING or not isinstance(exchange, Asking):
            return None
        return self._after(exchange.judged(said, wall_ms))

    def _after(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Challenge | KeyMissing | Elsewhere):
            return outcome
        self._exchange, self._state = None, _State.ENDED
        if isinstance(outcome, Accepted):
            if self.user not in (None, outcome.user):
                return Refused("another user than that of the session", outcome.user, told=OTHER_USER)
            self.user, self.since, self._state = outcome.user, outcome.since, _State.AUTHENTICATED
        return outcome


def session_lifetime_ms(reauth_ms: int, expires_ms: int | None, wall_ms: int) -> int:
    """How long what was shown now is good for (KIP-368): as long as the listener says, and the token. 0: for good."""
    if expires_ms is None:
        return reauth_ms
    left_ms = max(1, expires_ms - wall_ms)
    return min(reauth_ms, left_ms) if reauth_ms else left_ms
