"""`muster format`: prepares an empty data folder, with the users that the cluster is to begin with.

Kafka's `kafka-storage format --add-scram`: a cluster whose listeners all ask who a client is needs a first
administrator. It takes the folder's lock, so the server must be stopped, and refuses a folder that belongs to a cluster
already, unless `--even-if-formed`: a cluster that was open and is to ask its clients gets its first administrator by
that, since nobody can make one through a listener that asks. One replica is enough. What it does not do: start
anything, form a cluster, or change the users of one that has, or had, any.
"""

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.output import note
from muster_coordinator.errors import Corruption, EnvironmentFault, UnsupportedFormat
from muster_coordinator.settings import ConfigError, load_settings

SALT_BYTES = 24


def format_folder(
    config: Annotated[Path, typer.Option("--config", "-c", help="Properties file of the replica.")],
    *,
    add_scram: Annotated[
        list[str],
        typer.Option(
            "--add-scram",
            help="A user that the cluster begins with, as Kafka writes it: 'SCRAM-SHA-512=[name=admin,password=...]'; "
            "may be repeated. ${env:NAME} stands for a variable of the environment.",
        ),
    ],
    even_if_formed: Annotated[
        bool,
        typer.Option(
            "--even-if-formed",
            help="Take a folder that belongs to a cluster too: the users are made if that cluster never had any.",
        ),
    ] = False,
) -> None:
    """Prepare the empty data folder of a new cluster's replica, with the cluster's first users."""
    try:
        settings = load_settings(config, os.environ)
    except ConfigError as error:
        raise CliError(Exit.USAGE, str(error)) from None
    try:
        users = give_first_users(settings.data_dir, add_scram, even_if_formed=even_if_formed)
    except (Corruption, EnvironmentFault, UnsupportedFormat, OSError) as error:
        raise CliError(Exit.REFUSED, str(error)) from error
    if users is None:
        raise CliError(Exit.REFUSED, f"{settings.data_dir} belongs to a cluster already: use muster user create")
    when = ", if it never had users" if even_if_formed else ""
    note(f"{settings.data_dir} is ready; the cluster begins with {', '.join(users)}{when}")


def give_first_users(folder: Path, texts: list[str], *, even_if_formed: bool = False) -> list[str] | None:
    """The users that the cluster begins with which this data folder will form; None: it belongs to one already, unless
    `even_if_formed`: then they are made if that cluster never had users. Raises CliError for a text that cannot be
    meant, and what the folder raises."""
    from muster_coordinator.controller.commands import FirstScramCredentials, NewScramCredential
    from muster_coordinator.properties import PropertiesError, with_environment
    from muster_coordinator.replica.bootstrap.first_users import store_first_users
    from muster_coordinator.replica.bootstrap.identity import load_cluster
    from muster_coordinator.runtime.disk import OsDisk
    from muster_coordinator.runtime.folder import FolderLock
    from muster_coordinator.security.limits import SCRAM_SECRET_BYTES
    from muster_coordinator.security.scram_text import parse_scram

    made = []
    for text in texts:
        try:
            whole = with_environment({"--add-scram": text}, os.environ)["--add-scram"]
            user, credential = parse_scram(whole, secrets.token_bytes(SALT_BYTES))
        except (ValueError, PropertiesError) as error:
            raise CliError(Exit.USAGE, f"--add-scram: {error}") from None
        made.append(
            NewScramCredential(
                user=user,
                mechanism=credential.mechanism.value,
                iterations=credential.iterations,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
            )
        )
    if len({(one.user, one.mechanism) for one in made}) < len(made):
        raise CliError(Exit.USAGE, "--add-scram: a user is named twice for one mechanism")
    lock = FolderLock(folder)
    try:
        disk = OsDisk(str(folder))
        if load_cluster(disk)[1] is not None and not even_if_formed:
            return None
        secret = secrets.token_bytes(SCRAM_SECRET_BYTES)
        store_first_users(disk, FirstScramCredentials(credentials=tuple(made), secret=secret))
    finally:
        lock.release()
    return sorted({one.user for one in made})
