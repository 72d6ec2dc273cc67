"""A login that another server judges: what the client sends goes there, and the answer to the client (ADR 100).

Problem: beside an existing Kafka its users are there, and nobody can read their passwords, so a replica can neither
judge them nor log in as one of them; yet it must know who a client is, for the groups that are its own. Mechanism: each
message is passed on as it is. The name is read from the client's first message, as Kafka reads it, and counts once that
server says that the exchange was a success. A message from which two readers could take two names is refused before it
goes there. What this does not do: sockets (`runtime.upstream_passage`), read tokens (`security.passed_token`), or pass
on Kafka's delegation tokens, whose owner is not in the message.
"""

from muster_coordinator.security.limits import SCRAM_MESSAGE_BYTES_MAX, TOKEN_MESSAGE_BYTES_MAX
from muster_coordinator.security.outcome import Accepted, Challenge, Elsewhere, Judged, Outcome, Refused
from muster_coordinator.security.passed_token import token_user
from muster_coordinator.security.plain import INVALID, read_plain
from muster_coordinator.security.scram import read_first
from muster_coordinator.security.session import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

_MESSAGES = {PLAIN: 1, SCRAM_SHA_256: 2, SCRAM_SHA_512: 2, OAUTHBEARER: 1}
"""Of the client, until it has shown who it is."""
_VERIFIER = b"v="
"""How SCRAM's server ends a success (RFC 5802, section 7)."""


class PassedOn:
    """One exchange: `step` with the client's message, then `judged` with what that server said to it, and so on."""

    __slots__ = ("_asked", "_claim", "_mechanism", "_sent", "_user")

    def __init__(self, mechanism: str, claim: str = "") -> None:
        """`claim`: which one of a token is the user there; "" where clients bring none."""
        self._mechanism = mechanism
        self._claim = claim
        self._user = ""
        self._sent = 0
        self._asked = False
        """Is the last message with that server?"""

    def step(self, message: bytes) -> Outcome:
        """The client's next message."""
        if self._asked:
            return Refused("a message before the answer to the one before", self._user)
        most = TOKEN_MESSAGE_BYTES_MAX if self._mechanism == OAUTHBEARER else SCRAM_MESSAGE_BYTES_MAX
        if len(message) > most:
            return Refused(f"a message of {len(message)} bytes")
        if not self._sent:
            user = self._named(message)
            if isinstance(user, Refused):
                return user
            self._user = user
        self._sent += 1
        self._asked = True
        return Elsewhere(message, begins=self._sent == 1)

    def _named(self, message: bytes) -> str | Refused:
        """Who the first message says that the client is."""
        if self._mechanism == OAUTHBEARER:
            return token_user(message, self._claim)
        first = read_plain(message) if self._mechanism == PLAIN else read_first(message)
        return first if isinstance(first, Refused) else first.user

    def judged(self, said: Judged, wall_ms: int) -> Outcome:
        """What that server said."""
        self._asked = False
        if said.refused:
            return Refused(f"the upstream refuses it: {said.refused}", self._user, told=said.refused)
        needed = _MESSAGES[self._mechanism]
        if self._sent < needed or (self._mechanism == OAUTHBEARER and self._sent == needed and said.message):
            # A token that is not taken is told in two steps: why, and after the client's answer the refusal (RFC 7628).
            return Challenge(said.message)
        if not self._confirms(said.message):
            return Refused("the upstream's last message confirms nobody", self._user, told=INVALID)
        expires_ms = wall_ms + said.lifetime_ms if said.lifetime_ms else None
        return Accepted(said.message, self._user, expires_ms)

    def _confirms(self, message: bytes) -> bool:
        """Does a last message without a refusal confirm the client? One of SCRAM without a verifier does not, whatever
        its code says, and nothing does after a token was not taken."""
        if self._mechanism == OAUTHBEARER:
            return self._sent == _MESSAGES[OAUTHBEARER]
        return self._mechanism == PLAIN or message.startswith(_VERIFIER)
