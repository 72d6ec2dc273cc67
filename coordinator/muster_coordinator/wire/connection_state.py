"""Life phases of a client's connection.

What it does not do: go from one to the next (`wire.connection`).
"""

from enum import Enum


class State(Enum):
    """Life phases of a connection."""

    UNAUTHENTICATED = "unauthenticated"
    READY = "ready"
    FAILED = "failed"
    """Bytes were no request, a handler asked to close, or a bug was met: close once the ready answers are written."""
    CLOSED = "closed"
