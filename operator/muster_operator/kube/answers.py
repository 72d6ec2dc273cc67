"""What an answer of the API server means: an object, or an error of one of the two families. Pure.

| status | family |
|---|---|
| none, 401 (tokens rotate), 408, 429, 5xx | Transient, with Retry-After where given |
| 409 | Conflict (Transient) |
| 400, 403, 404 (the namespace), 405, 413, 415, 422 | Refused |

The server's message goes into conditions and logs, cut to a bound; for Secrets it is left out, since a refusal may
quote the rejected object.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from muster_operator.errors import Conflict, OperatorError, Refused, Transient
from muster_operator.limits import MESSAGE_CHARS_MAX, RETRY_AFTER_MAX_MS

_TRANSIENT = {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_BUDGET_CAUSE = "DisruptionBudget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer. `document` is the decoded body, {} if it was not a JSON object."""

    status: int
    document: Mapping[str, Any] = field(default_factory=dict)
    retry_after_ms: int = 0

    @property
    def ok(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


def decode(status: int, body: bytes, retry_after: str | None) -> Answer:
    """An answer from its status, body and Retry-After header (in seconds; Kubernetes sends no dates)."""
    try:
        document = json.loads(body) if body else {}
    except ValueError:
        document = {}
    wait = int(retry_after) * 1_000 if retry_after is not None and retry_after.isdigit() else 0
    return Answer(
        status=status,
        document=document if isinstance(document, dict) else {},
        retry_after_ms=min(wait, RETRY_AFTER_MAX_MS),
    )


def failure(answer: Answer, *, verb: str, kind: str, name: str) -> OperatorError:
    """The error for `answer`, which is not ok."""
    reason = str(answer.document.get("reason") or f"Http{answer.status}")
    said = "" if kind == "Secret" else str(answer.document.get("message") or "")
    message = clip(f"{verb} {kind} {name}: HTTP {answer.status} {reason}{': ' if said else ''}{said}")
    if answer.status == HTTPStatus.CONFLICT:
        return Conflict(reason, message, retry_after_ms=answer.retry_after_ms)
    if answer.status in _TRANSIENT or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Transient(reason, message, retry_after_ms=answer.retry_after_ms)
    return Refused(reason, message)


def is_uid_mismatch(answer: Answer) -> bool:
    """409 because another object has the name by now."""
    return answer.status == HTTPStatus.CONFLICT and "UID" in str(answer.document.get("message", ""))


def is_blocked_by_budget(answer: Answer) -> bool:
    """429 from the eviction API because of a disruption budget, not from an overloaded API server."""
    causes = (answer.document.get("details") or {}).get("causes") or ()
    return answer.status == HTTPStatus.TOO_MANY_REQUESTS and any(one.get("reason") == _BUDGET_CAUSE for one in causes)


def clip(text: str) -> str:
    """`text` cut to the maximum length of conditions and Events."""
    return text if len(text) <= MESSAGE_CHARS_MAX else text[: MESSAGE_CHARS_MAX - 1] + "…"
