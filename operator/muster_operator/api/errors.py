"""What is wrong with an object of ours, as a typed error.

The API server checks every object against the CRD's schema and CEL rules. Yet an object may have been stored before a
rule existed, or the CRD may be older than the operator, so parsing checks again and says the same in the same words.
"""


class InvalidObject(Exception):
    """The object cannot be acted upon until somebody changes it. `path` is as users write: `spec.listeners[0].port`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
