"""Pods as a watch tells of them, in the order and at the times in which it does, for claims about what never happened.

Polling would miss a pod that was away between two looks; a watch tells of every change. It must not break: a test whose
watch ended early has seen nothing and fails.
"""

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.fleet import is_ready, until
from e2e.node.client import Client

FIRST_EVENT_S = 20.0
END_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    at_s: float
    """Of `time.monotonic`, when the event was read."""
    type: str
    """ADDED, MODIFIED or DELETED."""
    pod: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])


@dataclass(slots=True, kw_only=True)
class PodWatch:
    """Every event since `watching` began; the first ones tell what was there."""

    events: list[Seen] = field(default_factory=list)
    failure: str = ""

    def views(self) -> Iterator[tuple[Seen, dict[str, Mapping[str, Any]]]]:
        """After each event: the event, and the pods that there were then."""
        pods: dict[str, Mapping[str, Any]] = {}
        for event in list(self.events):
            if event.type == "DELETED":
                pods.pop(event.name, None)
            else:
                pods[event.name] = event.pod
            yield event, dict(pods)

    def now(self) -> dict[str, Mapping[str, Any]]:
        """The pods that there are, as far as told."""
        return list(self.views())[-1][1]

    def unavailable_max(self, wanted: int) -> int:
        """How many of `wanted` pods were away or not Ready at once, at most. All were there at the start."""
        away, complete = 0, False
        for _, pods in self.views():
            there = sum(1 for pod in pods.values() if is_ready(pod))
            complete = complete or there == wanted
            if complete:
                away = max(away, wanted - there)
        assert complete, "the pods were never all Ready"
        return away

    def stopped(self) -> dict[str, float]:
        """Pod name → when it was first seen to be told to stop, in that order."""
        found: dict[str, float] = {}
        for event in self.events:
            if "deletionTimestamp" in event.pod["metadata"] or event.type == "DELETED":
                found.setdefault(event.name, event.at_s)
        return found

    def gone(self) -> dict[str, float]:
        """Pod name → when its object was gone for the last time."""
        return {event.name: event.at_s for event in self.events if event.type == "DELETED"}


@contextmanager
def watching(client: Client, selector: str) -> Iterator[PodWatch]:
    """A watch of the pods of `selector` (there must be some) until the end of the block."""
    argv = [str(client.tools.path("kubectl")), f"--namespace={client.namespace}", "get", "pods",
            f"--selector={selector}", "--watch", "--output-watch-events", "--output=json"]  # fmt: skip
    found = PodWatch()
    with subprocess.Popen(
        argv, env=client.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        reader = threading.Thread(target=_read, args=(process, found), name="pod-watch", daemon=True)
        reader.start()
        try:
            until("first event of the watch", lambda: found.events, FIRST_EVENT_S)
            yield found
            assert process.poll() is None, f"the watch ended early: {found.failure}"
            assert found.failure == "", found.failure
        finally:
            process.kill()
            reader.join(END_S)


def _read(process: "subprocess.Popen[str]", found: PodWatch) -> None:
    """One event a line."""
    assert process.stdout is not None
    for line in process.stdout:
        try:
            value = json.loads(line)
            found.events.append(Seen(at_s=time.monotonic(), type=value["type"], pod=value["object"]))
        except (ValueError, KeyError):
            found.failure = line.strip()
            return
