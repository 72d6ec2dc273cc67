"""CPU time and memory of server processes, read from outside in the same way for both sides."""

import os
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from bench.errors import RunFailed

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
JCMD_TIMEOUT_S = 120
KIB = 1024


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def cpu_s(pid: int) -> float:
    """User and system time of all threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def age_s(pid: int) -> float:
    """Time since the process was started."""
    started_ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - started_ticks / TICKS_PER_S


def cores_used(pids: Iterable[int], seconds: float) -> list[float]:
    """Share of a core that each process uses in the next `seconds`."""
    pids = list(pids)
    before, began = [cpu_s(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    return [(cpu_s(pid) - used) / elapsed for pid, used in zip(pids, before, strict=True)]


def resident_bytes(pid: int) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * KIB


def live_heap_bytes(pid: int) -> int:
    """Heap of a JVM in use after a full collection; its resident memory says little, because of `-Xms1g`."""
    _jcmd(pid, "GC.run")
    found = re.search(r"garbage-first heap\s+total \S+ used (\d+)K", text := _jcmd(pid, "GC.heap_info"))
    found = found or re.search(r"garbage-first heap\s+total reserved \S+ committed \S+ used (\d+)K", text)
    if found is None:
        raise RunFailed(f"jcmd GC.heap_info shows no G1 heap: {text[:200]}")
    return int(found[1]) * KIB


def _jcmd(pid: int, command: str) -> str:
    done = subprocess.run(
        ["jcmd", str(pid), command], capture_output=True, text=True, timeout=JCMD_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RunFailed(f"jcmd {command} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
