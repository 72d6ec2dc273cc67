"""The demo's Redis: `redis-server` from PATH, on loopback, with an append-only file that is synced at each write.

Problem: it has to survive SIGKILL with everything that it confirmed, must not be taken for somebody else's, and must be
gone when the demo is. Mechanism: its files are in the demo's folder, by which it is recognised (`CONFIG GET dir`), as
another server may have got the port first; its port is of a block that no other demo takes while this one lives; it is
judged as a replica judges it, before there are replicas, so that a server too old is one sentence; and the `with` block
leaves it dead in every case. What this does not do: watch over itself. Who uses it asks `is_ready`, which raises when
the process has ended.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from muster_coordinator.cli.demo.redis_program import program
from muster_coordinator.cli.dev_layout import HOST
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.port_block import FIRST_BASE, STEP, PortBlock
from muster_coordinator.runtime.redis_fitness import Fitness, judged

START_S_MAX = 30.0
STOP_S_MAX = 5.0
ANSWER_S_MAX = 5.0
LOG_LINES_SHOWN = 8
_POLL_S = 0.05
_FITNESS = Fitness("aof", 1)
_LOG, _FILES = "redis.log", "appendonlydir"


class RedisProcess:
    """Use as a context manager: answers on entry, ended on exit in any case."""

    def __init__(self, folder: Path) -> None:
        """Raises CliError when there is no redis-server, or no free port."""
        self._program = program()
        self._folder = folder.resolve()
        self._ports = PortBlock.take(1, first=FIRST_BASE + os.getpid() % 500 * STEP)
        self.port = self._ports.base
        self._processes: list[subprocess.Popen[bytes]] = []
        """All that were started; the last one is the server, or was until `kill`."""
        self._deadline = 0.0
        self.client: Any = Redis(
            host=HOST, port=self.port, protocol=2, retry=Retry(NoBackoff(), 0),
            socket_timeout=ANSWER_S_MAX, socket_connect_timeout=ANSWER_S_MAX,
        )  # fmt: skip
        self.client.set_response_callback("INFO", lambda answer, **_: answer)

    @property
    def settings(self) -> dict[str, str]:
        """What replicas are told of it."""
        url = f"redis://{HOST}:{self.port}/0"
        return {"topics.mode": "redis", "redis.url": url, "redis.durability": _FITNESS.durability}

    def __enter__(self) -> Self:
        try:
            self._remove_earlier()
            self.start()
            while not self.is_ready():
                time.sleep(_POLL_S)
            self._judge()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def start(self) -> None:
        """Start it on its files; returns at once. Its log goes on."""
        command = [
            self._program, "--bind", HOST, "--port", str(self.port), "--dir", str(self._folder),
            "--appendonly", "yes", "--appendfsync", "always", "--save", "",
        ]  # fmt: skip
        with (self._folder / _LOG).open("ab") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))
        self._deadline = time.monotonic() + START_S_MAX

    def kill(self) -> int:
        """Send SIGKILL, and see it dead; returns the process id."""
        process = self._processes[-1]
        _signal(process, signal.SIGKILL)
        process.wait()
        self.client.close()
        return process.pid

    def is_ready(self) -> bool:
        """Whether it answers, and has read its files. Raises CliError when it has ended, or needs too long."""
        code = self._processes[-1].poll()
        if code is not None:
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise self._failure(f"redis-server ended {how}")
        try:
            self.client.ping()
            ours = self.client.config_get("dir").get("dir") == os.fsencode(self._folder).decode(errors="replace")
        except (RedisError, OSError) as error:
            why = str(error)  # it does not listen yet, or is LOADING
        else:
            if ours:
                self._deadline = float("inf")
                return True
            why = f"another server has port {self.port}"
        if time.monotonic() > self._deadline:
            raise self._failure(f"redis-server was not ready within {START_S_MAX:.0f} s ({why})")
        return False

    def _judge(self) -> None:
        unfit = judged(self.client.info(), "always", _FITNESS).unfit
        if unfit:
            raise CliError(Exit.USAGE, f"replicas would refuse the Redis of {self._program}: {unfit}")

    def _failure(self, what: str) -> CliError:
        lines = (self._folder / _LOG).read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return CliError(Exit.REFUSED, "\n".join([f"{what}; the end of {self._folder / _LOG}:", *lines]))

    def _remove_earlier(self) -> None:
        """What another demo has left in this folder: its streams belong to a cluster that is no more."""
        self._folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._folder / _FILES, ignore_errors=True)
        (self._folder / _LOG).unlink(missing_ok=True)

    def _stop(self) -> None:
        """SIGTERM, and SIGKILL for what remains; that also when a second Ctrl-C interrupts this."""
        try:
            self.client.close()
            for process in self._processes:
                _signal(process, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S_MAX)
        finally:
            for process in self._processes:
                _signal(process, signal.SIGKILL)
                process.wait()
            self._ports.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To everything of its session, because a program of this name may be a script around the server."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
