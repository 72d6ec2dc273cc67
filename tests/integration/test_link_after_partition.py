"""A peer link after a silent partition on a real kernel: packets dropped by iptables in a network namespace of its own.

TCP sends again after 0.2, 0.4, 0.8, ... s. With 11 s of patience, as it was, 7 s of partition cost seconds more.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine_parts import debian_packages, give_up

ROOT = Path(__file__).parents[2]
PARTITION_S = 7.0
LINKED_MS_MAX = 3_000
"""A dial that was under way when the packets came back (1 s), the back-off after it (1 s), a machine with work."""

PACKAGES = {"unshare": "util-linux", "iptables": "iptables", "ip": "iproute2"}
"""Command to Debian's package."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(700)]
"""Packages may have to be installed; the partition itself takes 20 s."""


def lacking() -> list[str]:
    return [tool for tool in PACKAGES if shutil.which(tool) is None]


def missing() -> str:
    """What the test needs and this machine lacks; "" when nothing."""
    if os.geteuid() != 0:
        return "needs root, for a network namespace"
    if lacking():
        debian_packages("iptables", *(PACKAGES[tool] for tool in lacking()))
    if lacking():
        return f"no {', '.join(lacking())} on PATH"
    try_it = ["unshare", "-n", "iptables", "-A", "INPUT", "-p", "tcp", "-j", "DROP"]
    tried = subprocess.run(try_it, check=False, capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode else ""


def test_both_ends_hear_each_other_within_3_s_of_the_end_of_a_partition_of_7_s() -> None:
    reason = missing()
    if reason:
        give_up("iptables", reason)
    command = ["unshare", "-n", sys.executable, "-m", "tests.integration.link_after_partition", str(PARTITION_S)]
    ran = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) <= LINKED_MS_MAX
