"""`muster cluster balance` and `muster cluster decommission`: what is moved by itself, and who is to leave (ADR 47).

The controller's leader has the plan and says what it waits for; both commands find it and follow its leadership. A
decommission answers when it is committed that the broker is to leave; `--wait` stays until the broker has left, and
says how much it still has. What this does not do: move anything, or end the process of a broker that has left.
"""

import time
from typing import Annotated

import typer

from muster_coordinator.cli.admin_client import Json, post_json
from muster_coordinator.cli.admin_login import AdminLogin
from muster_coordinator.cli.cluster import access, first_status
from muster_coordinator.cli.controller_leader import COMMIT_TIMEOUT_S, accepted, ask_leader, leader_address
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.options import (
    DEFAULT_ADMIN,
    DEFAULT_ADMIN_TIMEOUT_S,
    Admin,
    AdminConfig,
    AdminTimeout,
    DevFolder,
    LeavingBroker,
    Output,
    TokenFile,
)
from muster_coordinator.cli.output import UNKNOWN, Column, Format, emit_value, note, table

PATH = "/v1/balancer"
LOOK_S = 2.0

_MOVES = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", numeric=True),
    Column("replicas", "REPLICAS"),
    Column("reason", "REASON"),
)

_HELD = (
    Column("broker", "BROKER", numeric=True),
    Column("replicas", "REPLICAS", numeric=True),
    Column("preferred", "PREFERRED", numeric=True),
    Column("bytes", "BYTES", numeric=True),
    Column("led_bytes_per_second", "LED-BYTES/S", numeric=True),
)


def register(app: typer.Typer) -> None:
    """Add the commands to `muster cluster`."""
    app.command("balance")(balance)
    app.command("decommission")(decommission)


def balance(
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    pause: Annotated[bool, typer.Option("--pause", help="Move nothing by itself until it is resumed.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="End a pause.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only the moves that would be made, if nothing had to be waited for.")
    ] = False,
    output: Output = Format.TABLE,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Show what the balancer does and what it would move; pause and resume it."""
    if pause + resume + dry_run > 1:
        raise CliError(Exit.USAGE, "--pause, --resume and --dry-run exclude each other")
    addresses, login = access(admin, token_file, dev, config)
    first = first_status(addresses, login, timeout)
    if pause or resume:
        _post(first, PATH, login, {"paused": pause})
        print("the balancer is paused" if pause else "the balancer goes on")
        return
    document = ask_leader(leader_address(first), PATH, login, timeout)
    if output is not Format.TABLE:
        emit_value(document, output)
        return
    if not dry_run:
        reason = f": {document['reason']}" if document["reason"] else ""
        print(f"balancer {document['state']}{reason}; {document['moving']} partitions are being moved")
        print_weights(document)
    print_plan(document)


def decommission(
    replica: LeavingBroker,
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="It is to stay after all.")] = False,
    wait: Annotated[
        int, typer.Option("--wait", metavar="S", min=0, help="Seconds to wait until it has left; 0: do not wait.")
    ] = 0,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Have a broker emptied, and then leave the cluster for good."""
    addresses, login = access(admin, token_file, dev, config)
    if cancel:
        first = first_status(addresses, login, timeout)
        _post(first, f"/v1/replicas/{replica}/decommission", login, {"departing": False})
        print(f"broker {replica} is to stay; what was moved away comes back when brokers are levelled")
        return
    decommissioned(addresses, login, timeout, replica, wait)
    if wait:
        print(f"broker {replica} has left; end its process and remove its data folder")


def decommissioned(addresses: list[str], login: AdminLogin, timeout_s: float, replica: int, wait_s: int) -> None:
    """Have the broker emptied, and wait so long until it has left; 0: do not wait. Raises CliError."""
    first = first_status(addresses, login, timeout_s)
    _post(first, f"/v1/replicas/{replica}/decommission", login, {"departing": True})
    print(f"broker {replica} is to leave: its replicas are moved away, then it is unregistered", flush=True)
    # Nobody tells the one that has left anything any more, not even that: the others are asked.
    others = [one["admin"] for one in first["brokers"] if one["broker"] != replica and one["admin"]]
    if wait_s and not _left(replica, others, login, timeout_s, time.monotonic() + wait_s):
        raise CliError(Exit.UNREACHABLE, f"broker {replica} has not left within {wait_s} s; it goes on")


def _left(replica: int, addresses: list[str], login: AdminLogin, timeout_s: float, until_s: float) -> bool:
    """Wait until the broker is not registered any more, telling what the balancer waits for when that changes."""
    told = ""
    while time.monotonic() < until_s:
        try:
            first = first_status(addresses, login, timeout_s)
            if replica not in [one["broker"] for one in first["brokers"]]:
                return True
            document = ask_leader(leader_address(first), PATH, login, timeout_s)
            said = f"{document['state']}, {len(document['planned'])}{'+' if document['more'] else ''} moves to go"
            said += f": {document['reason']}" if document["reason"] else ""
        except CliError as error:
            said = f"not known now: {error}"
        if said != told:
            note(said)
            told = said
        time.sleep(LOOK_S)
    return False


def _post(first: Json, path: str, login: AdminLogin, body: Json) -> None:
    """Ask the replica that this status is of: any one passes a command on. Raises CliError with its answer."""
    address = next((one["admin"] for one in first["brokers"] if one["broker"] == first["broker"]), "")
    if not address:
        raise CliError(Exit.UNREACHABLE, f"replica {first['broker']} has not registered an admin address")
    status, answer = post_json(address, path, login, COMMIT_TIMEOUT_S, body)
    accepted(status, answer, f"{address}{path}")


def print_weights(document: Json) -> None:
    """What brokers hold and lead, and why that moves something or nothing; a release before this one has none."""
    weights = document.get("weights", {})
    for name in ("bytes", "load"):
        if weights.get(name):
            print(f"{name} {weights[name]['decision']}: {weights[name]['reason']}")
    if weights.get("brokers"):
        rows = [{key: UNKNOWN if value is None else value for key, value in one.items()} for one in weights["brokers"]]
        print(table(rows, _HELD))


def print_plan(document: Json) -> None:
    for one in document["stuck"]:
        note(one)
    rows = [{**move, "replicas": ",".join(map(str, move["replicas"]))} for move in document["planned"]]
    if not rows:
        print("nothing is to be moved: brokers are level")
        return
    print(table(rows, _MOVES))
    if document["more"]:
        note(f"these are the first {len(rows)} moves; there are more")
