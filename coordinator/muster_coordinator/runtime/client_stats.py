"""What a listener of Kafka clients counts; `admin.request_metrics` exports it."""

from dataclasses import dataclass


@dataclass(slots=True)
class ClientStats:
    """Counters since the start, but for the gauges `connections`, `buffered`, `unsent` and `throttled`."""

    connections: int = 0
    """Open connections now."""
    accepted: int = 0
    refused: int = 0
    """Connections refused by a limit of connections or accepts."""
    failed: int = 0
    """Connections closed because of bytes that are no request, by a handler, or by a bug of ours."""
    slow: int = 0
    """Connections closed because they did not take their answers, or exceeded a sum over all connections."""
    idle: int = 0
    """Connections closed after the idle time."""
    handshakes: int = 0
    """Connections closed because their TLS handshake failed or took too long."""
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    buffered: int = 0
    """Bytes of incomplete or held-back frames now."""
    unsent: int = 0
    """Bytes of answers that clients have not taken now."""
    throttled: int = 0
    """Connections that are not read now, because their clients are above a quota."""
