"""`muster cluster controller-voters`: who is to vote in the controller's group.

The controller's leader decides (docs/adr/0045, docs/runbooks.md "From one broker to three"). The command ends when the
wish is committed. What it does not do: wait until it is carried out; `muster cluster status` tells of Raft groups whose
members are being changed.
"""

from typing import Annotated

import typer

from muster_coordinator.cli.admin_client import ask_admin
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
    app.command("controller-voters")(controller_voters)


def controller_voters(
    voters: Annotated[
        str, typer.Argument(metavar="IDS", help="Broker ids, such as 0,1,3: one, three or five of the cluster's.")
    ],
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Have these brokers vote in the controller's group, and the others observe it."""
    addresses, login = access(admin, token_file, dev, config)
    wanted = _ids(voters)
    leader = leader_address(first_status(addresses, login, timeout))
    document = ask_admin(leader, "/v1/status", login, timeout)
    ask_leader(leader, "/v1/controller/voters", login, timeout, {"voters": wanted})
    before = ",".join(map(str, document["voters"]))
    print(f"{','.join(map(str, wanted))} are to vote in the controller's group, instead of {before}")


def _ids(text: str) -> list[int]:
    try:
        found = [int(one) for one in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise CliError(Exit.USAGE, f"expected broker ids such as 0,1,3, not {text!r}")
    return found
