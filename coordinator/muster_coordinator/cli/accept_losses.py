"""`muster accept-losses`: the only replica of a cluster continues without what its damaged disk has lost.

Offline: it takes the lock of the data folder, so the server must be stopped. It lists what may be lost, and changes
nothing without `--execute` (docs/runbooks.md, "Suspended groups"; docs/adr/0033). What it does not do: copy the folder
first, as a user must who wants to recover more later.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.options import StoppedConfig
from muster_coordinator.cli.output import note
from muster_coordinator.errors import Corruption, EnvironmentFault, StorageFailed, UnsupportedFormat
from muster_coordinator.settings import ConfigError, load_settings

GROUPS_SHOWN = 20
MAY_BE_LOST = (
    "acknowledged commits, records and topics may be missing: everything that these groups wrote after the damaged "
    "place, and everything of a group that the WAL does not know"
)


def accept_losses(
    config: StoppedConfig,
    *,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, print what would be done.")] = False,
) -> None:
    """Let a stopped replica without other voters continue without what its damaged WAL has lost."""
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
        raise CliError(Exit.USAGE, f"{folder} is not a folder")
    lock = FolderLock(folder)
    try:
        disk = OsDisk(str(folder))
        found = losses(disk)
        if not found:
            print("no Raft group is suspended: there is nothing to accept")
            return
        for lost in found:
            shown = ", ".join(map(str, lost.groups[:GROUPS_SHOWN])) or "(none known)"
            more = f" and {len(lost.groups) - GROUPS_SHOWN} more" if len(lost.groups) > GROUPS_SHOWN else ""
            others = ", and any that the WAL does not know" if lost.unknown else ""
            print(f"{lost.wal}: Raft groups {shown}{more}{others} may have lost entries")
        note(MAY_BE_LOST)
        if not execute:
            print("with --execute the next start continues with what is left; copy the data folder first")
            return
        accept(disk, found)
        print("accepted: the next start continues with what is left")
    finally:
        lock.release()
