"""`/v1/log-levels`: the log level of each room of this replica, read and changed while it runs.

Problem: to see more of a group's behaviour must not need a restart, which would end that behaviour. Mechanism: rooms
and levels are those of `LevelControl` (`runtime.log_levels`); a request is applied whole or not at all, and each change
is logged. It applies to this replica only, until its process ends.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

from aiohttp import web

from muster_coordinator.admin.routes import Route
from muster_coordinator.admin.status import Json
from muster_coordinator.security.roles import Role

_log = logging.getLogger(__name__)


class LevelControl(Protocol):
    """The log levels of this process."""

    configured: str
    """The level with which the process was started."""

    def levels(self) -> Mapping[str, str | None]:
        """Room -> its own level; None: the level of `process` applies."""
        ...

    def knows(self, room: str, level: str | None) -> bool: ...
    def set(self, room: str, level: str | None) -> None:
        """Precondition: `knows(room, level)`. None: as configured."""
        ...


def wanted_levels(body: object, control: LevelControl) -> dict[str, str | None]:
    """Room -> level of the body of `PUT /v1/log-levels`. Raises ValueError with a message for the caller."""
    if not isinstance(body, dict) or body.keys() != {"levels"} or not isinstance(body["levels"], dict):
        raise ValueError("expected an object with levels, an object of rooms and levels")
    asked: dict[str, object] = body["levels"]
    wanted = {room: level for room, level in asked.items() if level is None or isinstance(level, str)}
    for room in asked:
        if room not in wanted or not control.knows(room, wanted[room]):
            raise ValueError(
                f"unknown room or level; rooms: {', '.join(control.levels())}; levels: debug, info, warning, error, "
                "or null for the configured level"
            )
    return wanted


class LevelPaths:
    """Handlers over one process's levels."""

    def __init__(self, control: LevelControl) -> None:
        self._control = control

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("GET", "/v1/log-levels", Role.VIEWER, self.read),
            Route("PUT", "/v1/log-levels", Role.OPERATOR, self.change),
        )

    async def read(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._document())

    async def change(self, request: web.Request) -> web.StreamResponse:
        try:
            body: object = await request.json()
            wanted = wanted_levels(body, self._control)
        except (ValueError, RecursionError) as error:
            return web.json_response({"error": "bad_request", "message": str(error)}, status=400)
        for room, level in wanted.items():
            self._control.set(room, level)
        _log.warning("log levels changed", extra={"levels": wanted})
        return web.json_response(self._document())

    def _document(self) -> Json:
        return {"configured": self._control.configured, "levels": dict(self._control.levels())}
