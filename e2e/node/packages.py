"""Debian packages that the rungs need, installed when missing.

A need is a program, not a package: where the program is there, however it came, nothing is installed. Daemons that a
package would start are kept from starting.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping

from e2e.node.errors import Unavailable

INSTALL_TIMEOUT_S = 300.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/cni"

# program -> Debian package
NODE: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "host-local": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
}
API: Mapping[str, str] = {"openssl": "openssl"}
GO: Mapping[str, str] = {"go": "golang-go"}


def missing(needs: Mapping[str, str]) -> list[str]:
    """The packages of `needs` whose program is not there, sorted."""
    path = f"{os.environ.get('PATH', '')}:{SEARCH_PATH}"
    return sorted({package for program, package in needs.items() if shutil.which(program, path=path) is None})


def ensure(needs: Mapping[str, str]) -> None:
    """Install what is missing. `Unavailable` with the command to type when this process cannot."""
    wanted = missing(needs)
    if not wanted:
        return
    command = f"apt-get install --no-install-recommends {' '.join(wanted)}"
    if shutil.which("apt-get") is None:
        raise Unavailable(f"this machine lacks {', '.join(wanted)} (Debian's package names) and has no apt-get")
    if os.geteuid() != 0:
        raise Unavailable(f"this machine lacks {', '.join(wanted)}; run as root: {command}")
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *wanted]
    done = _apt(install)
    if done.returncode != 0:  # package lists older than the archive, or none yet
        _apt(["apt-get", "update"])
        done = _apt(install)
    still = missing(needs)
    if still:
        raise Unavailable(f"`{command}` did not help: {done.stderr.strip()[-300:]}")


def _apt(argv: list[str]) -> "subprocess.CompletedProcess[str]":
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # run level 1: start no daemon
    try:
        return subprocess.run(argv, env=quiet, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as slow:
        raise Unavailable(f"`{' '.join(argv)}` took more than {INSTALL_TIMEOUT_S:.0f} s") from slow
