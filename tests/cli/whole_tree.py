"""The tree of all commands, made once for the tests of a process: to make it is nine tenths of a command's time there.

A test that has other entry points than those that are installed gets a tree of its own.
"""

from functools import cache
from typing import Any

import typer
from muster_coordinator.cli import command_tree

_BUILD, _INSTALLED = command_tree.build, command_tree.entry_points


@cache
def whole_tree() -> Any:
    """Called with a line as the app is called; what a call keeps is in its context."""
    return typer.main.get_command(_BUILD())


def build_once() -> Any:
    """In the place of `command_tree.build`."""
    return whole_tree() if command_tree.entry_points is _INSTALLED else _BUILD()
