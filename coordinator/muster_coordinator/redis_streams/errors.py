"""What can be wrong with an entry, or with a batch that is to become entries."""

from muster_coordinator.errors import Code, EnvironmentFault


class EntryBeyondOffsets(EnvironmentFault):
    """An entry whose id has no offset: somebody else wrote it. It is told, never skipped."""


class NotAppendable(Exception):
    """A batch that cannot become entries; nothing of it was sent to Redis. `code` is what its producer is told."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
