"""Which processes of this machine have a connection to a port: counted on sockets, whatever they say of themselves."""

import os
import re
from pathlib import Path


def processes_connected_to(port: int) -> set[int]:
    """Processes of this machine that have a connection to this port of loopback."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:] + _tcp6():
        fields = line.split()
        if int(fields[2].rpartition(":")[2], 16) == port and fields[3] == "01":
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


def _tcp6() -> list[str]:
    try:
        return Path("/proc/net/tcp6").read_text().splitlines()[1:]
    except OSError:
        return []
