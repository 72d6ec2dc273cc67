"""`muster cluster replication-factor`: how many replicas every Raft group has (ADR 48).

The controller's leader decides, and its balancer carries it out, a few partitions at a time. The command ends when the
number is wanted; `--wait` stays until all groups have it, the controller's included, and tells what they wait for. What
it does not do: move anything, or start brokers; what is wanted goes on without it.
"""

import time
from typing import Annotated

import typer

from muster_coordinator.cli.admin_client import Json
from muster_coordinator.cli.admin_login import AdminLogin
from muster_coordinator.cli.balance import print_plan
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
    Output,
    TokenFile,
)
from muster_coordinator.cli.output import Format, emit_value, note

PATH = "/v1/replication-factor"
LOOK_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command to `muster cluster`."""
    app.command("replication-factor")(replication_factor)


def replication_factor(
    factor: Annotated[
        int | None, typer.Argument(metavar="N", help="Replicas of every Raft group: 1, 3 or 5. Without: show them.")
    ] = None,
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    topics: Annotated[
        str | None, typer.Option("--topics", metavar="A,B", help="Only these topics, and nothing else.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also take replicas away from topics that have more than N.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the moves that it would take.")] = False,
    wait: Annotated[
        int, typer.Option("--wait", metavar="S", min=0, help="Seconds to wait until all have them; 0: do not wait.")
    ] = 0,
    output: Output = Format.TABLE,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Show or change how many replicas every Raft group has, the controller's included."""
    names = [name for name in (topics or "").split(",") if name]
    if topics is not None and not names:
        raise CliError(Exit.USAGE, "--topics are names, such as orders,payments")
    if topics is not None and every:
        raise CliError(Exit.USAGE, "--topics and --all exclude each other")
    if factor is None and (names or every or dry_run):
        raise CliError(Exit.USAGE, "how many replicas? Give 1, 3 or 5")
    addresses, login = access(admin, token_file, dev, config)
    first = first_status(addresses, login, timeout)
    if factor is not None:
        body: Json = {"factor": factor, "topics": names, "all": every, "dry_run": dry_run}
        answer = _ask(first, login, timeout, body)
        if dry_run or output is not Format.TABLE:
            _show_answer(answer, output, dry_run=dry_run)
        else:
            print(f"{', '.join(names) if names else 'every Raft group'} is to have {factor} replicas")
        _tell_kept(answer)
        if dry_run:
            return
    elif not wait:
        _show(_ask(first, login, timeout), output)
    if wait and not _done(addresses, login, timeout, time.monotonic() + wait):
        raise CliError(Exit.UNREACHABLE, f"not all groups have their replicas within {wait} s; it goes on")
    if wait:
        print("all groups have their replicas")


def _ask(first: Json, login: AdminLogin, timeout_s: float, body: Json | None = None) -> Json:
    """The answer of the controller's leader, wherever it is by now. Raises CliError with its words."""
    return ask_leader(leader_address(first), PATH, login, timeout_s, body)


def _show_answer(answer: Json, output: Format, *, dry_run: bool) -> None:
    if output is not Format.TABLE:
        emit_value(answer, output)
    elif dry_run:
        print(f"the controller's group is to have {answer['controller_voters_to_be']} voters")
        print_plan(answer)


def _tell_kept(answer: Json) -> None:
    if answer["kept"]:
        more = " and others" if answer["kept_more"] else ""
        note(f"{', '.join(answer['kept'])}{more} keep more replicas; --topics or --all takes them away")


def _show(document: Json, output: Format) -> None:
    if output is not Format.TABLE:
        emit_value(document, output)
        return
    print(f"new topics have {document['replication_factor']} replicas; {_progress(document)}")


def _progress(document: Json) -> str:
    if document["done"]:
        return "every group has as many as it is to have"
    votes, to_be = len(document["controller_voters"]), document["controller_voters_to_be"]
    said = f"{document['partitions_to_go']} partitions to go, {document['moving']} are being moved"
    said += f", {votes} of {to_be} vote in the controller's group"
    return said + (f": {document['reason']}" if document["reason"] else "")


def _done(addresses: list[str], login: AdminLogin, timeout_s: float, until_s: float) -> bool:
    """Wait until all is done, telling what is left when that changes."""
    told = ""
    while time.monotonic() < until_s:
        try:
            document = _ask(first_status(addresses, login, timeout_s), login, timeout_s)
            if document["done"]:
                return True
            said = _progress(document)
        except CliError as error:
            said = f"not known now: {error}"
        if said != told:
            note(said)
            told = said
        time.sleep(LOOK_S)
    return False
