"""Structured logs through the standard library: one JSON object per line on standard error.

A record's `extra` fields become fields of the object. Secrets cannot get in by construction: manifests, answers and
headers are never logged, only names, reasons and counts. In addition, fields with names that suggest a secret are
blanked.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from typing_extensions import override

_STANDARD: Final = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_SECRET: Final = ("token", "password", "secret", "authorization")
_TEXT_MAX: Final = 4_096


class JsonFormatter(logging.Formatter):
    """See the module."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage()[:_TEXT_MAX],
        }
        for key, value in record.__dict__.items():
            if key not in _STANDARD and not key.startswith("_") and isinstance(value, str | int | float | bool):
                blank = any(word in key.lower() for word in _SECRET)
                fields[key] = "***" if blank else value
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)[-_TEXT_MAX:]
        return json.dumps(fields, ensure_ascii=False)


def set_up(level: str, stream: TextIO = sys.stderr) -> None:
    """Send our logs to `stream` at `level`, and those of libraries from level warning on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("muster").setLevel(level.upper())
    # kopf logs whole objects at debug and every event of a watch at info.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # Each kopf operator runs on its own thread and warns that it gets no signals; the operator handles them.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
