"""Wall clocks of server processes that a test may step: a small library, preloaded, adds what stands in a file.

Built with the machine's C compiler, once per version of its source. Without one there are no steps.
"""

import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.java_tools import CACHE

SOURCE = Path(__file__).with_name("clock.c")
COMPILER_TIMEOUT_S = 60


def library() -> Path | None:
    """The built library; None where nothing can build it."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    path = CACHE / "clocks" / f"{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            partial = path.with_suffix(".partial")
            command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(partial), str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILER_TIMEOUT_S, check=False)
            assert done.returncode == 0, done.stderr
            partial.rename(path)
    return path


class Clocks:
    """`folder` is this test's own."""

    def __init__(self, folder: Path) -> None:
        self.preload = library()
        self._folder = folder
        folder.mkdir(parents=True)

    @contextmanager
    def preloaded(self) -> Iterator[None]:
        """Around the start of processes whose clocks are to be stepped."""
        if self.preload is None:
            yield
            return
        mine = {"LD_PRELOAD": str(self.preload), "MUSTER_TEST_CLOCKS": str(self._folder)}
        before = {name: os.environ.get(name) for name in mine}
        os.environ.update(mine)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def step(self, pid: int, offset_ms: int) -> None:
        """From now on the process's wall clock is off by so much."""
        file = self._folder / str(pid)
        assert file.exists(), f"process {pid} was not started with a clock of its own"
        with file.open("r+b") as handle:
            handle.write(struct.pack("q", offset_ms * 1_000_000))
