"""`python3 tests/base_python.py` prints the path of the Python that `.venv` is made of (ADR 107).

Problem: a Python that was built without optimisation by profile and at link time, as pyenv and a plain `./configure` do
unless told otherwise, runs the suites a seventh slower than the one of a distribution, and sets the time of each start.
Mechanism: the system's own is taken, if a whole environment can be made of it and it is no older a minor version. Who
chose by an activated environment, or by `make PYTHON=...`, which does not ask here, has what was chosen. Not here: a
search in PATH, or a measurement, which would choose differently on each day.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SYSTEM: Final = Path("/usr/bin/python3")
OLDEST: Final = (3, 11)
PROBE_TIMEOUT_S: Final = 20
PROBE: Final = """
import ensurepip, os, sys, sysconfig, venv
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
print(*sys.version_info[:2])
"""
"""A distribution may have the parts in packages of their own; the headers are for `make wheel COMPILE=1`."""


def version_of(python: Path) -> tuple[int, int] | None:
    """Its minor version, if a whole environment can be made of it."""
    try:
        done = subprocess.run(
            [python, "-c", PROBE], capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S
        )
        major, minor = done.stdout.split()
        return int(major), int(minor)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def choose(own: Path, own_version: tuple[int, int], chosen: bool, system: Path = SYSTEM) -> Path:
    """`own` runs this, and is `chosen` if a person said so."""
    if chosen:
        return own
    found = version_of(system)
    return system if found is not None and found >= max(own_version, OLDEST) else own


def is_chosen(environment: Mapping[str, str]) -> bool:
    """Whether an environment is activated, of `venv` or Conda."""
    return any(environment.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))


if __name__ == "__main__":
    version = (sys.version_info.major, sys.version_info.minor)
    sys.stdout.write(f"{choose(Path(sys.executable), version, is_chosen(os.environ))}\n")
