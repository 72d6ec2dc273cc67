"""A PostgreSQL of Debian's package on loopback, from whose log changes can be read (`wal_level=logical`).

The server refuses to run as root. There it runs as the user that Debian's package makes, in a folder that is that
user's: the folders of pytest are closed to others.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import orphans
from tests.cluster import wait_until
from tests.kafka_broker import free_ports
from tests.machine_parts import debian_packages, give_up

USER = "postgres"
START_S_MAX = 120
SQL_S_MAX = 120
STOP_S_MAX = 60
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "shared_buffers": "16MB",
    "fsync": "off",
}


def programs() -> Path:
    """The folder of the newest server's programs; the test is skipped, or fails where parts are required, without."""
    found = _programs()
    if not found:
        debian_packages("postgresql", "postgresql")
        found = _programs()
    if not found:
        give_up("postgresql", "no PostgreSQL server on this machine (Debian: apt install postgresql)")
    return found[-1]


def _programs() -> list[Path]:
    """Debian keeps each version in a folder that is not on the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return [path.parent for path in (*debian, *([Path(on_path).resolve()] if on_path and not debian else []))]


class Postgres:
    """One server with one database, `postgres`, and one user of that name whom it trusts."""

    def __init__(self, folder: Path) -> None:
        self._programs = programs()
        self._folder = folder
        self._log = folder / "server.log"
        (self.port,) = free_ports(1)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
            self._as = {"user": USER, "group": USER, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        data = str(self._folder / "data")
        make = [str(self._programs / "initdb"), "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        made = subprocess.run(
            make, cwd=self._folder, capture_output=True, text=True, check=False, timeout=START_S_MAX, **self._as
        )
        assert made.returncode == 0, f"initdb: {made.stdout}\n{made.stderr}"
        command = [str(self._programs / "postgres"), "-D", data]
        for name, value in {**SETTINGS, "port": str(self.port)}.items():
            command += ["-c", f"{name}={value}"]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **self._as
            )
        orphans.watch(self._process.pid)
        wait_until("PostgreSQL answers", self._answers, START_S_MAX, 0.2)

    def stop(self) -> None:
        """Its quick end, or SIGKILL. Harmless when it does not run."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_S_MAX)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, sql: str) -> list[list[str]]:
        """The rows of what `sql` selects."""
        done = self._psql(sql)
        assert done.returncode == 0, f"{sql}\n{done.stderr}\n{self.told()}"
        return [line.split("\t") for line in done.stdout.splitlines()]

    def told(self) -> str:
        """The end of what it wrote."""
        return self._log.read_text("utf-8")[-4_000:]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.told()
        return self._psql("SELECT 1").returncode == 0

    def _psql(self, sql: str) -> subprocess.CompletedProcess[str]:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", USER]
        return subprocess.run(
            [str(self._programs / "psql"), "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", *where],
            input=sql,
            capture_output=True,
            text=True,
            check=False,
            timeout=SQL_S_MAX,
        )


@contextmanager
def postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="muster-postgres-") as folder:
        one = Postgres(Path(folder))
        try:
            one.start()
            yield one
        finally:
            one.stop()
