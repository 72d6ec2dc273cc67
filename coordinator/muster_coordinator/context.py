"""Who asks, over which listener, until when (decision 11). Made by `wire`, read by every handler and by `authorize`."""

from typing import NamedTuple


class RequestContext(NamedTuple):
    """One request's envelope."""

    principal: str
    """`User:ANONYMOUS` until authentication exists."""
    listener: str
    """Name of the listener that the connection came in on; answers that carry addresses use its advertised ones."""
    connection_id: int
    client_id: str
    """"" when the client sent null."""
    client_host: str
    """As Kafka writes it: "/" and the IP."""
    api_key: int
    api_version: int
    deadline_ms: int
    """Monotonic; a request past it is not proposed any more."""
