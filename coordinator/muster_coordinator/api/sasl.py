"""SaslHandshake and SaslAuthenticate on a listener without authentication: error 34, as on Kafka's PLAINTEXT listener.

They are advertised for two reasons. A client that is configured with a password for such a listener gets an answer that
says so, not a closed connection. And tools that infer a broker's release from its list of APIs would take one without
SaslHandshake, which came with 0.10, for a 0.9.
"""

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value


class Sasl:
    """Handlers of both; they need no right and no state."""

    def handshake(self, _context: RequestContext, _version: int, _request: Value, reply: Exchange) -> None:
        """SaslHandshake v0-1: no mechanism is enabled."""
        reply({"error_code": Code.ILLEGAL_SASL_STATE, "mechanisms": ()})

    def authenticate(self, _context: RequestContext, _version: int, _request: Value, reply: Exchange) -> None:
        """SaslAuthenticate v0-2."""
        reply(
            {
                "error_code": Code.ILLEGAL_SASL_STATE,
                "error_message": "this listener requires no authentication",
                "auth_bytes": b"",
            }
        )
