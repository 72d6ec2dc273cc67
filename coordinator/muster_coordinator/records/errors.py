"""Undecodable bytes. Whose fault they are, a client's or our disk's, only their reader knows: no side is named here."""

from muster_coordinator.errors import MusterError


class MalformedError(MusterError):
    """The bytes are not what their kind promises."""


class UnsupportedError(MalformedError):
    """A schema version, or an own record type, above what this release knows: written by a newer one."""
