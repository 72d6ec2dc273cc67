"""`muster cluster stopped-entries` and `skip-entry`: entries that stopped a Raft group, and skipping one of them.

A replica reports only where it has stopped itself, so all of them are asked. `skip-entry` sends their reports to one of
them, which refuses unless a majority of the voters reported the same, and then has Raft commit a SKIP entry
(docs/adr/0022). Nothing is changed without `--execute`. What it does not do: restart the replicas; each skips the entry
at its next start.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from muster_coordinator.cli.admin_client import Json, ask_admin, post_json
from muster_coordinator.cli.admin_login import AdminLogin
from muster_coordinator.cli.cluster import access, first_status
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
from muster_coordinator.cli.output import Column, Format, emit, note

SKIP_TIMEOUT_S = 15.0
"""Longer than the replica waits for the other voters."""
SHA256_CHARS_MIN = 8
DATA_LINES_MAX = 64
LINE_BYTES = 16

_COLUMNS = (
    Column("broker", "BROKER", numeric=True),
    Column("group", "GROUP", numeric=True),
    Column("index", "INDEX", numeric=True),
    Column("term", "TERM", numeric=True),
    Column("kind", "KIND"),
    Column("bytes", "BYTES", numeric=True),
    Column("sha256", "SHA256"),
    Column("skipped", "SKIPPED"),
)


def register(app: typer.Typer) -> None:
    """Add both commands to `muster cluster`."""
    app.command("stopped-entries")(stopped_entries)
    app.command("skip-entry")(skip_entry)


def stopped_entries(
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    group: Annotated[
        int | None, typer.Option("--group", min=0, help="Only this Raft group, with the entry's data.")
    ] = None,
    output: Output = Format.TABLE,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Show the committed entries that replicas could not apply, so that they stopped there."""
    addresses, login = access(admin, token_file, dev, config)
    silent: list[int] = []
    rows = _said(addresses, login, timeout, silent)
    if group is not None:
        rows = [{**row, **_data(row, login, timeout)} for row in rows if row["group"] == group]
    emit(rows, _COLUMNS, output)
    if output is Format.TABLE:
        for row in rows:
            note(f"replica {row['broker']}: {row['trouble']}")
        if group is not None and rows:
            print(_dump(base64.b64decode(rows[0]["data_base64"])))
    if silent:
        raise typer.Exit(int(Exit.INCOMPLETE))


def skip_entry(
    group: Annotated[int, typer.Option("--group", min=0, help="The Raft group.")],
    index: Annotated[int, typer.Option("--index", min=1, help="Index of the entry.")],
    sha256: Annotated[str, typer.Option("--sha256", help="The entry's hash, or at least its first 8 characters.")],
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, print what would be done.")] = False,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Skip an entry that a majority of the replicas could not apply. The change that it makes is lost."""
    if len(sha256) < SHA256_CHARS_MIN:
        raise CliError(Exit.USAGE, f"give at least {SHA256_CHARS_MIN} characters of the hash")
    addresses, login = access(admin, token_file, dev, config)
    rows = _said(addresses, login, timeout, [])
    meant = [row for row in rows if (row["group"], row["index"]) == (group, index) and row["sha256"].startswith(sha256)]
    if not meant or len({row["sha256"] for row in meant}) > 1:
        raise CliError(Exit.REFUSED, f"no replica stopped at entry {index} of Raft group {group} with this hash")
    where = ", ".join(str(row["broker"]) for row in meant)
    voters = meant[0]["voters"]
    if len(meant) * 2 <= len(voters):
        raise CliError(Exit.REFUSED, f"of the voters {voters} only {where} stopped at it; a majority is needed")
    if not execute:
        print(f"replicas {where} of {voters} stopped at it and would skip it; --execute does it")
        return
    _ask(meant, login)
    print(f"agreed: entry {index} of Raft group {group} is skipped. Restart every replica, one after the other.")


def _ask(meant: Sequence[Json], login: AdminLogin) -> None:
    """Ask one replica after the other, as the leader is unknown. Raises CliError with the last one's answer."""
    named = {key: meant[0][key] for key in ("group", "index", "term", "sha256")}
    consents = [{key: row[key] for key in ("broker", "index", "term", "sha256")} for row in meant]
    failure = CliError(Exit.UNREACHABLE, "no replica answers")
    for row in meant:
        try:
            status, answer = post_json(row["admin"], "/v1/skip", login, SKIP_TIMEOUT_S, {**named, "consents": consents})
        except CliError as error:
            failure = error
            continue
        if status == 200:
            return
        failure = CliError(Exit.REFUSED, f"replica {row['broker']}: {answer.get('message', f'HTTP {status}')}")
    raise failure


def _said(addresses: Sequence[str], login: AdminLogin, timeout_s: float, silent: list[int]) -> list[Json]:
    """The entries at which replicas stopped; brokers that do not answer are added to `silent`."""
    rows: list[Json] = []
    for broker in first_status(addresses, login, timeout_s)["brokers"]:
        number, address = broker["broker"], broker["admin"]
        try:
            if not address:
                raise CliError(Exit.UNREACHABLE, "it has not registered an admin address")
            entries = ask_admin(address, "/v1/stopped-entries", login, timeout_s)["entries"]
        except CliError as error:
            note(f"the state of replica {number} is unknown: {error}")
            silent.append(number)
            continue
        rows += [{"broker": number, "admin": address, **entry} for entry in entries]
    return rows


def _data(row: Mapping[str, object], login: AdminLogin, timeout_s: float) -> Json:
    return ask_admin(str(row["admin"]), f"/v1/stopped-entries/{row['group']}", login, timeout_s)


def _dump(data: bytes) -> str:
    """A hex dump of the first bytes; `--output json` prints all of them as base64."""
    lines = []
    for at in range(0, min(len(data), DATA_LINES_MAX * LINE_BYTES), LINE_BYTES):
        part = data[at : at + LINE_BYTES]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{3 * LINE_BYTES}} {text}")
    return "\n".join(lines)
