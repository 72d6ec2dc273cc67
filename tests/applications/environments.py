"""Python packages that the project does not depend on, each in an environment of its own under `.cache/applications`.

`python_with("quixstreams==3.28.1")` is the path of a Python that has them; it is made once, by pip, from PyPI.
Requirements are exact, so that a run tells of the cluster and not of what appeared on PyPI last night.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.java_tools import CACHE
from tests.machine_parts import give_up

INSTALL_S_MAX = 900


def python_with(*requirements: str) -> Path:
    """Gives up where pip cannot install them."""
    name = hashlib.sha256("\n".join((sys.version, *requirements)).encode()).hexdigest()[:16]
    folder = CACHE / "applications" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "made"
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run("venv", sys.executable, "-m", "venv", str(folder))
            _run(requirements[0], str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements)
            made.touch()
    return folder / "bin" / "python"


def _run(part: str, *command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S_MAX)
    except subprocess.TimeoutExpired:
        give_up(part, f"{' '.join(command)} did not end within {INSTALL_S_MAX} s")
    if done.returncode != 0:
        give_up(part, f"{' '.join(command)}: {done.stderr[-2_000:]}")
