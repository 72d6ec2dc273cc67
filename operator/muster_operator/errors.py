"""The two families of errors that adapters raise; any other exception from an adapter is a bug.

OperatorError
├── Transient   retried with back-off: time-outs, refused connections, 409 conflicts, 429, 5xx
└── Refused     a retry does not help until something is changed: 400, 403, 422, a name that another owner's object has,
                a namespace that another operator serves (ServedByAnother)
    └── NotServed   a kind that the API server does not know

Messages are written for people and appear in conditions, Events and logs, so none contains a token, a header or the
data of a Secret. `reason` is one CamelCase word.
"""


class OperatorError(Exception):
    """Base of both families: `reason` for programs, `message` for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class Transient(OperatorError):
    """The other side cannot answer now. `retry_after_ms`: the wait that it asked for, 0 if none."""

    def __init__(self, reason: str, message: str, *, retry_after_ms: int = 0) -> None:
        super().__init__(reason, message)
        self.retry_after_ms = retry_after_ms


class Conflict(Transient):
    """409: another client changed the object, or it is another object of the same name by now. Read again, then decide
    anew."""


class Refused(OperatorError):
    """The other side understood the request and rejects it. It is not repeated until the object's generation changes,
    or a resync."""


class ServedByAnother(Refused):
    """Another operator serves the namespace: nothing is written about its objects, not even their status."""


class NotServed(Refused):
    """The API server does not know the kind (404 of a list): its definition does not exist or is not served yet."""


FORBIDDEN = "Forbidden"
"""Kubernetes' reason of a 403: a right or a quota is missing. The API server's authorizer sees a new role with a short
delay, as after `helm install`, so this refusal is retried with back-off."""
PORT_TAKEN = "provided port is already allocated"
"""In Kubernetes' 422 for a Service whose nodePort another Service has. As of a taken name, no event reports when it is
free."""


class LeadershipLost(OperatorError):
    """The Lease could not be renewed in time: another operator may act now, so this process must end."""
