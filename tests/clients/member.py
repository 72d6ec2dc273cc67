"""The test's side of a group member: start one on any client, watch its events, command it, kill it, freeze it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests import go_tools, java_tools

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
JAVA_HEAP_MIB = 96

Event = dict[str, Any]


class Member:
    """One member process. Everything it told is in `events`, newest last."""

    def __init__(
        self, client: str, *, machine: Callable[[Sequence[str]], Sequence[str]] = list, **settings: Any
    ) -> None:
        """`machine`: the command line that runs another one elsewhere, in the process that it is started as."""
        self.client = client
        self.settings = settings
        self.events: list[Event] = []
        self.assigned: set[tuple[str, int]] = set()
        """Owned now, by the events; eager members get whole assignments after whole revocations."""
        self.records: list[tuple[str, int, int, str | None, str | None]] = []
        self.record_times: list[float] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            machine([*_command(client, settings.pop("jvm", ())), json.dumps(settings)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True, name=f"member-{client}")
        self._reader.start()
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._error_reader.start()

    # --- what it tells

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith(b"{"):
                self._errors.append(line.decode(errors="replace"))
                continue
            event = json.loads(line)
            with self._changed:
                self._note(event)
                self.events.append(event)
                self._changed.notify_all()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line.decode(errors="replace"))
            del self._errors[:-200]

    def _note(self, event: Event) -> None:
        if event["e"] == "assigned":
            self.assigned |= {(t, p) for t, p in event["tps"]}
        elif event["e"] in ("revoked", "lost"):
            self.assigned -= {(t, p) for t, p in event["tps"]}
        elif event["e"] == "records":
            now = time.monotonic()
            self.records += [(t, p, o, k, v) for t, p, o, k, v in event["rs"]]
            self.record_times += [now] * len(event["rs"])

    def wait(self, what: str, check: Callable[["Member"], Any], seconds: float = 30) -> Any:
        """Until `check(self)` is true; the events so far are in the error otherwise."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                value = check(self)
                if value:
                    return value
                left = deadline - time.monotonic()
                if left <= 0 or (self._process.poll() is not None and not self._reader.is_alive()):
                    told = [e for e in self.events if e["e"] != "records"][-12:]
                    raise AssertionError(
                        f"{self.client} member: {what} not within {seconds} s; exit {self._process.poll()}; "
                        f"owns {sorted(self.assigned)}; {len(self.records)} records; told {told}; "
                        f"stderr {self.complaints()[-4000:]}"
                    )
                self._changed.wait(min(left, 0.5))

    def wait_event(self, name: str, seconds: float = 30, *, after: int = 0) -> Event:
        """The first event called `name` from position `after` of `events` on."""

        def find(member: "Member") -> Event | None:
            return next((e for e in member.events[after:] if e["e"] == name), None)

        found: Event = self.wait(f"event {name}", find, seconds)
        return found

    def wait_owns(self, count: int, seconds: float = 30) -> set[tuple[str, int]]:
        self.wait(f"owning {count} partitions", lambda m: len(m.assigned) == count, seconds)
        return set(self.assigned)

    @property
    def pid(self) -> int:
        return self._process.pid

    def complaints(self) -> str:
        """The last lines that its library has logged, or that it died with."""
        return "".join(self._errors)

    def count(self, name: str) -> int:
        return sum(e["e"] == name for e in self.events)

    def ended(self) -> str | None:
        """None while it runs; how it ended otherwise, and the end of what it complained about."""
        code = self._process.poll()
        return None if code is None else f"{self.client} member ended with {code}: {''.join(self._errors)[-800:]}"

    # --- what it is told

    def command(self, name: str, **fields: Any) -> int:
        """Send a command; returns the position in `events` from which its consequences follow."""
        position = len(self.events)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"c": name, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        return position

    def ask(self, name: str, answer: str, seconds: float = 30, **fields: Any) -> Event:
        return self.wait_event(answer, seconds, after=self.command(name, **fields))

    def commit(self, seconds: float = 30) -> Event:
        """Synchronous commit of the position; the event that tells how it went."""
        position = self.command("commit")
        return self.wait(
            "a commit's outcome",
            lambda m: next((e for e in m.events[position:] if e["e"] in ("committed", "commit_failed")), None),
            seconds,
        )

    def committed(self, *partitions: tuple[str, int]) -> dict[tuple[str, int], int | None]:
        answer = self.ask("fetch", "fetched", tps=[list(tp) for tp in partitions])
        return {(t, p): o for t, p, o, _ in answer["offsets"]}

    # --- its end

    def leave(self, seconds: float = 30) -> None:
        self.command("close")
        self.wait_event("closed", seconds)
        self._process.wait(seconds)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def dispose(self) -> None:
        """For fixtures: whatever state it is in, it is gone afterwards, its pipes closed."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                self._reader.join(5)
                self._error_reader.join(5)
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


def _command(client: str, jvm: Sequence[str]) -> list[str]:
    if client == "java":
        class_path = java_tools.classpath(*java_tools.KAFKA_ALL)
        compiled = java_tools.compile_java([HERE / "members" / "java" / "Member.java"], class_path)
        return [*java_tools.jvm(compiled, JAVA_HEAP_MIB, *jvm), "Member"]
    if client == "franz-go":
        return [str(go_tools.built()), "member"]
    if client == "confluent-kafka-go":
        return [str(go_tools.built(go_tools.LIBRDKAFKA)), "member"]
    return [sys.executable, "-m", f"tests.clients.members.{client.replace('-', '_')}_member"]
