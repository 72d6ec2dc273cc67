"""An address and a name that lead to a node, and that no certificate of a cluster's own accord has.

Problem: a client that verifies names must refuse a coordinator under another name than its certificate has, although it
is the right one. Mechanism: as where a router or a load balancer stands before the nodes that nobody has told the
cluster about. On the machine outside whatever is sent to ADDRESS goes to the node, port for port, and NAME is an alias
of ADDRESS, for the commands that `machine` runs. Not here: somebody else at that address; that is what the tests of
impostors have.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.node import network

ADDRESS = "10.77.0.77"
"""Of the network of the machine outside; nobody has it."""
NAME = "kafka.elsewhere.example"
HOSTS = Path("/etc/hosts")
OWN_HOSTS = f'mount --bind "$0" {HOSTS} && exec "$@"'
"""In a mount namespace of the command's own."""


@contextmanager
def detour(to: str, folder: Path) -> Iterator[None]:
    """While the block lasts, it leads to the node with this address."""
    (folder / "hosts").write_text(f"{HOSTS.read_text()}\n{ADDRESS} {NAME}\n")
    rule = ("OUTPUT", "--destination", ADDRESS, "--protocol", "tcp", "--jump", "DNAT", "--to-destination", to)
    _translate("--append", *rule)
    try:
        yield
    finally:
        _translate("--delete", *rule)


def machine(argv: Sequence[str], folder: Path) -> list[str]:
    """As `network.outside`, where NAME is known. The command is the process that is started."""
    return network.outside(["unshare", "--mount", "--", "sh", "-c", OWN_HOSTS, str(folder / "hosts"), *argv])


def _translate(*words: str) -> None:
    subprocess.run(network.outside(["iptables", "--wait", "--table", "nat", *words]), check=True, timeout=30)
