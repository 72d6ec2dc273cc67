"""`muster user`: the users of a cluster that authenticate by SCRAM: create, list, delete.

The password is read from a terminal, from standard input or from a file, never from the command line, which others can
read. Its iterations are made here; the cluster gets their result. `recover` is for when nobody can get in any more: it
asks a replica's admin API, by its token (ADR 62). What it does not do: users of PLAIN, which a listener's configuration
has.
"""

import getpass
import secrets
import sys
from base64 import b64encode
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from muster_coordinator.cli.admin_client import post_json
from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.cluster import access
from muster_coordinator.cli.controller_leader import COMMIT_TIMEOUT_S
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.options import (
    DEFAULT_ADMIN,
    DEFAULT_BOOTSTRAP,
    Admin,
    AdminConfig,
    AdminTimeout,
    Bootstrap,
    ClientConfig,
    DevFolder,
    Output,
    Timeout,
    TokenFile,
)
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.security.limits import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN
from muster_coordinator.security.scram import ScramMechanism, credential_of, salted_password, user_name_error

app = typer.Typer(help="Create, list and delete users that authenticate by SCRAM.", no_args_is_help=True)

_LISTED = (
    Column("user", "USER"),
    Column("mechanism", "MECHANISM"),
    Column("iterations", "ITERATIONS", numeric=True),
)
DEFAULT_MECHANISM = ScramMechanism.SHA_512.sasl_name
ITERATIONS = 2 * SCRAM_ITERATIONS_MIN
SALT_BYTES = 24

UserName = Annotated[str, typer.Argument(help="The user's name.")]
PasswordFile = Annotated[
    Path | None, typer.Option(help="Its first line is the password. Default: asked for, or standard input.")
]
Mechanism = Annotated[str, typer.Option("--mechanism", help="SCRAM-SHA-256 or SCRAM-SHA-512.")]


@app.command("create")
def create(
    name: UserName,
    mechanism: Mechanism = DEFAULT_MECHANISM,
    iterations: Annotated[
        int, typer.Option(min=SCRAM_ITERATIONS_MIN, max=SCRAM_ITERATIONS_MAX, help="Each client makes them.")
    ] = ITERATIONS,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Create a user, or give one another password. Open connections of a user go on with a new password."""
    require("this command", "cli")  # before anybody types a password for nothing
    number = _number(mechanism)
    password = _password(password_file)
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        upsertion = side.kafka.admin.UserScramCredentialUpsertion(name, number, password, iterations=iterations)
        _alter(side, name, upsertion, f"user {name} was not created")
    note(f"user {name} has a password for {mechanism}")


@app.command("list")
def list_users(
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """List users with their mechanisms. Passwords are not kept, and cannot be shown."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        users = side.ask(lambda admin: admin.describe_user_scram_credentials(), "cannot list users")
    rows = [
        {
            "user": user,
            "mechanism": ScramMechanism(int(info["mechanism"])).sasl_name,
            "iterations": info["iterations"],
        }
        for user, told in sorted(users.items())
        for info in told["credential_infos"]
    ]
    emit(rows, _LISTED, output)


@app.command("delete")
def delete(
    name: UserName,
    mechanism: Mechanism = DEFAULT_MECHANISM,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Delete a user's password for one mechanism. Its open connections are closed within seconds."""
    number = _number(mechanism)
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        deletion = side.kafka.admin.UserScramCredentialDeletion(name, number)
        _alter(side, name, deletion, f"user {name} was not deleted")
    note(f"user {name} has no password for {mechanism} any more")


@app.command("recover")
def recover(
    name: UserName,
    mechanism: Mechanism = DEFAULT_MECHANISM,
    password_file: PasswordFile = None,
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    timeout: AdminTimeout = COMMIT_TIMEOUT_S,
) -> None:
    """Create a user, or give one another password, when no administrator can get in: through a replica's admin API."""
    kind = ScramMechanism(_number(mechanism))
    error = user_name_error(name)
    if error is not None:
        raise CliError(Exit.USAGE, error)
    addresses, login = access(admin, token_file, dev, config)
    password = _password(password_file)
    salt = secrets.token_bytes(SALT_BYTES)
    made = credential_of(kind, salted_password(kind, password, salt, ITERATIONS), salt, ITERATIONS)
    body = {
        "mechanism": mechanism,
        "iterations": ITERATIONS,
        "salt": b64encode(made.salt).decode(),
        "stored_key": b64encode(made.stored_key).decode(),
        "server_key": b64encode(made.server_key).decode(),
    }
    address = addresses[0].strip()
    status, answer = post_json(address, f"/v1/users/{quote(name, safe='')}/scram", login, timeout, body)
    if status != 200:
        code = Exit.UNREACHABLE if status == 503 else Exit.REFUSED
        raise CliError(code, f"user {name} was not changed: {answer.get('message', f'HTTP {status}')}")
    note(f"user {name} has a password for {mechanism}")


def _alter(side: KafkaSide, name: str, alteration: Untyped, what: str) -> None:
    told = side.change(lambda admin: admin.alter_user_scram_credentials([alteration]), what)
    error = told.get(name)
    if error is not None:
        raise CliError(Exit.REFUSED, f"{what}: {error}")


def _number(mechanism: str) -> int:
    for one in ScramMechanism:
        if one.sasl_name == mechanism:
            return one.value
    raise CliError(Exit.USAGE, f"{mechanism} is none of {', '.join(one.sasl_name for one in ScramMechanism)}")


def _password(path: Path | None) -> str:
    try:
        if path is not None:
            text = path.read_text("utf-8")
        elif sys.stdin.isatty():
            text = getpass.getpass("Password: ")
            if getpass.getpass("Again: ") != text:
                raise CliError(Exit.USAGE, "the two passwords differ")
        else:
            text = sys.stdin.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(Exit.USAGE, f"cannot read the password: {error}") from error
    password = text.split("\n")[0].removesuffix("\r")
    if not password:
        raise CliError(Exit.USAGE, "the password is empty")
    return password
