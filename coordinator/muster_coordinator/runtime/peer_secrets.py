"""The secrets of the peer links, from a file that is read again when it changes.

They are read off the loop every `limits.TLS_LOOK_MS`. A file that cannot be used changes nothing: the secrets before
stay in force, and an event says why. Without them at the start there is no start.
"""

from pathlib import Path

from muster_coordinator.errors import EnvironmentFault, WireError
from muster_coordinator.events import PEER_SECRETS_LOADED, PEER_SECRETS_REFUSED, Event, Tell
from muster_coordinator.links.peer_auth import SECRET_BYTES_MAX, SECRETS_MAX, parse_secrets
from muster_coordinator.ports import Loop, Timer
from muster_coordinator.runtime import limits

_FILE_BYTES_MAX = 2 * SECRETS_MAX * SECRET_BYTES_MAX


def read_secrets(path: Path) -> tuple[bytes, ...]:
    """Blocking. Raises `EnvironmentFault` that names the file."""
    try:
        with path.open("rb") as file:
            return parse_secrets(file.read(_FILE_BYTES_MAX + 1))
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be read: {error.strerror}") from error
    except WireError as error:
        raise EnvironmentFault(f"{path}: {error}") from error


class PeerSecrets:
    """`current`: the secrets in force, the newest first."""

    def __init__(self, loop: Loop, path: Path, tell: Tell) -> None:
        """Blocking. Raises `EnvironmentFault`."""
        self._loop = loop
        self._path = path
        self._tell = tell
        self._timer: Timer | None = None
        self._stopped = False
        self._problem = ""
        self.current = read_secrets(path)
        self._wait()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = self._loop.call_at(self._loop.monotonic_ms() + limits.TLS_LOOK_MS, self._look)

    def _look(self) -> None:
        self._loop.submit(limits.TLS_QUEUE, lambda: read_secrets(self._path), self._looked)

    def _looked(self, found: tuple[bytes, ...] | BaseException) -> None:
        if self._stopped:
            return
        self._wait()
        if isinstance(found, BaseException):
            if str(found) != self._problem:
                self._problem = str(found)
                self._tell(Event(PEER_SECRETS_REFUSED, {"why": self._problem}))
            return
        self._problem = ""
        if found != self.current:
            self.current = found
            self._tell(Event(PEER_SECRETS_LOADED, {"secrets": len(found)}))
