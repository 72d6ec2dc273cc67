"""Addresses of a sandbox, and its two networks: the node, and a machine outside the cluster.

        outside (10.77.0.254) --- node0 bridge, the node (10.77.0.1) --- cni0 bridge, pods (10.88.0.0/24)

`outside` is a network namespace of its own with one cable to the node: what it reaches, it reaches as a client from
outside the cluster does, by NodePort. It has no route to pods or Services.
"""

import subprocess
from collections.abc import Sequence

NODE_ADDRESS = "10.77.0.1"
OUTSIDE_ADDRESS = "10.77.0.254"
PREFIX_BITS = 24
POD_RANGE = "10.88.0.0/24"
SERVICE_RANGE = "10.96.0.0/24"
SERVICE_OF_API = "10.96.0.1"
OUTSIDE = "outside"

_COMMANDS = f"""
link set lo up
link add node0 type bridge
addr add {NODE_ADDRESS}/{PREFIX_BITS} dev node0
link set node0 up
netns add {OUTSIDE}
link add cable type veth peer name eth0 netns {OUTSIDE}
link set cable master node0
link set cable up
-n {OUTSIDE} link set lo up
-n {OUTSIDE} addr add {OUTSIDE_ADDRESS}/{PREFIX_BITS} dev eth0
-n {OUTSIDE} link set eth0 up
route add default via {OUTSIDE_ADDRESS}
"""


def arrange() -> None:
    """Make both networks; run in the sandbox's own network namespace."""
    for command in _COMMANDS.strip().splitlines():
        subprocess.run(["ip", *command.split()], check=True, timeout=30)


def outside(argv: Sequence[str]) -> list[str]:
    """A command line that runs `argv` on the machine outside the cluster; for processes inside the sandbox."""
    return ["nsenter", f"--net=/run/netns/{OUTSIDE}", "--", *argv]
