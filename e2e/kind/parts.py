"""One image for every part of the control plane, under each of the names that kubeadm asks for.

Our program acts as the part whose name it is called by, so etcd, API server, proxy and the others share one archive;
kube-proxy finds Debian's iptables beside it. Which names kubeadm asks for, kubeadm says.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.node import archive, image_base, kubelet
from e2e.node.archive import Config
from e2e.node.build import Tools
from e2e.node.errors import Broken

NAME = "muster.test/parts:1"
DEBIAN = ("iptables", "conntrack")
IPTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
IPTABLES_PROGRAM = "xtables-nft-multi"
CONFIG = Config(
    entrypoint=("/usr/local/bin/coredns",),  # the only part whose pod names no command
    user="0:0",
    environment=("PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",),
)
LIST_TIMEOUT_S = 30.0


def write(out: Path, tools: Tools) -> None:
    """The archive `out` of image NAME."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        image_base.extract(image_base.packages(DEBIAN), root)
        for name in IPTABLES:  # links that a package's own script would make
            (root / "usr" / "sbin" / name).unlink(missing_ok=True)
            (root / "usr" / "sbin" / name).symlink_to(IPTABLES_PROGRAM)
        programs = root / "usr" / "local" / "bin"
        programs.mkdir(parents=True)
        place(tools, programs)
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        archive.write(out, NAME, [archive.layer(root)], CONFIG)


def place(tools: Tools, folder: Path) -> None:
    """The cluster's program in `folder`, with a link for each part."""
    for program in sorted(tools.folder.iterdir()):
        shutil.copy2(program, folder / program.name, follow_symlinks=False)


def names(kubeadm: Path, version: str) -> list[tuple[str, str]]:
    """(image of ours, name that kubeadm's manifests have for it), for release `version`."""
    argv = [str(kubeadm), "config", "images", "list", f"--kubernetes-version={version}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIST_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Broken(f"kubeadm does not tell its images: {done.stderr.strip()[-500:]}")
    return [(kubelet.PAUSE_IMAGE if "/pause:" in name else NAME, name) for name in done.stdout.split()]
