"""cert-manager from Go modules, built once per content: its controller as a program, and its definitions.

The program is `e2e/certmanager`, which starts the project's own controllers. The definitions are files of the same
module, in the version that the module file pins; nothing of them is kept in this repository.
"""

import fcntl
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.node import build, paths

MODULE = "github.com/cert-manager/cert-manager"
PROGRAM = "cert-manager"
DEFINITIONS = "definitions"
FLAGS = "-s -w"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertManager:
    program: Path
    definitions: tuple[Path, ...]
    """A file for each."""


def cert_manager() -> CertManager:
    """Building it when the key is new: a minute or two beside the caches of Kubernetes. `Unavailable` without Go."""
    folder = paths.CERT_MANAGER / build.key(build.compiler(), FLAGS, paths.CERT_MANAGER_SOURCE)
    paths.CERT_MANAGER.mkdir(parents=True, exist_ok=True)
    with (paths.CERT_MANAGER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build_into(folder)
    return CertManager(program=folder / PROGRAM, definitions=tuple(sorted((folder / DEFINITIONS).glob("*.yaml"))))


def _build_into(folder: Path) -> None:
    print("building cert-manager from Go modules (once) ...", file=sys.stderr, flush=True)
    scratch = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / DEFINITIONS).mkdir(parents=True)
    build.compile_into(FLAGS, scratch / PROGRAM, ".", source=paths.CERT_MANAGER_SOURCE)
    files = build.module_folder(MODULE, paths.CERT_MANAGER_SOURCE) / "deploy" / "crds"
    for path in files.glob("*.yaml"):
        (scratch / DEFINITIONS / path.name).write_bytes(path.read_bytes())
    scratch.rename(folder)
