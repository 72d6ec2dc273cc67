"""Real time and random numbers behind `ports.Clock` and `ports.Rand`."""

import random
import secrets
import time

TOKEN_BYTES = 32


class SystemClock:
    """Monotonic time for intervals, wall time for timestamps that others read."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemRand:
    """Jitter from an ordinary generator, tokens from the operating system's secure one."""

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    def token(self) -> str:
        return secrets.token_urlsafe(TOKEN_BYTES)
