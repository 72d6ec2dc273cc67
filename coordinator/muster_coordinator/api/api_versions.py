"""ApiVersions: the version table, and a check of the client's software name (protocol notes 1.2). There are no features
to list until transactions exist."""

import re

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import ADVERTISED

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
_SOFTWARE_SINCE = 3


class ApiVersions:
    """Handler of ApiVersions v0-4; needs no right and no state. `wire.connection` answers higher versions."""

    def handle(self, _context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """The table; or error 42 without a table when the software name or version is malformed."""
        named = (request.client_software_name, request.client_software_version)
        if version >= _SOFTWARE_SINCE and not all(_SOFTWARE.match(text) for text in named):
            reply({"error_code": Code.INVALID_REQUEST, "api_keys": ()})
            return
        reply({"error_code": Code.NONE, "api_keys": ADVERTISED})
