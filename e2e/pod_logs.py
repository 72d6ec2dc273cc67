"""Logs of pods that are gone before anybody can ask for them: each is followed into a file from its start on.

Spark deletes its executors when a job ends. Who follows has to look often (`look`): a pod that came and went between
two looks is not there. What a container wrote before it was killed is, as far as the kubelet had it.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.node.client import Client

STARTED = ("Running", "Succeeded", "Failed")
END_S_MAX = 30


class PodLogs:
    """Of the pods that a selector finds."""

    def __init__(self, client: Client, selector: str, folder: Path) -> None:
        self._client, self._selector, self._folder = client, selector, folder
        self._following: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir()

    def look(self) -> None:
        """Begin to follow those that have started since the last look."""
        for pod in self._client.read("pods", f"--selector={self._selector}")["items"]:
            name = pod["metadata"]["name"]
            if name not in self._following and pod["status"]["phase"] in STARTED:
                kubectl = str(self._client.tools.path("kubectl"))
                command = [kubectl, f"--namespace={self._client.namespace}", "logs", "--follow", name]
                with self._path(name).open("wb") as file:
                    self._following[name] = subprocess.Popen(
                        command, env=self._client.environment(), stdout=file, stderr=subprocess.DEVNULL
                    )

    def texts(self) -> dict[str, str]:
        """Name of the pod to what it has said."""
        return {name: self._path(name).read_text(errors="replace") for name in self._following}

    def end(self) -> None:
        """Returns when all that the kubelet had is in the files; a log that does not end is left."""
        for process in self._following.values():
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@contextmanager
def followed(client: Client, selector: str, folder: Path) -> Iterator[PodLogs]:
    logs = PodLogs(client, selector, folder)
    try:
        yield logs
    finally:
        logs.end()
