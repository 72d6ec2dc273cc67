"""Printing of answers: aligned text, JSON or YAML, from the same rows.

A row is a dict of plain values. `None` means that there is none, `UNKNOWN` that the value could not be found out;
tables show `-` and `unknown`, JSON and YAML null for both. Neither is ever shown as 0. Tables are not cut to the
terminal's width, so that pipes get whole values.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Any, NamedTuple

_PLAIN_YAML = re.compile(r"[A-Za-z/_][A-Za-z0-9/_.-]*( [A-Za-z0-9/_.-]+)*")
_YAML_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


class Format(StrEnum):
    """Values of `--output`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Unknown(Enum):
    """The type of `UNKNOWN`."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
Row = Mapping[str, Any]


class Column(NamedTuple):
    """One column of a table; `numeric` ones are aligned to the right."""

    key: str
    title: str
    numeric: bool = False


def emit(rows: Sequence[Row], columns: Sequence[Column], output: Format) -> None:
    """Print rows. Tables show only `columns`, the other formats everything in the rows."""
    if output is Format.TABLE:
        print(table(rows, columns))
    else:
        emit_value([dict(row) for row in rows], output)


def emit_value(value: object, output: Format) -> None:
    """Print one value as JSON or YAML; as JSON when a table was asked for."""
    plain = _plain(value)
    print(to_yaml(plain).rstrip("\n") if output is Format.YAML else json.dumps(plain, indent=2, ensure_ascii=False))


def note(sentence: str) -> None:
    """Print a remark about the answer, to standard error."""
    print(f"muster: {sentence}", file=sys.stderr, flush=True)


def table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Aligned text with a header line."""
    cells = [[_cell(row.get(column.key)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [[c.title for c in columns], *cells]) for i in range(len(columns))]

    def line(texts: Iterable[str]) -> str:
        aligned = (
            text.rjust(width) if column.numeric else text.ljust(width)
            for text, width, column in zip(texts, widths, columns, strict=True)
        )
        return "  ".join(aligned).rstrip()

    return "\n".join([line(column.title for column in columns), *(line(one) for one in cells)])


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if value is UNKNOWN:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(_cell(one) for one in value) or "-"
    return str(value)


def _plain(value: object) -> object:
    if value is UNKNOWN:
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def to_yaml(value: object, indent: int = 0) -> str:
    """YAML of plain values: block style, strings quoted as JSON unless they are plain words."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "".join(f"{pad}{_yaml_scalar(key)}:{_yaml_nested(one, indent)}" for key, one in value.items())
    if isinstance(value, list) and value:
        lines = []
        for one in value:
            text = to_yaml(one, indent + 1)
            lines.append(f"{pad}- {text[len(pad) + 2 :]}" if isinstance(one, dict | list) and one else f"{pad}- {text}")
        return "".join(lines)
    return f"{_yaml_scalar(value)}\n"


def _yaml_nested(value: object, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + to_yaml(value, indent + 1)
    return " " + to_yaml(value)


def _yaml_scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN_YAML.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
