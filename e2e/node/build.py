"""Builds the cluster's programs from Go modules, once per content.

The result in `~/.cache/muster/k8s/<key>/` is named by a hash of the module files, our Go files, the compiler's version
and the link flags: the same key is the same program, so a second call does nothing, in whichever checkout. Go's own
caches live in `.cache/go/` unless GOCACHE or GOMODCACHE say otherwise; with them a changed file costs one link.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.node import paths
from e2e.node.errors import Broken, Unavailable

BUILD_TIMEOUT_S = 3_000.0
KEY_CHARS = 12
PROGRAM = "cluster"
PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The built programs: `folder` holds a link for each part (etcd, kubectl, …) and the static `pause`."""

    folder: Path
    kubernetes_version: str

    def path(self, name: str) -> Path:
        return self.folder / name


def build() -> Tools:
    """The programs, building them when the key is new (6 to 10 minutes with empty caches, under a second after)."""
    version = kubernetes_version((paths.CLUSTER_SOURCE / "go.mod").read_text())
    flags = link_flags(version, (paths.CLUSTER_SOURCE / "go.mod").read_text())
    folder = paths.K8S / key(compiler(), flags)
    paths.K8S.mkdir(parents=True, exist_ok=True)
    with (paths.K8S / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once: one builds, the other waits and finds it
        if not (folder / PROGRAM).exists():
            _build_into(folder, flags)
    return Tools(folder=folder, kubernetes_version=version)


def compiler() -> str:
    """What Go says of itself, like "go version go1.26.8 linux/amd64"."""
    return _go("version").strip()


def key(made_by: str, flags: str, source: Path = paths.CLUSTER_SOURCE) -> str:
    """The name of what the Go files in `source` build to with compiler `made_by`."""
    digest = hashlib.sha256(f"{made_by}\n{flags}\n".encode())
    for path in sorted([source / "go.mod", source / "go.sum", *source.rglob("*.go")]):
        digest.update(f"{path.relative_to(source)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:KEY_CHARS]


def kubernetes_version(go_mod: str) -> str:
    """The release of Kubernetes in `go_mod`, like "v1.37.0"."""
    return _module_version(go_mod, "k8s.io/kubernetes")


def _module_version(go_mod: str, module: str) -> str:
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise Broken(f"e2e/cluster/go.mod names no version of {module}")
    return found[1]


def link_flags(version: str, go_mod: str) -> str:
    """Flags that make the parts report their release; without them a chart's `kubeVersion` refuses the server."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamp = "k8s.io/component-base/version"
    values = {
        f"{stamp}.gitVersion": version,
        f"{stamp}.gitMajor": major,
        f"{stamp}.gitMinor": minor,
        f"{stamp}.gitTreeState": "clean",
        f"{stamp}.gitCommit": "unknown",
        f"{stamp}.buildDate": "1970-01-01T00:00:00Z",
        "helm.sh/helm/v4/internal/version.version": _module_version(go_mod, "helm.sh/helm/v4"),
    }
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in values.items())


def go_environment() -> dict[str, str]:
    """The environment of every Go command here. -trimpath keeps the build cache valid when folders move.

    A compiler that collects no garbage below 3 GiB, and writes no DWARF that the linker would drop, takes three
    quarters of the processor time.
    """
    go = paths.CACHE / "go"
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -trimpath -modcacherw -gcflags=all=-dwarf=false",
        "GOGC": "off",
        "GOMEMLIMIT": "3GiB",
        "GOCACHE": os.environ.get("GOCACHE", str(go / "build")),
        "GOMODCACHE": os.environ.get("GOMODCACHE", str(go / "mod")),
    }


def _go(*words: str) -> str:
    if shutil.which("go") is None:
        raise Unavailable("no `go` on PATH: building the cluster's programs needs Go 1.26 or newer")
    done = subprocess.run(["go", *words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Unavailable(f"`go {' '.join(words)}` failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def module_folder(module: str, source: Path) -> Path:
    """Where Go keeps the files of `module`, in the version that the module file in `source` pins and sums."""
    argv = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(
        argv, cwd=source, env=go_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0 or not done.stdout.strip():
        raise Unavailable(f"`{' '.join(argv)}` in {source.name} failed: {done.stderr.strip()[-300:]}")
    return Path(done.stdout.strip())


def _build_into(folder: Path, flags: str) -> None:
    print(
        "building Kubernetes from Go modules (once; 6 to 10 minutes with empty caches) ...", file=sys.stderr, flush=True
    )
    scratch = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    compile_into(flags, scratch / PROGRAM, ".")
    compile_into("-s -w", scratch / PAUSE, "./pause")
    parts = subprocess.run([scratch / PROGRAM, "--parts"], capture_output=True, text=True, timeout=60, check=True)
    for part in parts.stdout.split():
        (scratch / part).symlink_to(PROGRAM)
    scratch.rename(folder)


def once(program: Path, make: Callable[[Path], None]) -> None:
    """`program` in a folder of its own: `make` writes it, and what belongs beside it, unless it is there."""
    folder = program.parent
    paths.K8S.mkdir(parents=True, exist_ok=True)
    with (paths.K8S / f"lock-{program.name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return
        print(f"building {program.name} from Go modules (once) ...", file=sys.stderr, flush=True)
        scratch = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        make(scratch / program.name)
        scratch.rename(folder)


def compile_into(flags: str, out: Path, package: str, *switches: str, source: Path = paths.CLUSTER_SOURCE) -> None:
    """`go build` of `package`, as the module file in `source` pins it, to `out`. `Unavailable` with Go's own words."""
    argv = ["nice", "-n", "10", "go", "build", *switches, "-ldflags", flags, "-o", str(out), package]
    done = subprocess.run(
        argv,
        cwd=source,
        env=go_environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"`go build {package}` in {source.name} failed: {done.stderr.strip()[-1000:]}")
