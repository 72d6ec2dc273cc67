"""One key of the settings file as a field of `settings.Settings`, or of a part that it inherits.

The field's metadata holds the key, its parser, its default in the file's syntax and its line for docs/configuration.md.
What it does not do: read a file, or parse a value (`setting_values`).
"""

from dataclasses import field
from typing import Any

from muster_coordinator.setting_values import Parser


def setting(name: str, parse: Parser, default: str | None, text: str) -> Any:  # noqa: ANN401  # typed where it is assigned
    """`default` is a value in the file's syntax; None: the key must be set."""
    metadata = {"key": name, "parse": parse, "default": default, "text": text}
    if default is None:
        return field(metadata=metadata)
    return field(default_factory=lambda: parse(default), metadata=metadata)
