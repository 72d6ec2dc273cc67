"""The load generator: built once per version of its source, run as a process, its JSON output parsed.

`bench/loadgen` is Go with only its standard library; the binary is in `.cache/loadgen/<hash of source and compiler>/`.
A run with failed requests is not a measurement: it raises RunFailed.
"""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from bench.errors import BenchError, RunFailed

SOURCE = Path(__file__).parent / "loadgen"
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "loadgen"
BUILD_TIMEOUT_S = 300
RUN_TIMEOUT_S = 600
NO_GO = (
    "The load generator needs Go 1.21 or newer on PATH: install it (Debian: apt-get install golang-go) and try again."
)


def binary() -> Path:
    """Path of the built generator. Raises BenchError without Go, or if the build fails."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise BenchError(NO_GO)
    version = subprocess.run([go, "version"], capture_output=True, check=True, timeout=BUILD_TIMEOUT_S).stdout
    digest = hashlib.sha256(version)
    for source in sorted([*SOURCE.glob("*.go"), SOURCE / "go.mod"]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    path = CACHE / digest.hexdigest()[:16] / "loadgen"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        built = subprocess.run(
            [go, "build", "-o", str(partial), "."], cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S,
            check=False,
        )  # fmt: skip
        if built.returncode:
            raise BenchError(f"the load generator does not build:\n{built.stderr}")
        partial.rename(path)
    return path


def arguments(command: str, options: dict[str, Any]) -> list[str]:
    """`{"batch_records": 10, "echo": True}` -> `--batch-records=10 --echo=true`."""
    spelled = []
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        spelled.append(f"--{name.replace('_', '-')}={text}")
    return [command, *spelled]


def run(command: str, **options: Any) -> dict[str, Any]:
    """One run; returns its JSON. Raises RunFailed if it failed or a request was refused or not answered."""
    try:
        done = subprocess.run(
            [str(binary()), *arguments(command, options)],
            capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{command}: not finished after {RUN_TIMEOUT_S} s") from None
    if done.returncode:
        raise RunFailed(f"{command}: {done.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    for part in (result, result.get("bystanders") or {}):
        if part.get("errors") or part.get("unanswered"):
            raise RunFailed(f"{command}: errors by code {part['errors']}, {part['unanswered']} unanswered")
    return result


def start(command: str, **options: Any) -> subprocess.Popen[str]:
    """Start a generator process that runs until its standard input closes; returns after its `ready`."""
    process = subprocess.Popen(
        [str(binary()), *arguments(command, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        process.kill()
        process.wait()
        raise RunFailed(f"{command} did not become ready")
    return process


def stop(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.terminate()
    process.wait()
