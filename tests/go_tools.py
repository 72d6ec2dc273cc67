"""The Go programs in `tests/clients/go_tools` and `tests/clients/go_librdkafka`, built once per version of their
sources into `.cache/go-tools/`. The second has C within it, and needs a C compiler. `tests/pipeline/store/versitygw`
has no source: its module file pins the one of a server that others wrote.

Without Go, or without its modules, a test that asks is skipped and named, or fails where MUSTER_REQUIRE says so.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.java_tools import CACHE
from tests.machine_parts import give_up

SOURCE = Path(__file__).parent / "clients" / "go_tools"
LIBRDKAFKA = SOURCE.with_name("go_librdkafka")
BUILD_TIMEOUT_S = 900


def built(program: Path = SOURCE, package: str = ".") -> Path:
    """The program of a folder, or of a package that its module file pins. Gives up where it cannot be built."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        give_up("go", "no go on PATH")
    assert go is not None
    digest = hashlib.sha256()
    for source in sorted(program.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    path = CACHE / "go-tools" / digest.hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    caches = {"GOCACHE": str(CACHE / "go" / "build"), "GOMODCACHE": str(CACHE / "go" / "mod")}
    environment = {**caches, **os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            partial = path.with_suffix(".partial")
            command = [go, "build", "-o", str(partial), package]
            done = subprocess.run(
                command,
                cwd=program,
                env=environment,
                capture_output=True,
                text=True,
                timeout=BUILD_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                give_up("go", f"the program does not build: {done.stderr[-500:]}")
            partial.rename(path)
    return path
