"""`python -m tests.supply lock|sbom|audit`: what `make lock`, `make sbom` and `make audit` do (docs/adr/0061).

`lock` resolves for every Python and platform at once (markers), so one file serves the image on any base; a version
that is locked stays until `--upgrade` or until pyproject.toml forbids it. `sbom` installs what is locked. `audit` is
in `audit.py`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.supply.audit import audit

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "operator/requirements"
LOCKS = {
    "image": ("coordinator", "operator", "cli", "redis"),
    "demo": ("coordinator", "operator", "cli", "redis", "demo"),
    "pipeline": ("pipeline",),
}
"""Lock file: the extras that are in it. The demo's image has the other's versions, and more."""
OLDEST_PYTHON = "3.11"


def lock(*, upgrade: bool) -> int:
    for name, extras in LOCKS.items():
        command = [
            "uv", "pip", "compile", "--quiet", "--universal", f"--python-version={OLDEST_PYTHON}", "--generate-hashes",
            "--no-header", *(f"--extra={extra}" for extra in extras), "pyproject.toml",
            f"--output-file={(REQUIREMENTS / name).relative_to(ROOT)}.txt",
        ]  # fmt: skip
        if name != "image":
            command += ["--constraints", str((REQUIREMENTS / "image.txt").relative_to(ROOT))]
        if upgrade:
            command.append("--upgrade")
        if code := _run(command):
            return code
    return 0


def sbom(name: str, out: Path) -> int:
    """Of an environment that is installed from the lock here, as its hashes allow: who needs whom, and the licences."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        python = Path(scratch) / "env/bin/python"
        steps = [
            ["uv", "venv", "--quiet", f"--python={sys.executable}", str(python.parents[1])],
            ["uv", "pip", "install", "--quiet", f"--python={python}", "--require-hashes", "--no-deps",
             f"--requirement={REQUIREMENTS / name}.txt"],
            ["cyclonedx-py", "environment", str(python), "--pyproject", str(ROOT / "pyproject.toml"),
             "--output-reproducible", "--spec-version=1.6", "--output-format=JSON", f"--output-file={out}"],
        ]  # fmt: skip
        return next((code for step in steps if (code := _run(step))), 0)


def _run(command: list[str]) -> int:
    """The tools of this Python's own environment come first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    does = parser.add_subparsers(dest="does", required=True)
    locking = does.add_parser("lock")
    locking.add_argument("--upgrade", action="store_true")
    listing = does.add_parser("sbom")
    listing.add_argument("--lock", choices=LOCKS, default="image")
    listing.add_argument("--out", type=Path, required=True)
    auditing = does.add_parser("audit")
    auditing.add_argument("--osv-url", help="of advisories as OSV serves them, in place of the package index's own")
    auditing.add_argument("locks", type=Path, nargs="*", default=[REQUIREMENTS / f"{name}.txt" for name in LOCKS])
    asked = parser.parse_args()
    match asked.does:
        case "lock":
            return lock(upgrade=asked.upgrade)
        case "sbom":
            return sbom(asked.lock, asked.out)
        case _:
            return audit(asked.locks, asked.osv_url)


if __name__ == "__main__":
    sys.exit(main())
