"""The machine of the measurement: printed beside every table, since absolute figures depend on it."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from muster_coordinator.raft import core

from tests.java_tools import KAFKA_VERSION

FACT_TIMEOUT_S = 20


def facts(data: Path) -> dict[str, str]:
    """Cores, model, memory, kernel, file system under the data, versions."""
    return {
        "cores": str(os.cpu_count()),
        "model": _line("/proc/cpuinfo", "model name"),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "data on": _output("stat", "--file-system", "--format=%T", str(data)),
        "Python": platform.python_version(),
        "Java": _output("java", "-version").split("\n")[0],
        "Kafka": KAFKA_VERSION,
        "Go": _output("go", "version").removeprefix("go version "),
        "Muster": _output("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"),
        "its form": "compiled cores (ADR 10)" if is_compiled() else "pure Python",
    }


def is_compiled() -> bool:
    """Whether the replicas, which inherit this process' path, run the compiled form."""
    return Path(core.__file__).suffix != ".py"


def load_average() -> float:
    return round(os.getloadavg()[0], 2)


def stolen_ticks() -> int:
    """Ticks that the hypervisor gave to other guests, summed over all cores, since boot."""
    return int(Path("/proc/stat").read_text().split("\n")[0].split()[8])


def _line(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return "unknown"


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return "none"
    done = subprocess.run(command, capture_output=True, text=True, timeout=FACT_TIMEOUT_S, check=False)
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else "unknown"
