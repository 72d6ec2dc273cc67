"""Which processes have a connection to a port, and where those of one process lead: read off sockets, whatever they say
of themselves.
"""

import os
import re
import sys
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

ESTABLISHED = "01"
"""Of include/net/tcp_states.h."""


def processes_connected_to(port: int) -> set[int]:
    """Processes of this machine that have a connection to this port of loopback."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:] + _tcp6():
        fields = line.split()
        if int(fields[2].rpartition(":")[2], 16) == port and fields[3] == ESTABLISHED:
            inodes.add(fields[9])
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                named = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{process}/fd/{descriptor}"))
                if named and named[1] in inodes:
                    found.add(int(process))
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
    return found


def peers_of(process: int) -> set[tuple[str, int]]:
    """Address and port of the other end of each of its connections, in whatever network namespace it is. An IPv4
    address that is written as an IPv6 one (Java's) is told as what it is."""
    own = set()
    for descriptor in os.listdir(f"/proc/{process}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            own.add(os.readlink(f"/proc/{process}/fd/{descriptor}"))
    found = set()
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/{process}/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == ESTABLISHED and f"socket:[{fields[9]}]" in own:
                address, _, port = fields[2].partition(":")
                found.add((_address(address), int(port, 16)))
    return found


def _address(words: str) -> str:
    """Of the kernel's words of 32 bits, each as this machine keeps it."""
    packed = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    if len(packed) == 4:
        return str(IPv4Address(packed))
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address)


def _tcp6() -> list[str]:
    try:
        return Path("/proc/net/tcp6").read_text().splitlines()[1:]
    except OSError:
        return []
