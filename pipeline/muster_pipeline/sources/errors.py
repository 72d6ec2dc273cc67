"""Errors of reading logs, other than damaged bytes. Every message says what to do."""


class SourceError(Exception):
    """Base of this room's errors."""


class BadOption(SourceError):
    """An option is missing, unknown or has an impossible value."""


class NoLog(SourceError):
    """There is no offsets log at that place."""


class AmbiguousLog(SourceError):
    """Two folders hold the same log partition, so one must be named."""


class LogChanged(SourceError):
    """A file was replaced or cut while it was read (compaction, retention, truncation): run again, or read a copy."""


class ClusterUnreachable(SourceError):
    """The cluster did not answer in time, or answered with an error that may pass."""


class RequestUnsupported(ClusterUnreachable):
    """The server does not have this request."""


class OffsetGone(SourceError):
    """The cluster has deleted offsets that were to be read, and the run is strict."""
