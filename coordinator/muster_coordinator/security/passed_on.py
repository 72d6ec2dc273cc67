"""A login that another server judges: what the client sends goes there, and the answer to the client (ADR 100).

Problem: beside an existing Kafka its users are there, and nobody can read their passwords, so a replica can neither
judge them nor log in as one of them; yet it must know who a client is, for the groups that are its own. Mechanism: each
message is passed on as it is. The name is read from the client's first message, as Kafka reads it, and counts once that
server says that the exchange was a success. A message from which two readers could take two names is refused before it
goes there. What this does not do: sockets (`runtime.upstream_passage`), tokens (the name is in a claim that only that
server's configuration tells), or Kafka's delegation tokens, whose owner is not in the message.
"""

from muster_coordinator.security.limits import SCRAM_MESSAGE_BYTES_MAX
from muster_coordinator.security.outcome import Accepted, Challenge, Elsewhere, Judged, Outcome, Refused
from muster_coordinator.security.plain import INVALID, read_plain
from muster_coordinator.security.scram import read_first
from muster_coordinator.security.session import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
"""Those of which the name is in the client's message."""
_MESSAGES = {PLAIN: 1, SCRAM_SHA_256: 2, SCRAM_SHA_512: 2}
"""Of the client, until it has shown who it is."""
_VERIFIER = b"v="
"""How SCRAM's server ends a success (RFC 5802, section 7)."""


class PassedOn:
    """One exchange: `step` with the client's message, then `judged` with what that server said to it, and so on."""

    __slots__ = ("_asked", "_mechanism", "_sent", "_user")

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._user = ""
        self._sent = 0
        self._asked = False
        """Is the last message with that server?"""

    def step(self, message: bytes) -> Outcome:
        """The client's next message."""
        if self._asked:
            return Refused("a message before the answer to the one before", self._user)
        if len(message) > SCRAM_MESSAGE_BYTES_MAX:
            return Refused(f"a message of {len(message)} bytes")
        if not self._sent:
            first = read_plain(message) if self._mechanism == PLAIN else read_first(message)
            if isinstance(first, Refused):
                return first
            self._user = first.user
        self._sent += 1
        self._asked = True
        return Elsewhere(message, begins=self._sent == 1)

    def judged(self, said: Judged, wall_ms: int) -> Outcome:
        """What that server said."""
        self._asked = False
        if said.refused:
            return Refused(f"the upstream refuses it: {said.refused}", self._user, told=said.refused)
        if self._sent < _MESSAGES[self._mechanism]:
            return Challenge(said.message)
        if self._mechanism != PLAIN and not said.message.startswith(_VERIFIER):
            # Whoever shows no verifier has not confirmed the client either, whatever its code says.
            return Refused("the upstream's last message confirms nobody", self._user, told=INVALID)
        expires_ms = wall_ms + said.lifetime_ms if said.lifetime_ms else None
        return Accepted(said.message, self._user, expires_ms)
