"""The root folder of a node: Debian with systemd, containerd and runc, then our programs, files and images.

Of Kubernetes there is the cluster's program, kubeadm, and one image for all of its own pods (`parts`). The files below
`e2e/kind/root` lie in a node where they lie there.
"""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from e2e.kind import parts
from e2e.kind.programs import Programs
from e2e.node import image_base, paths
from e2e.node.build import Tools
from e2e.node.errors import Unavailable
from e2e.node.images import Image

FILES = paths.ROOT / "e2e" / "kind" / "root"
MAKE_TIMEOUT_S = 600.0
DEBIAN = (
    "systemd", "systemd-sysv", "dbus", "containerd", "runc", "containernetworking-plugins", "iptables", "conntrack",
    "socat", "ethtool", "iproute2", "kmod", "procps", "mount", "util-linux",
)  # fmt: skip
MASKED = ("systemd-udevd.service", "systemd-logind.service", "getty.target", "console-getty.service")
DEFAULT_MIRROR = "http://deb.debian.org/debian"


def make(root: Path, tools: Tools, programs: Programs, pause: Image) -> None:
    """All of it in the new folder `root`. `Unavailable` where Debian's archive cannot be asked."""
    _debian(root)
    _furnish(root, tools, programs, pause)


def ingredients(tools: Tools, programs: Programs) -> bytes:
    """What a root folder is a function of: versions of packages, programs, and our files and code."""
    lines = [tools.folder.name, programs.kubeadm.parent.name, *image_base.packages(DEBIAN)]
    lines += image_base.packages(parts.DEBIAN)
    found = "\n".join(lines).encode()
    for source in (Path(__file__), Path(parts.__file__)):
        found += source.read_bytes()
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            found += f"{path.relative_to(FILES)} {path.stat().st_mode & 0o111}\n".encode() + path.read_bytes()
    return found


def _debian(root: Path) -> None:
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME")
    if suite is None:
        raise Unavailable("this machine's /etc/os-release names no release of Debian to make a node from")
    mirror = os.environ.get("MUSTER_DEBIAN_MIRROR", DEFAULT_MIRROR)
    log = root.parent / "debootstrap.log"
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(DEBIAN)}", suite, str(root), mirror]
    with log.open("wb") as out:
        done = subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, timeout=MAKE_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Unavailable(f"debootstrap of {suite} from {mirror} failed: {log.read_text()[-500:]}")
    for folder in (*image_base.DROPPED, "var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / folder, ignore_errors=True)


def _furnish(root: Path, tools: Tools, programs: Programs, pause: Image) -> None:
    """Ours into Debian's root: files, programs, images, and what systemd starts."""
    shutil.copytree(FILES, root, dirs_exist_ok=True)
    images = root / "kind" / "images"
    images.mkdir(parents=True)
    (root / "kind" / "version").write_text(tools.kubernetes_version)
    parts.write(images / "parts.tar", tools)
    shutil.copy2(pause.archive, images / "pause.tar")
    asked = parts.names(programs.kubeadm, tools.kubernetes_version)
    (images / "names").write_text("".join(f"{ours} {theirs}\n" for ours, theirs in asked))
    parts.place(tools, root / "usr" / "bin")
    shutil.copy2(programs.kubeadm, root / "usr" / "bin" / "kubeadm")
    (root / "opt" / "cni").mkdir(parents=True)
    (root / "opt" / "cni" / "bin").symlink_to("/usr/lib/cni")  # where the published image has them
    (root / "etc" / "machine-id").unlink(missing_ok=True)
    units = ("containerd.service", "kubelet.service", "muster-routes.service")
    _run("chroot", str(root), "systemctl", "--quiet", "enable", *units)
    _run("chroot", str(root), "systemctl", "--quiet", "set-default", "multi-user.target")
    _run("chroot", str(root), "systemctl", "--quiet", "mask", *MASKED)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Unavailable(f"`{' '.join(argv[:3])} …` failed: {done.stderr.strip()[-500:]}")
