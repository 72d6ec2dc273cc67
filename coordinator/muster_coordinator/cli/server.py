"""`muster server`: one replica in this process, until it is stopped."""

from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator.cli.server_line import LogLevel, ServerLine, serve


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
    raise typer.Exit(serve(ServerLine(config, log_level, supervised)))
