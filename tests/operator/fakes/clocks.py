"""Time and chance that a test sets."""


class FakeClock:
    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms
        self.epoch_ms = 1_750_000_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.epoch_ms + self.now_ms

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds


class FakeRand:
    """The middle of every range; tokens that a search for secrets would find."""

    TOKEN = "s3cr3t-t0k3n-value"

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def token(self) -> str:
        return self.TOKEN
