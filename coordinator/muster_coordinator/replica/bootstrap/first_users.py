"""The file `first-users`: with which users the cluster begins that this replica forms (`muster format --add-scram`).

Problem: a cluster whose only listeners ask who their clients are has nobody yet who could make the first user.
Mechanism: a file beside the identity holds the credentials (never a password), as the command that sets them. Each
replica that has one proposes it once the cluster is formed, and removes it when the controller's log has answered for
good: the command is refused if the cluster has, or had, users of its own, so a file that comes late, or from elsewhere,
changes nothing. What it does not do: decide that (`controller.scram_credentials`), or wait (`app`).
"""

from muster_coordinator.controller.codec import decode_command, encode_command
from muster_coordinator.controller.commands import FirstScramCredentials
from muster_coordinator.errors import Corruption
from muster_coordinator.ports import Disk
from muster_coordinator.replica.bootstrap.identity import load, store

FIRST_USERS_FILE = "first-users"
_MAGIC = 0x4D55_4655


def load_first_users(disk: Disk) -> FirstScramCredentials | None:
    """None: there is no such file. Raises `Corruption`, `UnsupportedFormat`."""
    body = load(disk, FIRST_USERS_FILE, _MAGIC)
    if body is None:
        return None
    command = decode_command(body)
    if not isinstance(command, FirstScramCredentials):
        raise Corruption(f"{FIRST_USERS_FILE} holds another command")
    return command


def store_first_users(disk: Disk, command: FirstScramCredentials) -> None:
    """Durable when it returns."""
    store(disk, FIRST_USERS_FILE, _MAGIC, encode_command(command))


def remove_first_users(disk: Disk) -> None:
    """The controller's log has answered. Durable when it returns."""
    disk.unlink(FIRST_USERS_FILE)
    disk.sync_dir("")
