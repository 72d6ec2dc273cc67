"""The bearer token of the admin API (decision 37), read from a file that may change under a running replica.

The file's modification time, size and inode are checked at most once a second, and it is read when they changed, so a
rotated Secret takes effect without a restart. With an unreadable or empty file every request is refused. The comparison
takes the same time wherever tokens differ.
"""

import hmac
from pathlib import Path

from muster_coordinator.ports import Clock

LOOK_MS = 1_000
TOKEN_BYTES_MAX = 4_096


class TokenFile:
    """`allows(header)` for the value of an Authorization header."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._looked_ms: int | None = None
        self._stamp: tuple[int, int, int] | None = None
        self._token = b""

    def allows(self, header: str | None) -> bool:
        """True for `Bearer <the file's content, stripped>`."""
        self._refresh()
        scheme, _, given = (header or "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._token)
        return same and bool(self._token) and scheme.lower() == "bearer"

    def _refresh(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp != self._stamp:
                with self._path.open("rb") as file:
                    self._token = file.read(TOKEN_BYTES_MAX).strip()
                self._stamp = stamp
        except OSError:
            self._stamp, self._token = None, b""
