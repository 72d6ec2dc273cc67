"""An event loop on virtual time: when nothing is ready it goes to its next timer at once. For loops that use no socket
and no thread."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from typing_extensions import override

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Adds what it would have waited to the loop's time."""

    waited_s = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nobody will ever wake this loop"
        self.waited_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module; also a `ports.Clock`."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    @override
    def time(self) -> float:
        return 1_000.0 + self._virtual.waited_s

    def monotonic_ms(self) -> int:
        return round(self.time() * 1_000)

    def wall_ms(self) -> int:
        return 1_750_000_000_000 + self.monotonic_ms()


def run_virtually(loop: VirtualLoop, scene: Coroutine[Any, Any, T]) -> T:
    """`scene` to its end, with everything that it started."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(scene)
