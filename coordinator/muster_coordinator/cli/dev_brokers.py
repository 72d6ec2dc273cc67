"""`muster dev add-broker` and `muster dev remove-broker`: a running local cluster gets one broker more, or one less.

A broker that is added has a folder and ports as the others have, and the settings of one of them. It joins as any
broker does (docs/adr/0041), and the supervisor of `muster dev` starts it, now and whenever the cluster is started
again. One that is removed is decommissioned first (docs/adr/0047): what it has is moved away, then its process is ended
and its folder removed. What this does not do: change how many replicas partitions have; `muster cluster
replication-factor` does.
"""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator.cli.balance import decommissioned
from muster_coordinator.cli.cluster import access, first_status
from muster_coordinator.cli.dev import is_ready, is_replica, lock_supervisor, read_pid
from muster_coordinator.cli.dev_layout import HOST, PROBE_PORTS, DevLayout
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.options import DEFAULT_ADMIN, DEFAULT_ADMIN_TIMEOUT_S, LeavingBroker
from muster_coordinator.properties import PropertiesError

LOOK_S = 0.2
STOP_S = 30.0
"""Longer than a replica takes to drain and end."""

Data = Annotated[Path, typer.Option("--data", help="The cluster's folder.")]
DEFAULT_DATA = Path("muster-dev")


def register(app: typer.Typer) -> None:
    """Add the commands to `muster dev`."""
    app.command("add-broker")(add_broker)
    app.command("remove-broker")(remove_broker)


def add_broker(
    data: Data = DEFAULT_DATA,
    *,
    count: Annotated[int, typer.Option("--count", min=1, max=10, help="How many.")] = 1,
    wait: Annotated[int, typer.Option("--wait", metavar="S", min=1, help="Seconds until it must have joined.")] = 60,
) -> None:
    """Add a broker to a running local cluster."""
    layout, supervisor = running(data)
    addresses, login = access(DEFAULT_ADMIN, None, layout.folder)
    cluster_id = first_status(addresses, login, DEFAULT_ADMIN_TIMEOUT_S)["cluster_id"]
    added = []
    for _ in range(count):
        try:
            added.append(layout.next_id())
            layout.add(added[-1], cluster_id)
        except OSError as error:
            raise CliError(Exit.REFUSED, str(error)) from None
    os.kill(supervisor, signal.SIGHUP)
    for replica in added:
        if not _within(wait, partial(is_ready, layout.port + PROBE_PORTS + replica)):
            said = f"broker {replica} has not joined within {wait} s; its log: {layout.log_file(replica)}"
            raise CliError(Exit.UNREACHABLE, said)
        print(f"broker {replica} has joined: clients={HOST}:{layout.port + replica} log={layout.log_file(replica)}")


def remove_broker(
    replica: LeavingBroker,
    data: Data = DEFAULT_DATA,
    *,
    wait: Annotated[int, typer.Option("--wait", metavar="S", min=1, help="Seconds until it must have left.")] = 900,
) -> None:
    """Empty a broker of a running local cluster, end it and remove its folder."""
    layout, supervisor = running(data)
    if replica not in layout.present():
        raise CliError(Exit.NOT_FOUND, f"{layout.folder} has no broker {replica}; there are {layout.present()}")
    addresses, login = access(DEFAULT_ADMIN, None, layout.folder)
    decommissioned(addresses, login, DEFAULT_ADMIN_TIMEOUT_S, replica, wait)
    layout.retire(replica)
    _end(layout, replica)
    os.kill(supervisor, signal.SIGHUP)
    layout.forget(replica)
    print(f"broker {replica} has left, and its folder is removed")


def running(data: Path) -> tuple[DevLayout, int]:
    """The layout of a cluster that runs, and its supervisor's pid. Raises CliError."""
    folder = data.resolve()
    try:
        layout = DevLayout.of_folder(folder)
        lock = lock_supervisor(layout)
    except (OSError, PropertiesError, KeyError, ValueError) as error:
        raise CliError(Exit.NOT_FOUND, f"{folder}: {error}") from None
    if lock is not None:
        os.close(lock)
        raise CliError(Exit.UNREACHABLE, f"no `muster dev` runs in {folder}")
    pid = read_pid(layout.supervisor_file)
    if pid is None:
        raise CliError(Exit.UNREACHABLE, f"the `muster dev` of {folder} is just starting; ask again")
    return layout, pid


def _end(layout: DevLayout, replica: int) -> None:
    """End the replica's process, if it runs."""
    pid, config = read_pid(layout.pid_file(replica)), layout.config_file(replica)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if pid is None or not is_replica(pid, config):
            return
        os.kill(pid, number)
        _within(STOP_S, lambda: not is_replica(pid, config))


def _within(seconds: float, check: Callable[[], bool]) -> bool:
    """Look until it is so; False: it was not within that time."""
    until = time.monotonic() + seconds
    while not check():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_S)
    return True
