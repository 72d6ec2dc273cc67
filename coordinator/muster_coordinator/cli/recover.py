"""`muster recover`: the cluster goes on from one stopped replica's folder, after a majority was lost for good (ADR 40).

Offline: it takes the lock of the data folder, so the server must be stopped. Without `--execute` it says what the
folder holds of each partition and what may be lost, and changes nothing, not even what a start would repair. With it,
it asks the other replicas' addresses first, and for the cluster's id: whatever was acknowledged and is not in this
folder is lost, and no other folder may take part again (docs/runbooks.md, "A majority lost for good"). What it does not
do: copy the folder first, or find out whether the others are gone.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.options import Output, StoppedConfig
from muster_coordinator.cli.output import Format, emit, emit_value, note
from muster_coordinator.errors import Corruption, EnvironmentFault, StorageFailed, UnsupportedFormat
from muster_coordinator.settings import ConfigError, Settings, load_settings

if TYPE_CHECKING:
    from muster_coordinator.ports import Disk
    from muster_coordinator.replica.bootstrap.recovery_file import RecoveryFile
    from muster_coordinator.replica.recovery.survey import Survey, WalSizes

GROUPS_SHOWN = 20


def recover(
    config: StoppedConfig,
    *,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, say what would be lost.")] = False,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", help="The cluster's id, instead of typing it when asked.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Output of -o json on another surviving folder: which one has more.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Let a cluster go on from a stopped replica's folder when a majority of its replicas is lost for good."""
    try:
        settings = load_settings(config, os.environ)
        other = None if compare is None else json.loads(compare.read_text())
    except (ConfigError, OSError, ValueError) as error:
        raise CliError(Exit.USAGE, str(error)) from None
    if execute and compare is not None:
        raise CliError(Exit.USAGE, "--compare only looks: give it without --execute")
    try:
        _recover(settings, execute=execute, cluster_id=cluster_id, other=other, output=output)
    except (Corruption, EnvironmentFault, StorageFailed, UnsupportedFormat, OSError) as error:
        raise CliError(Exit.REFUSED, str(error)) from error


def _recover(
    settings: Settings, *, execute: bool, cluster_id: str | None, other: dict[str, Any] | None, output: Format
) -> None:
    from muster_coordinator.ids import BrokerId
    from muster_coordinator.replica.recovery.plan import plan
    from muster_coordinator.replica.recovery.survey import WalSizes, survey
    from muster_coordinator.runtime.disk import OsDisk
    from muster_coordinator.runtime.dry_disk import DryDisk
    from muster_coordinator.runtime.folder import FolderLock

    folder = settings.data_dir
    if not folder.is_dir():
        raise CliError(Exit.USAGE, f"{folder} is not a folder")
    sizes = WalSizes(settings.wal_file_bytes, settings.wal_bytes_max)
    lock = FolderLock(folder)
    try:
        disk = OsDisk(str(folder))
        dry = DryDisk(disk)
        try:
            found = survey(dry, BrokerId(settings.node_id), sizes)
        finally:
            dry.close()
        planned = plan(found, os.urandom(16))
        if other is None:
            _say(found, planned.refusals, output)
        else:
            _say_compared(found, planned.refusals, other, output)
        if planned.recovery is None:
            raise CliError(Exit.REFUSED, "nothing can be recovered from this folder: " + "; ".join(planned.refusals))
        if execute:
            _ask_the_others(settings, found)
            _agree(found, cluster_id)
            _execute(disk, found, planned.recovery, sizes)
            _say_recovered(planned.recovery, output)
        elif output is Format.TABLE and other is None:
            _say_how_it_goes_on(found)
    finally:
        lock.release()


def _say(found: "Survey", refusals: tuple[str, ...], output: Format) -> None:
    from muster_coordinator.cli.recover_report import COLUMNS, EXPLAINED, document

    told = document(found, refusals)
    if output is not Format.TABLE:
        emit_value(told, output)
        return
    level = told["feature_level"] or "unknown"
    print(f"cluster {told['cluster_id']}, epoch {told['epoch']}, feature level {level}")
    print(f"broker {told['broker']}, data folder {told['folder']}")
    emit(told["groups"], COLUMNS, output)
    note(EXPLAINED)
    if told["left_behind"]:
        epoch = told["epoch"]
        note(f"this folder was left behind in epoch {epoch}: to go on from it gives up all that was done in that epoch")
    if found.unnamed:
        shown = ", ".join(map(str, found.unnamed[:GROUPS_SHOWN]))
        more = f" and {len(found.unnamed) - GROUPS_SHOWN} more" if len(found.unnamed) > GROUPS_SHOWN else ""
        note(f"no topic known here has the Raft groups {shown}{more}: they were deleted, or their topics are lost")


def _say_compared(found: "Survey", refusals: tuple[str, ...], other: dict[str, Any], output: Format) -> None:
    from muster_coordinator.cli.recover_report import COMPARED, compared, document

    rows = compared(document(found, refusals), other)
    if not rows and output is Format.TABLE:
        print("both folders have the same of every group")
    else:
        emit(rows, COMPARED, output)


def _say_how_it_goes_on(found: "Survey") -> None:
    if found.begun is not None:
        print("a recovery of this folder was begun and is not complete: --execute completes it")
        return
    others = _others(found)
    print(f"with --execute the cluster goes on from this folder alone, and the folders of {others} are gone for good")
    print("run it on every folder that is left, compare them with --compare, and copy this one before --execute")


def _others(found: "Survey") -> str:
    return ", ".join(str(seat.broker) for seat in found.record.seats if seat.broker != found.identity.broker)


def _ask_the_others(settings: Settings, found: "Survey") -> None:
    """Raises CliError if one of them may be alive."""
    from muster_coordinator.cli.recover_peers import Presence, ask_all
    from muster_coordinator.ids import BrokerId

    peers = {BrokerId(broker): address for broker, address in settings.peers.items()}
    for answer in ask_all(found.identity, found.record, peers):
        who = f"broker {answer.broker} at {answer.address}"
        if answer.presence is Presence.THERE:
            said = f"{who} is there, with data folder {answer.folder}: it is not lost, and a cluster must not be split"
            raise CliError(Exit.REFUSED, f"{said}; bring a majority back, or stop it and remove its folder for good")
        if answer.presence is Presence.UNKNOWN:
            raise CliError(Exit.REFUSED, f"{who}: {answer.presence.value}; make sure that it is not a replica")
        note(f"{who}: {answer.presence.value}")


def _agree(found: "Survey", cluster_id: str | None) -> None:
    """Raises CliError if the cluster's id is not given, or another one is."""
    if cluster_id is None:
        question = (
            f"The data folders of {_others(found)} will be gone for good, and everything that was acknowledged and is "
            "not in this folder with them.\nType the cluster's id to go on: "
        )
        print(question, end="", file=sys.stderr, flush=True)
        cluster_id = sys.stdin.readline().strip()
    if cluster_id != found.record.cluster_id:
        raise CliError(Exit.REFUSED, f"that is not the id of cluster {found.record.cluster_id}; nothing was changed")


def _execute(disk: "Disk", found: "Survey", recovery: "RecoveryFile", sizes: "WalSizes") -> None:
    from muster_coordinator.replica.recovery.execution import execute

    execute(disk, found, recovery, sizes)


def _say_recovered(recovery: "RecoveryFile", output: Format) -> None:
    say = print if output is Format.TABLE else note
    record = recovery.record
    say(f"recovered: cluster {record.cluster_id} is in epoch {record.epoch}, and goes on with this folder alone")
    say("start this replica, then the others with empty folders; they join by themselves")
