"""Java's `.properties` text, as Kafka's server.properties uses it.

Supported: `#` and `!` comments, `=`, `:` or blanks between key and value, continuation by a trailing backslash, the
usual escapes and `\\uXXXX`. A key that occurs twice is refused: Java keeps the last one, which hides mistakes.

`${env:NAME}` inside a value stands for an environment variable (KIP-887), so that one file serves several replicas.
"""

import re
from collections.abc import Mapping

from muster_coordinator.errors import CallerError

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*", re.DOTALL)
_VARIABLE = re.compile(r"\$\{env:([^}:]+)\}")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(CallerError):
    """The text is not a properties file; the message names the line."""


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in file order. Raises `PropertiesError`."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None, "the pattern matches the empty string"
        key = _unescape(match.group(1))
        if not key:
            raise PropertiesError(f"line {number}: no key")
        if key in found:
            raise PropertiesError(f"line {number}: {key} is set twice")
        found[key] = _unescape(line[match.end() :].rstrip())
    return found


def with_environment(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """`values` with every `${env:NAME}` replaced; the value of a variable is not searched for others. Texts of other
    providers stay, as in Kafka where these are not configured. Raises `PropertiesError` naming key and variable."""

    def filled(key: str, value: str) -> str:
        def one(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in environment:
                raise PropertiesError(f"{key}: the environment variable {name} is not set")
            return environment[name]

        return _VARIABLE.sub(one, value)

    return {key: filled(key, value) for key, value in values.items()}


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    continued, began = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip()
        if not continued and (not line or line[0] in "#!"):
            continue
        began = began or number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            continued += line[:-1]
            continue
        lines.append((began, continued + line))
        continued, began = "", 0
    if continued:
        lines.append((began, continued))
    return lines


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROL.get(escaped, escaped)

    return _ESCAPE.sub(one, text) if "\\" in text else text


def format_properties(values: dict[str, str], comment: str = "") -> str:
    """Text from which `parse_properties` reads `values`."""
    lines = [f"# {line}" for line in comment.splitlines()]
    for key, value in values.items():
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
        if escaped.startswith(" "):
            escaped = "\\" + escaped
        lines.append(f"{key}={escaped}")
    return "\n".join(lines) + "\n"
