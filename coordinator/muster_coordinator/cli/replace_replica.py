"""`muster cluster replace`: declare a lost replica's data folder gone for good, so that a new one takes its id.

The controller's leader says which folder is bound to the id, and decides (docs/adr/0038, docs/runbooks.md "A lost
replica"). Nothing is changed before the uuid was shown and agreed to, or given: a command that a script repeats then
never takes the folder that has come for the one that was lost. What it does not do: start the new replica, or wait for
it; `muster cluster status` tells whether it has come.
"""

import re
import sys
from typing import Annotated

import typer

from muster_coordinator.cli.admin_client import Json, ask_admin
from muster_coordinator.cli.cluster import access, first_status
from muster_coordinator.cli.controller_leader import ask_leader, leader_address
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.options import (
    DEFAULT_ADMIN,
    DEFAULT_ADMIN_TIMEOUT_S,
    Admin,
    AdminConfig,
    AdminTimeout,
    DevFolder,
    TokenFile,
)


def register(app: typer.Typer) -> None:
    """Add the command to `muster cluster`."""
    app.command("replace")(replace)


def replace(
    replica: Annotated[int, typer.Argument(metavar="ID", min=0, help="Broker id of the lost replica.")],
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    folder: Annotated[
        str | None,
        typer.Option(metavar="UUID", help="The data folder that is gone, 32 hex digits; without a question."),
    ] = None,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Declare the data folder of a lost replica gone for good; the next new one takes its place."""
    addresses, login = access(admin, token_file, dev, config)
    if folder is not None and re.fullmatch(r"[0-9a-f]{32}", folder) is None:
        raise CliError(Exit.USAGE, f"--folder is the uuid of a data folder, 32 hex digits, not {folder!r}")
    leader = leader_address(first_status(addresses, login, timeout))
    document = ask_admin(leader, "/v1/status", login, timeout)
    path = f"/v1/replicas/{replica}/replace"
    known = _seat(replica, document)
    if folder is not None:
        ask_leader(leader, path, login, timeout, {"gone": folder})
        print(f"data folder {folder} of replica {replica} is gone for good")
        return
    if known is None:
        said = f"replica {replica} has never registered a data folder; name the one that is gone with --folder"
        raise CliError(Exit.NOT_FOUND, said)
    gone = known["replica_uuid"]
    if gone is None:
        print(f"replica {replica} waits for a new data folder already; nothing was changed")
        return
    print(f"replica {replica} is bound to data folder {gone}")
    print("It will be gone for good: should it come back, it is refused and has to be removed.")
    if not _agreed(replica):
        raise CliError(Exit.REFUSED, "not confirmed; nothing was changed")
    ask_leader(leader, path, login, timeout, {"gone": gone})
    print(f"data folder {gone} is gone for good; replica {replica} waits for a new one")


def _seat(replica: int, status: Json) -> Json | None:
    """What the leader knows of the broker with this id, its `replica_uuid` null while it waits for a folder; None: it
    has never registered. Raises CliError."""
    known = [*status["voters"], *status.get("observers", ())]
    if replica not in known:
        raise CliError(Exit.NOT_FOUND, f"no replica has the id {replica}; the cluster's are {known}")
    if any("replica_uuid" not in one for one in status["brokers"]):
        raise CliError(Exit.REFUSED, f"the replicas run {status['version']}, which cannot replace one")
    return next((one for one in status["brokers"] if one["broker"] == replica), None)


def _agreed(replica: int) -> bool:
    """Ask on standard error; the end of standard input is a no."""
    question = f"Declare it gone for good, and give id {replica} to the next new data folder? [y/N]: "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
