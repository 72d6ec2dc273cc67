"""The longest turn of the loop, and a stack trace of a turn that is far too long.

Problem: everything waits for the loop, so its longest turn bounds every latency (decision 21). Mechanism: a periodic
timer measures how late it fires, which is the length of the turn that delayed it, exact to one period. A daemon thread
watches from outside: when the timer has not fired for `STALL_MS`, it logs the stack of the loop's thread, once per
stall, because after the stall the cause cannot be seen any more.
"""

import logging
import sys
import threading
import time
import traceback

from muster_coordinator.ports import Loop, Timer

BEAT_MS = 20
STALL_MS = 500
WINDOW_MS = 60_000
"""`longest_turn_ms` covers the last one to two windows."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Must be made in the loop's thread. Call `start`, read `longest_turn_ms()`, call `stop` at the end."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._expected_ms = 0
        self._timer: Timer | None = None
        self._current_ms = 0
        self._previous_ms = 0
        self._window_ends_ms = 0
        self._stop = threading.Event()
        self._beats = 0

    def start(self) -> None:
        now_ms = self._loop.monotonic_ms()
        self._window_ends_ms = now_ms + WINDOW_MS
        self._expect(now_ms + BEAT_MS)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()

    def longest_turn_ms(self) -> int:
        """Longest turn of the last one to two windows."""
        return max(self._current_ms, self._previous_ms)

    def _expect(self, deadline_ms: int) -> None:
        self._expected_ms = deadline_ms
        self._timer = self._loop.call_at(deadline_ms, self._beat)

    def _beat(self) -> None:
        now_ms = self._loop.monotonic_ms()
        self._beats += 1
        late_ms = now_ms - self._expected_ms
        self._current_ms = max(self._current_ms, late_ms)
        if now_ms >= self._window_ends_ms:
            self._previous_ms, self._current_ms = self._current_ms, 0
            self._window_ends_ms = now_ms + WINDOW_MS
        self._expect(now_ms + BEAT_MS)

    def _watch(self) -> None:
        """The watching thread. It shares only one counter with the loop; if it is itself delayed, it misses a stall."""
        seen, since, told = self._beats, time.monotonic(), False
        while not self._stop.wait(STALL_MS / 2_000):
            if self._beats != seen:
                seen, since, told = self._beats, time.monotonic(), False
            elif not told and time.monotonic() - since >= STALL_MS / 1_000:
                told = True
                stack = _stack_of(self._loop_thread)
                _log.warning("the loop has not come round for %d ms", STALL_MS, extra={"stack": stack})


def _stack_of(thread: int) -> str:
    """Of a thread that runs; "": it is gone.

    A function of its own, so that the frame is let go of before the watching goes on: whoever refers to a frame keeps
    all its variables, and those of its callers, beyond their end. A long turn is one with a large request.
    """
    frame = sys._current_frames().get(thread)
    return "" if frame is None else "".join(traceback.format_stack(frame))
