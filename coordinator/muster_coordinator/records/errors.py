"""Errors of decoding. Only the caller knows whether the bytes came from a client or from our disk."""

from muster_coordinator.errors import MusterError


class MalformedError(MusterError):
    """The bytes do not follow their format."""


class UnsupportedError(MalformedError):
    """A schema version or an own record type that this release does not know: a newer release wrote it."""
