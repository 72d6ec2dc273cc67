"""The command line of a replica, `server --config FILE`, read and run without the tree of all commands.

A cluster's restart takes as long as its replicas take to start. The tree of commands, with what turns its words into
values, is a fifth of a start's processor time and 9 MiB in each replica for as long as it runs, and a replica's line
needs none of it. What is written in this form (by `muster dev`, the operator, a service manager) is run from here;
help, mistakes and every other form are the tree's (`command_tree`), which ends in the same `serve`.

Not here: any sentence about what is wrong with a line. Whatever this reader is not sure of is left to the tree.
"""

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from muster_coordinator import exits
from muster_coordinator.cli.extras import require
from muster_coordinator.settings import ConfigError, load_settings

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where OpenSSL looks for certificates first."""


class LogLevel(StrEnum):
    """Values of `muster.log.level`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ServerLine:
    """What a line asks for. Without `log_level` the file's counts."""

    config: Path
    log_level: LogLevel | None = None
    supervised: bool = False


_TAKES_A_WORD = {"--config": "config", "-c": "config", "--log-level": "log_level"}


def read(words: Sequence[str]) -> ServerLine | None:
    """The line, if it is a replica's in its plain form: each option once, each word after its option."""
    if not words or words[0] != "server":
        return None
    given: dict[str, str] = {}
    rest = iter(words[1:])
    for option in rest:
        name = "supervised" if option == "--supervised" else _TAKES_A_WORD.get(option)
        word = "" if name == "supervised" else next(rest, None)
        if name is None or name in given or word is None or word.startswith("-"):
            return None
        given[name] = word
    level = given.get("log_level")
    if "config" not in given or (level is not None and level not in set(LogLevel)):
        return None
    return ServerLine(Path(given["config"]), None if level is None else LogLevel(level), "supervised" in given)


def serve(line: ServerLine) -> int:
    """Run the replica until it is stopped; its exit code. Raises CliError when a package is not installed."""
    require("`muster server`", "coordinator")
    try:
        settings = load_settings(line.config, os.environ)
    except ConfigError as error:
        print(f"muster server: {error}", file=sys.stderr)
        return exits.CONFIG
    if line.log_level is not None:
        settings = replace(settings, log_level=str(line.log_level))
    gc.disable()  # Until `GcPolicy.start`: a start makes no garbage, and collections would take a tenth of its time.
    with _no_certificates():
        from muster_coordinator.app import run_replica

    return run_replica(settings, supervised=line.supervised)


@contextmanager
def _no_certificates() -> Iterator[None]:
    """aiohttp, when it is imported, makes two TLS contexts for its client, and each reads all certificates that the
    machine trusts: a fifth of the imports' time. A replica is no client of it. What is imported within finds none to
    read; afterwards the process has the machine's again."""
    before = {name: os.environ.get(name) for name in CERTIFICATES}
    os.environ.update(dict.fromkeys(CERTIFICATES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
