"""Structured logs: one JSON object a line on standard error, through a bounded queue that never blocks the loop.

A slow terminal or a full pipe must not hold up a commit, so records are formatted and written by a thread; what does
not fit in the queue is counted, and the count is logged when there is room again (and shown as
`muster_log_records_dropped_total`). Values from clients are JSON strings, so a line break in a client id cannot forge
a line.
"""

import json
import logging
import queue
import sys
import threading
import time
import traceback
from typing import TextIO

from typing_extensions import override

QUEUE_RECORDS_MAX = 10_000
MESSAGE_CHARS_MAX = 8_192
ERROR_CHARS_MAX = 32_768
"""Of a traceback, the end: an error may quote what a client sent."""
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; everything else came in by `extra=`."""


class JsonFormatter(logging.Formatter):
    """`{"ts", "level", "logger", "message", ...extra}`; `error` holds a traceback."""

    def __init__(self, fixed: dict[str, object]) -> None:
        super().__init__()
        self._fixed = fixed

    @override
    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "ts": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("muster_coordinator."),
            "message": record.getMessage()[:MESSAGE_CHARS_MAX],
            **self._fixed,
        }
        for key, value in vars(record).items():
            if key not in _PLAIN:
                line[key] = value
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))[-ERROR_CHARS_MAX:]
        return json.dumps(line, default=str, ensure_ascii=False)


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
    """Root logging of one process. `stop` writes what is queued and gives the standard handlers back."""

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

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """Also called on the way to a crash: never raises, never waits long."""
        logging.getLogger().handlers[:] = []
        try:
            self._handler.queue.put(None, timeout=timeout_seconds)
        except queue.Full:
            return
        self._thread.join(timeout_seconds)

    def _write(self) -> None:
        while True:
            record = self._handler.queue.get()
            if record is None:
                return
            lines = [self._formatter.format(record)]
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
    """Send all logging of the process through one pipeline; `fixed` (e.g. broker=1) is on every line."""
    return LogPipeline(stream or sys.stderr, logging.getLevelNamesMapping()[level.upper()], fixed)
