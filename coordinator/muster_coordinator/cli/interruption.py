"""SIGTERM and Ctrl-C as one KeyboardInterrupt that no extension module can lose.

Python raises a signal handler's exception wherever the main thread is, even inside a C function that called back into
Python. Such a function may replace it by an error of its own (confluent-kafka's constructors: a TypeError about a
configuration name) or drop it. So the signal is also recorded: any exception that leaves the `with` block after it is
turned into a KeyboardInterrupt, and a loop that calls `check` ends at its next turn. For the main thread only; a second
signal interrupts the clean-up.
"""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interruption:
    """Use as a context manager around the context managers that clean up."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(error, Exception) and self._asked:
            raise KeyboardInterrupt from error

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal has arrived."""
        if self._asked:
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        raise KeyboardInterrupt
