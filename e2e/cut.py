"""A pod cut off from the network by packet rules in its own network namespace. Runs inside the sandbox, as its root."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CALL_TIMEOUT_S = 10.0
CHAINS = ("INPUT", "OUTPUT")


def process_of(pod: str) -> int:
    """A process whose host name is the pod's."""
    wanted = f"HOSTNAME={pod}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile, or is a kernel thread
        if wanted in variables:
            return int(folder.name)
    raise AssertionError(f"no process of pod {pod} on this node")


@contextmanager
def cut_off(pod: str) -> Iterator[None]:
    """Everything to and from the pod is dropped, silently, until the end of the block. Its processes go on."""
    process = process_of(pod)

    def rules(verb: str) -> None:
        for chain in CHAINS:
            argv = ["nsenter", "--target", str(process), "--net", "iptables", verb, chain, "--jump", "DROP"]
            subprocess.run(argv, check=True, timeout=CALL_TIMEOUT_S, capture_output=True)

    rules("--append")
    try:
        yield
    finally:
        rules("--delete")
