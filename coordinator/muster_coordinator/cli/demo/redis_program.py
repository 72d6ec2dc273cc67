"""Where `redis-server` is, and what to install where it is not; asked before anything is made or started."""

import shutil

from muster_coordinator.cli.exits import CliError, Exit


def program() -> str:
    """The program's path. Raises CliError."""
    found = shutil.which("redis-server")
    if found is None:
        raise CliError(
            Exit.USAGE,
            "`muster demo --redis` needs redis-server, 7.0 or newer, on PATH: "
            "apt install redis-server (Debian, Ubuntu), brew install redis (macOS)",
        )
    return found
