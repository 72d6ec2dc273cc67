"""ApiVersions: the version table, a check of the client's software name (protocol notes 1.2), and the feature level."""

import re

from muster_coordinator.api.features import told_features
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import ADVERTISED

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
_SOFTWARE_SINCE = 3


class ApiVersions:
    """Handler of ApiVersions v0-4; needs no right. `wire.connection` answers higher versions."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, _context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """The table; or error 42 without a table when the software name or version is malformed."""
        named = (request.client_software_name, request.client_software_version)
        if version >= _SOFTWARE_SINCE and not all(_SOFTWARE.match(text) for text in named):
            reply({"error_code": Code.INVALID_REQUEST, "api_keys": ()})
            return
        upstream = self._services.upstream
        rows = ADVERTISED if upstream is None else upstream.advertised()
        if rows is None:
            # A client takes an API that is not in the table for one that this server will never have.
            self._services.refuse_later(reply, "no broker of the upstream has been reached yet")
            return
        surface = self._services.surface
        reply({"error_code": Code.NONE, "api_keys": rows, **told_features(surface.image(), surface.broker)})
