"""The commands of the README's section "On Kubernetes", as a user copies them, and a shell that runs them.

A block that is run stands behind a comment `<!-- run: NAME -->`, also on other pages, where it may be a file to apply.
The only thing a test gives is IMAGE, which the README tells the reader to set.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from e2e.node import paths
from e2e.node.client import Refused
from e2e.node.session import Description

README = paths.ROOT / "README.md"
BLOCK = re.compile(r"<!-- run: ([a-z-]+) -->\n```(?:sh|yaml)\n(.*?)```", re.DOTALL)


def blocks(page: Path = README) -> dict[str, str]:
    """Name → commands or file, in the page's order."""
    return dict(BLOCK.findall(page.read_text()))


def environment(node: Description) -> dict[str, str]:
    """The reader's shell: kubectl, helm, `kubectl muster` on PATH, and IMAGE."""
    own = node.client().environment()
    return {**own, "PATH": f"{Path(sys.executable).parent}:{own['PATH']}", "IMAGE": node.muster_image}


def run(node: Description, name: str, *, timeout_s: float) -> str:
    """What the block prints. `Refused` when one of its commands fails."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", blocks()[name]], cwd=paths.ROOT, env=environment(node), capture_output=True,
        text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Refused(f"README block {name}", done.returncode, done.stdout, done.stderr)
    return done.stdout


def watch(node: Description, name: str, *, until: str, timeout_s: float) -> list[str]:
    """Lines that a block which never ends prints, up to the first one that matches `until`."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {blocks()[name]}"], cwd=paths.ROOT, env=environment(node), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    deadline, text = time.monotonic() + timeout_s, ""
    try:
        while not re.search(until, text, re.MULTILINE):
            assert time.monotonic() < deadline, f"nothing like {until!r} within {timeout_s:.0f} s:\n{text}"
            text += (process.stdout.read() or b"").decode()
            time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return text.splitlines()
