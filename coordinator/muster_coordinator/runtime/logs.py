"""Structured logs: one JSON object per line on standard error, through a bounded queue that never blocks the loop.

Problem: a slow terminal or a full pipe must not delay a commit. Mechanism: a thread formats and writes the records;
records that do not fit in the queue are counted, and the count is logged when there is room again (and shown as
`muster_log_records_dropped_total`). Values from clients are JSON strings, so a line break in a client id cannot forge a
line; characters that a terminal would interpret or reorder are escaped.

A pipe whose reader has stopped blocks the writing thread for ever, and any other writer to the stream: `stop` then
returns False, and the process ends without further output (`app`).
"""

import json
import logging
import queue
import re
import sys
import threading
import time
import traceback
from typing import TextIO

from typing_extensions import override

_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters that JSON does not escape, line separators, direction marks, the BOM, and lone surrogates."""
_EVENTS = "events"
"""The `logger` of all events; each line has its `room` (`log_levels.event_logger`)."""
QUEUE_RECORDS_MAX = 10_000
MESSAGE_CHARS_MAX = 8_192
ERROR_CHARS_MAX = 32_768
"""A traceback's last characters are kept; the bound is needed because an error may quote what a client sent."""
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every record; all others came from `extra=`."""


class JsonFormatter(logging.Formatter):
    """`{"ts", "level", "logger", "message", ...extra}`; `error` holds a traceback."""

    def __init__(self, fixed: dict[str, object]) -> None:
        super().__init__()
        self._fixed = fixed

    @override
    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        name = record.name.removeprefix("muster_coordinator.")
        line: dict[str, object] = {
            "ts": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": _EVENTS if name.startswith(_EVENTS) else name,
            "message": record.getMessage()[:MESSAGE_CHARS_MAX],
            **self._fixed,
        }
        for key, value in vars(record).items():
            if key not in _PLAIN:
                line[key] = value[:MESSAGE_CHARS_MAX] if isinstance(value, str) else value
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))[-ERROR_CHARS_MAX:]
        return _UNSEEN.sub(_escaped, json.dumps(line, default=str, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


class BoundedHandler(logging.Handler):
    """Puts records on the queue; counts those that do not fit."""

    def __init__(self, records_max: int = QUEUE_RECORDS_MAX) -> None:
        super().__init__()
        self.queue: queue.Queue[logging.LogRecord | None] = queue.Queue(records_max)
        self.dropped = 0

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class LogPipeline:
    """Root logging of one process. `stop` writes the queued records and removes the handler."""

    def __init__(self, stream: TextIO, level: int, fixed: dict[str, object]) -> None:
        self._stream = stream
        self._formatter = JsonFormatter(fixed)
        self._handler = BoundedHandler()
        self._told_dropped = 0
        self._thread = threading.Thread(target=self._write, name="logs", daemon=True)
        self._thread.start()
        root = logging.getLogger()
        root.handlers[:] = [self._handler]
        root.setLevel(level)

    @property
    def dropped(self) -> int:
        """Records lost to a full queue."""
        return self._handler.dropped

    def stop(self, timeout_seconds: float = 1.0) -> bool:
        """Write the queued records and end the thread. Also called during a crash: never raises, waits at most twice
        `timeout_seconds`. False: not all records were written, and a write to the stream may block for ever."""
        logging.getLogger().handlers[:] = []
        try:
            self._handler.queue.put(None, timeout=timeout_seconds)
        except queue.Full:
            return False
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _write(self) -> None:
        while True:
            record = self._handler.queue.get()
            if record is None:
                return
            try:
                lines = [self._formatter.format(record)]
            except Exception:  # noqa: BLE001  # A bad log call must not end the thread.
                self._handler.dropped += 1
                continue
            dropped = self._handler.dropped
            if dropped != self._told_dropped:
                note = logging.makeLogRecord({"name": __name__, "levelname": "WARNING", "msg": "log records dropped"})
                note.__dict__["records"] = dropped - self._told_dropped
                self._told_dropped = dropped
                lines.append(self._formatter.format(note))
            try:
                self._stream.write("\n".join(lines) + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._handler.dropped += len(lines)
                self._told_dropped = self._handler.dropped


def start_logging(level: str, *, stream: TextIO | None = None, **fixed: object) -> LogPipeline:
    """Send all logging of the process through one pipeline; every line has the `fixed` fields (e.g. broker=1)."""
    return LogPipeline(stream or sys.stderr, logging.getLevelNamesMapping()[level.upper()], fixed)


def print_trace(error: BaseException, timeout_seconds: float = 1.0) -> None:
    """Print a traceback on standard error, from a thread: where the stream blocks, the process ends without it."""

    def write() -> None:
        traceback.print_exception(error)
        sys.stderr.flush()

    thread = threading.Thread(target=write, name="trace", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
