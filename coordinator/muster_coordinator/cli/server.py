"""`muster server`: one replica in this process, until it is stopped."""

import gc
import os
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator import exits
from muster_coordinator.settings import ConfigError, load_settings


class LogLevel(StrEnum):
    """Values of `muster.log.level`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def server(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="Properties file; docs/configuration.md lists the keys.")
    ],
    *,
    log_level: Annotated[
        LogLevel | None, typer.Option("--log-level", help="Overrides muster.log.level of the file.")
    ] = None,
    supervised: Annotated[
        bool, typer.Option("--supervised", hidden=True, help="Ignore Ctrl-C; drain when standard input closes.")
    ] = False,
) -> None:
    """Run one replica. SIGTERM or Ctrl-C drains and stops it; a second one stops it at once."""
    try:
        settings = load_settings(config, os.environ)
    except ConfigError as error:
        typer.echo(f"muster server: {error}", err=True)
        raise typer.Exit(exits.CONFIG) from None
    if log_level is not None:
        settings = replace(settings, log_level=str(log_level))
    gc.disable()  # Until `GcPolicy.start`: a start makes no garbage, and collections would take a tenth of its time.
    from muster_coordinator.app import run_replica

    raise typer.Exit(run_replica(settings, supervised=supervised))
