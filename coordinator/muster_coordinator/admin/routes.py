"""A path of the admin API with the role that it needs: each file of the room says its own, and nothing else is served.

The table in docs/admin-api.md is this list of all files; `tests/admin/test_roles.py` asks each of its rows.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from aiohttp import web

from muster_coordinator.security.roles import Role


class Route(NamedTuple):
    """`path` in aiohttp's spelling; GET is HEAD as well."""

    method: str
    path: str
    needs: Role
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]


class RouteTable:
    """The routes of an application, and what they need."""

    def __init__(self, app: web.Application, routes: Iterable[Route]) -> None:
        self._needs: dict[web.AbstractRoute, Role] = {}
        for route in routes:
            for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
                self._needs[app.router.add_route(method, route.path, route.handler)] = route.needs

    def needs(self, request: web.Request) -> Role:
        """What the request's path needs. One that does not exist is told to whoever may see anything."""
        if request.match_info.http_exception is not None:
            return Role.VIEWER
        return self._needs.get(request.match_info.route, Role.ADMIN)
