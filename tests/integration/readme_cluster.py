"""A cluster of `muster dev` as a block of the README starts it, in a folder as a checkout is, and the lines after it.

Added to the README's words are a port that is free, in the environment the address that belongs to it, and fewer
partitions of `__consumer_offsets`. Blocks are found by their comment, `<!-- run: NAME -->`.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.cluster import free_port_base, wait_until

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 4


def commands_of(name: str) -> list[str]:
    """The lines of that block."""
    text = (ROOT / "README.md").read_text()
    block = re.search(rf"<!-- run: {name} -->\n```sh\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


class ReadmeCluster:
    def __init__(self, folder: Path) -> None:
        self.cwd = folder
        self.port = free_port_base()
        (folder / "README.md").write_text((ROOT / "README.md").read_text())
        (folder / ".venv").symlink_to(Path(sys.prefix))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_ADMIN")}
        self.environment = {**inherited, "MUSTER_BOOTSTRAP": f"127.0.0.1:{self.port}"}
        self.said: list[str] = []
        """Of every command."""
        self.log = folder / "dev.log"
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._left_running: list[subprocess.Popen[bytes]] = []

    def start(self, line: str) -> None:
        words = [*shlex.split(line, comments=True), "--port", str(self.port), "--partitions", str(PARTITIONS)]
        mark = len(self.log.read_text()) if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._supervisor = subprocess.Popen(words, cwd=self.cwd, env=self.environment, stdout=log, stderr=log)
        running = self._supervisor

        def ready() -> bool:
            assert running.poll() is None, self.log.read_text()[mark:]
            return "ready bootstrap=" in self.log.read_text()[mark:]

        wait_until("it is ready", ready, 120)

    def stop(self) -> None:
        """Also of a run whose parent ignores Ctrl-C, as a shell's background jobs do: commands inherit that."""
        for left in self._left_running:
            left.kill()
            left.wait()
        if self._supervisor is not None and self._supervisor.poll() is None:
            self._supervisor.send_signal(signal.SIGINT)
            self._supervisor.wait(60)

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            shlex.split(line, comments=True), cwd=self.cwd, env=self.environment, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        self.said.append(done.stdout + done.stderr)
        return done

    def leave_running(self, line: str, said: str) -> str:
        """A command that ends with `stop`. Returns its whole lines on standard output once `said` is in them."""
        output, errors = (self.cwd / f"left-running-{len(self._left_running)}.{end}" for end in ("out", "err"))
        with output.open("wb") as out, errors.open("wb") as err:
            words = shlex.split(line, comments=True)
            running = subprocess.Popen(words, cwd=self.cwd, env=self.environment, stdout=out, stderr=err)
        self._left_running.append(running)

        def whole_lines() -> str:
            return output.read_text().rpartition("\n")[0]

        def heard() -> bool:
            assert running.poll() is None, errors.read_text()
            return said in whole_lines()

        wait_until(f"{line} says {said}", heard, 60)
        return whole_lines()
