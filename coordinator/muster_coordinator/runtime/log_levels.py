"""Log levels per room, changed while the process runs (`admin.log_levels`).

Mechanism: each room is a logger of Python's tree; a room without a level of its own uses the process's
(`muster.log.level`, or `--log-level`). A change lasts until the process ends.
"""

import logging

from muster_coordinator.events import Room

LEVELS = ("debug", "info", "warning", "error")
PROCESS = "process"
"""Name of the level of all loggers that have no level of their own."""
EVENTS = "muster_coordinator.events"
_LOGGERS = {
    PROCESS: "",
    **{str(room): f"{EVENTS}.{room}" for room in Room},
    "runtime": "muster_coordinator.runtime",
    "admin": "muster_coordinator.admin",
}


def event_logger(room: Room) -> logging.Logger:
    """The logger of a room's events."""
    return logging.getLogger(_LOGGERS[room])


class LogLevels:
    """Implements `admin.log_levels.LevelControl` for this process."""

    def __init__(self, configured: str) -> None:
        self.configured = configured

    def levels(self) -> dict[str, str | None]:
        """Room -> its own level; None: the process's level applies."""
        numbers = {room: logging.getLogger(name).level for room, name in _LOGGERS.items()}
        return {room: logging.getLevelName(number).lower() if number else None for room, number in numbers.items()}

    def knows(self, room: str, level: str | None) -> bool:
        return room in _LOGGERS and (level is None or level in LEVELS)

    def set(self, room: str, level: str | None) -> None:
        """Precondition: `knows(room, level)`. None: as configured."""
        assert self.knows(room, level)
        if level is None and room == PROCESS:
            level = self.configured
        logging.getLogger(_LOGGERS[room]).setLevel(logging.NOTSET if level is None else level.upper())
