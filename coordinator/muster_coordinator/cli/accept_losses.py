"""`muster accept-losses`: the only replica of a cluster goes on without what its disk has lost.

Offline: it takes the data folder's lock, so the server must be stopped. It says what may be lost, and does nothing
without `--execute` (docs/runbooks.md, "Suspended groups"; docs/adr/0033). What it does not do: copy the folder first,
which whoever wants to look for more later has to.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.output import note
from muster_coordinator.errors import Corruption, EnvironmentFault, StorageFailed, UnsupportedFormat
from muster_coordinator.settings import ConfigError, load_settings

GROUPS_SHOWN = 20
MAY_BE_LOST = (
    "commits, records and topics that were acknowledged can be missing: all that these groups wrote from the damaged "
    "place on, and of a group that the WAL does not know everything"
)


def accept_losses(
    config: Annotated[Path, typer.Option("--config", "-c", help="The stopped replica's properties file.")],
    *,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this, say what would be done.")] = False,
) -> None:
    """Let a stopped replica that has no other voters go on without what its damaged WAL has lost."""
    try:
        settings = load_settings(config, os.environ)
    except ConfigError as error:
        raise CliError(Exit.USAGE, str(error)) from None
    try:
        _accept(settings.data_dir, execute=execute)
    except (Corruption, EnvironmentFault, StorageFailed, UnsupportedFormat, OSError) as error:
        raise CliError(Exit.REFUSED, str(error)) from error


def _accept(folder: Path, *, execute: bool) -> None:
    from muster_coordinator.replica.accepted_losses import accept, losses
    from muster_coordinator.runtime.disk import OsDisk
    from muster_coordinator.runtime.folder import FolderLock

    if not folder.is_dir():
        raise CliError(Exit.USAGE, f"{folder} is no folder")
    lock = FolderLock(folder)
    try:
        disk = OsDisk(str(folder))
        found = losses(disk)
        if not found:
            print("nothing is suspended: there is nothing to accept")
            return
        for lost in found:
            shown = ", ".join(map(str, lost.groups[:GROUPS_SHOWN])) or "none that is known"
            more = f" and {len(lost.groups) - GROUPS_SHOWN} more" if len(lost.groups) > GROUPS_SHOWN else ""
            others = ", and any that it does not know" if lost.unknown else ""
            print(f"{lost.wal}: Raft groups {shown}{more}{others} may have lost something")
        note(MAY_BE_LOST)
        if not execute:
            print("--execute has the next start go on with what is left; copy the data folder first")
            return
        accept(disk, found)
        print("accepted: the next start goes on with what is left")
    finally:
        lock.release()
