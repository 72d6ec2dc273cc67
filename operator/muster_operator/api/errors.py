"""An invalid object of our kinds, as a typed error.

The API server checks every object against the CRD's schema and CEL rules. But an object may have been stored before a
rule existed, or the CRD may be older than the operator, so parsing repeats the checks with the same messages.
"""


class InvalidObject(Exception):
    """The object cannot be reconciled until it is changed. `path` is in the users' notation:
    `spec.listeners[0].port`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
