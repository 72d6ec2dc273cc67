"""The client, listener and deadline of a request (decision 11). `wire` creates it; handlers and `authorize` read it."""

from typing import NamedTuple


class RequestContext(NamedTuple):
    """What is known of a request besides its content."""

    principal: str
    """In Kafka's form, `User:name`; `User:ANONYMOUS` where the listener wants no authentication."""
    listener: str
    """The connection's listener; answers with addresses use those advertised for it."""
    connection_id: int
    client_id: str
    """"" when the client sends null."""
    client_host: str
    """In Kafka's form: "/" and the IP address."""
    api_key: int
    api_version: int
    deadline_ms: int
    """Monotonic time; after it the request is no longer proposed."""
