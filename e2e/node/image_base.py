"""The image's base: Python and what it links to, unpacked from Debian packages into a folder.

It stands in for `python:3.x-slim` where no registry is reachable: same interpreter family, no shell, no package
manager. Which packages: those Python needs by Debian's own dependencies, followed from a few roots, not through
packages that only matter to an installer.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.node import paths
from e2e.node.errors import Broken, Unavailable

TIMEOUT_S = 300.0
NOT_FOLLOWED = frozenset({"debconf", "dpkg", "install-info", "mailcap", "mime-support", "perl", "perl-base", "openssl"})
DROPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bug")
NEVER_IMPORTED = re.compile(r"/(test|idlelib|lib2to3)/")
"""Of the standard library; not compiled."""
USER = "muster:x:10001:10001:Muster:/nonexistent:/usr/sbin/nologin"
GROUP = "muster:x:10001:"


def python_version() -> str:
    """Debian's Python on this machine, like "3.11". `Unavailable` where Debian's archive cannot be asked."""
    if shutil.which("apt-cache") is None:
        raise Unavailable("building the image without a registry takes Debian's packages, and there is no apt-cache")
    shown = _run("apt-cache", "show", "--no-all-versions", "python3")
    found = re.search(r"^Version: (\d+\.\d+)\.", shown, re.MULTILINE)
    if found is None:
        raise Unavailable("apt knows no python3; run `apt-get update` as root")
    return found[1]


def roots(version: str) -> list[str]:
    return [
        f"python{version}-minimal",
        f"libpython{version}-stdlib",
        "libstdc++6",
        "ca-certificates",
        "netbase",
        "tzdata",
    ]


def closure(depends: str, wanted: Sequence[str]) -> list[str]:
    """The packages that `wanted` need, sorted, from the output of `apt-cache depends --recurse`.

    Of alternatives the first counts; virtual packages ("<name>") never do.
    """
    graph: dict[str, list[str]] = {}
    current: list[str] = []
    alternative = False
    for line in depends.splitlines():
        if not line.startswith(" "):
            current = graph.setdefault(line.strip(), [])
            alternative = False
            continue
        found = re.match(r"\s+(\|?)(?:Pre)?Depends: (\S+)", line)
        if found is None:
            continue
        if not alternative and not found[2].startswith("<"):
            current.append(found[2].partition(":")[0])
        alternative = found[1] == "|"
    seen: set[str] = set()
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name not in seen and name not in NOT_FOLLOWED:
            seen.add(name)
            todo += graph.get(name, [])
    return sorted(seen)


def packages(wanted: Sequence[str]) -> list[str]:
    """`name=version` of `wanted` and all they need: a base's identity. Kept until apt's lists change."""
    lists = Path("/var/lib/apt/lists")
    asked = json.dumps([list(wanted), lists.stat().st_mtime_ns if lists.exists() else 0])
    kept = paths.IMAGES / "locks" / f"debian-{hashlib.sha256(asked.encode()).hexdigest()[:12]}.json"
    if kept.exists():
        known: list[str] = json.loads(kept.read_text())
        return known
    found = _ask(wanted)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


def _ask(wanted: Sequence[str]) -> list[str]:
    switches = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    names = closure(_run("apt-cache", "depends", "--recurse", *switches, *wanted), wanted)
    shown = _run("apt-cache", "show", "--no-all-versions", *names)
    pairs = re.findall(r"^Package: (\S+)$.*?^Version: (\S+)$", shown, re.MULTILINE | re.DOTALL)
    return sorted(f"{name}={release}" for name, release in pairs)


def extract(wanted: Sequence[str], root: Path) -> None:
    """Download `wanted` and unpack their files into the empty folder `root`; no script of theirs runs."""
    root.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)  # apt's own user writes here
        _run("apt-get", "-o", "APT::Sandbox::User=root", "download", *wanted, cwd=scratch)
        for package in sorted(Path(scratch).glob("*.deb")):
            _run("dpkg-deb", "--extract", str(package), str(root))
    for folder in DROPPED:
        shutil.rmtree(root / folder, ignore_errors=True)


def unpack(wanted: list[str], version: str, root: Path) -> None:
    """Download `wanted` and unpack them into the empty folder `root`, as the base of our images."""
    extract(wanted, root)
    for cached in [*root.rglob("__pycache__")]:
        shutil.rmtree(cached)
    (root / "usr/bin/python3").unlink(missing_ok=True)
    (root / "usr/bin/python3").symlink_to(f"python{version}")
    if (root / "bin/dash").exists() and not (root / "bin/sh").exists():
        (root / "bin/sh").symlink_to("dash")  # which its installation would ask
    etc = root / "etc"
    (etc / "passwd").write_text(f"root:x:0:0:root:/root:/usr/sbin/nologin\n{USER}\n")
    (etc / "group").write_text(f"root:x:0:\n{GROUP}\n")
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (etc / "ssl/certs").mkdir(parents=True, exist_ok=True)
    (etc / "ssl/certs/ca-certificates.crt").write_text("".join(path.read_text() for path in certificates))
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _run(*argv: str, cwd: str | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Broken(f"{' '.join(argv[:3])} … failed: {done.stderr.strip()[-500:]}")
    return done.stdout
