"""Removes what must not leave the cluster from the objects and texts of a support bundle. Pure.

Secrets are never read. In everything else, fields that users put secrets into are replaced as a whole, known or not:
values of environment variables, of annotations that are not ours, of headers and volume attributes, arguments except
the names of options. Replaced values are remembered and removed wherever else they occur, because programs often log
their environment. Then words that look like a secret are removed (`password=...`, `Bearer ...`, user names in URLs).

What it cannot detect: the value of a Secret that a program logs in another form. Read a bundle before you send it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster_operator import naming
from muster_operator.api import consumer_env
from muster_operator.drift import MANIFEST_HASH_ANNOTATION

REDACTED = "(redacted)"
VALUE_CHARS_MIN = 8
"""Shorter values are replaced in their field only, not searched for elsewhere: `true` or `orders` is in every line."""

KEPT_ANNOTATIONS = (
    naming.PAUSED_ANNOTATION,
    naming.RESTART_ANNOTATION,
    naming.CONFIG_HASH_ANNOTATION,
    naming.ADOPT_ANNOTATION,
    MANIFEST_HASH_ANNOTATION,
)
_FACTS = frozenset(name for suffix in consumer_env.SUFFIXES for name in consumer_env.names_of(suffix))
"""Variables that the operator sets from the spec: they are not secret, and their values are in every line."""
_SECRET_KEY = re.compile(r"pass|secret|token|credential|jaas|private|api.?key", re.IGNORECASE)
_OPTION = re.compile(r"(--[A-Za-z][-\w.]*|-[A-Za-z])(=|$)")
_PATTERNS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}"), rf"\1 {REDACTED}"),
    (re.compile(r"(?i)([\w.-]*(?:password|passwd|secret|token|api[-_]?key)\"?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;}]+)"),
     rf"\1{REDACTED}"),
    (re.compile(r"://[^/\s:@]+:[^/\s@]+@"), f"://{REDACTED}@"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), REDACTED),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), REDACTED),
)  # fmt: skip


class Redaction:
    """Pass objects first, then texts: values from objects are removed from texts."""

    def __init__(self, facts: Iterable[str] = ()) -> None:
        """`facts` are never secret, wherever they occur: names, topics, addresses."""
        self._facts = frozenset(facts)
        self._values: set[str] = set()

    def of(self, obj: Any) -> Any:  # noqa: ANN401  # any JSON
        """`obj` without the fields that users put secrets into; their values are remembered for `text`."""
        if isinstance(obj, Mapping):
            return {key: self._member(obj, key, value) for key, value in obj.items() if key != "managedFields"}
        if isinstance(obj, list):
            return [self.of(one) for one in obj]
        return obj

    def text(self, text: str) -> str:
        """`text` without any remembered value, and without what looks like a secret."""
        for value in sorted((one for one in self._values if one in text), key=len, reverse=True):
            text = text.replace(value, REDACTED)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def clean(self, obj: Any) -> Any:  # noqa: ANN401
        """`obj` with `text` applied to each of its strings: after all objects were seen, and before YAML folds
        lines."""
        if isinstance(obj, Mapping):
            return {key: self.clean(value) for key, value in obj.items()}
        if isinstance(obj, list):
            return [self.clean(one) for one in obj]
        return self.text(obj) if isinstance(obj, str) else obj

    def _member(self, obj: Mapping[str, Any], key: str, value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        if key == "value" and "name" in obj:
            return self._gone(value, known=obj["name"] in _FACTS)
        if key == "annotations" and isinstance(value, Mapping):
            return {name: text if name in KEPT_ANNOTATIONS else self._gone(text) for name, text in value.items()}
        if key in ("data", "stringData", "binaryData", "volumeAttributes") and isinstance(value, Mapping):
            return {name: self._gone(text) for name, text in value.items()}
        if key in ("args", "command") and isinstance(value, list):
            program = value[:1] if key == "command" else []
            return program + [self._argument(one) for one in value[len(program) :]]
        if key == "config" and isinstance(value, Mapping):
            return {name: self._gone(text) if _SECRET_KEY.search(name) else text for name, text in value.items()}
        if key == "path" and isinstance(value, str) and "?" in value:
            path, _, query = value.partition("?")
            return f"{path}?{self._gone(query)}"
        return self.of(value)

    def _argument(self, word: Any) -> Any:  # noqa: ANN401
        """The name of an option; anything else is replaced."""
        if not isinstance(word, str) or not _OPTION.match(word):
            return self._gone(word)
        option, equals, value = word.partition("=")
        return f"{option}={self._gone(value)}" if equals else option

    def _gone(self, value: Any, *, known: bool = False) -> str:  # noqa: ANN401
        if not known and isinstance(value, str):
            self._values.update(one for one in _forms(value) if one not in self._facts)
        return REDACTED


def _forms(value: str) -> Iterator[str]:
    """The forms in which a value may occur in a text: as it is, as in JSON, line by line."""
    for one in (value, json.dumps(value)[1:-1], *value.splitlines()):
        if len(one.strip()) >= VALUE_CHARS_MIN:
            yield one.strip()
