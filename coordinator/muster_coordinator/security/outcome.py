"""What a message of a SASL mechanism leads to."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: this is to be sent."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client is this user; the message is sent with the good news."""

    message: bytes
    user: str
    expires_ms: int | None = None
    """Wall time at which what the client has shown is no longer valid; None: it says nothing of that."""
    since: int = 0
    """Of a user in the controller's log: which of its credentials of the same name it was."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The exchange is over. Never holds a secret."""

    why: str
    """For the log of the replica, never for the client."""
    user: str = ""
    """Who the client said it is; "" where it has not, or in no form that can be told."""
    doubtful: bool = False
    """A replica that is behind would say so too: it is said once this one is known not to be."""
    judged_by: object = None
    """By what credential, where it is doubtful; None: there was none."""
    told: str = ""
    """For the client; "": only that its credentials are not valid."""


@dataclass(frozen=True, slots=True)
class KeyMissing:
    """The token is signed by a key that is not known yet: it is judged again once the keys were fetched anew."""

    key_id: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another server judges the message (`security.passed_on`)."""

    message: bytes = field(repr=False)
    begins: bool
    """Is it the first one of an exchange?"""


@dataclass(frozen=True, slots=True)
class Judged:
    """What that server has said to it."""

    message: bytes
    """For the client."""
    refused: str = ""
    """Why it is over, for the client; "": it is not, or the client has shown who it is."""
    lifetime_ms: int = 0
    """How long what the client has shown is good for; 0: for good."""


Outcome = Challenge | Accepted | Refused | KeyMissing | Elsewhere
