"""The two families of errors that adapters raise; everything else that escapes one is a bug.

OperatorError
├── Transient   ask again with back-off: time-outs, refused connections, 409 conflicts, 429, 5xx
└── Refused     asking again does not help until somebody changes something: 400, 403, 422, a name taken by others,
                a namespace that another operator serves (ServedByAnother)
    └── NotServed   a kind that the API server does not know

Messages are written for people and end up in conditions, Events and logs, so none carries a token, a header or the
data of
a Secret. `reason` is one CamelCase word.
"""


class OperatorError(Exception):
    """Base of both families: `reason` for programs, `message` for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class Transient(OperatorError):
    """The environment cannot answer now. `retry_after_ms` is what the other side asked for, 0 when it said nothing."""

    def __init__(self, reason: str, message: str, *, retry_after_ms: int = 0) -> None:
        super().__init__(reason, message)
        self.retry_after_ms = retry_after_ms


class Conflict(Transient):
    """Somebody else was faster (409): the object changed, or is another one by now. Look again, then decide anew."""


class Refused(OperatorError):
    """The other side understood and will not do it. Not asked again until the object's generation changes or a
    resync."""


class ServedByAnother(Refused):
    """Another operator serves the namespace: nothing is written about its objects, their status included."""


class NotServed(Refused):
    """The API server does not know the kind (404 of a list): its definition is not there, or not served yet."""


FORBIDDEN = "Forbidden"
"""Kubernetes' reason of a 403: a right or a quota is missing. Rights travel: an API server's authorizer learns a moment
later of a role that was just made, as by `helm install`. So this refusal is tried again with back-off."""


class LeadershipLost(OperatorError):
    """The Lease could not be renewed in time: another operator may act now, so this process must end."""
