"""The Dockerfile that ships and `make images` make the same image.

The very Dockerfile is built by buildah (no daemon) on a base of ours that has what `python:slim` has for it: Python,
pip, a shell. Compared with the image that all other tests run: user, entry point, environment, and every file of our
virtual environment. What only a package manager writes (RECORD, activate scripts) is left out.
"""

import gzip
import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.node import archive, build, distribution, image_base, images, packages, paths

pytestmark = pytest.mark.timeout(900)

BASE = "muster.test/base:1"
HOME = f"{distribution.HOME}/"
WRITTEN_BY_INSTALLERS = re.compile(r"(\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)|/pyvenv\.cfg)$")
LEFT_OUT = re.compile(r"^opt/muster/(bin/(activate.*|Activate.*|python.*)|lib64.*|include.*)$")
BUILD_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """An image: its configuration and the content of each file of /opt/muster that is ours."""

    config: dict[str, Any]
    files: dict[str, bytes]


def unpack(path: Path) -> Unpacked:
    files: dict[str, bytes] = {}
    with tarfile.open(path) as tar:

        def read(name: str) -> bytes:
            member = tar.extractfile(name)
            assert member is not None
            return member.read()

        def blob(digest: str) -> bytes:
            return read(f"blobs/{digest.replace(':', '/')}")

        (entry,) = json.loads(read("index.json"))["manifests"]
        manifest = json.loads(blob(entry["digest"]))
        config = json.loads(blob(manifest["config"]["digest"]))["config"]
        for each in manifest["layers"]:
            packed = blob(each["digest"])
            plain = gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed
            files |= ours(plain)
    return Unpacked(config=config, files=files)


def ours(layer: bytes) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        for member in tar:
            name = member.name.removeprefix("./").removeprefix("/")
            if not member.isfile() or not name.startswith(HOME) or LEFT_OUT.match(name):
                continue
            if WRITTEN_BY_INSTALLERS.search(name):
                continue
            content = tar.extractfile(member)
            assert content is not None
            found[name] = content.read()
    return found


@pytest.fixture
def buildah(outside_a_sandbox: None, tmp_path: Path) -> Iterator[list[str]]:
    """A buildah whose storage is the test's own."""
    packages.ensure({"buildah": "buildah"})
    yield ["buildah", f"--root={tmp_path}/storage", f"--runroot={tmp_path}/run", "--storage-driver=vfs"]
    shutil.rmtree(tmp_path / "storage", ignore_errors=True)


def context(folder: Path, target: distribution.Target) -> Path:
    """What `docker build` is given: our wheel with all it needs."""
    folder.mkdir()
    (folder / "requirements").mkdir()
    for lock in distribution.LOCKS.glob("*.txt"):
        shutil.copy(lock, folder / "requirements")
    needs = distribution.hashed(distribution.locked(target, "image"), folder / "requirements")
    distribution.pip("download", "--no-deps", f"--dest={folder}", *target.switches(), *needs)
    distribution.wheel(folder)
    return folder


def base(folder: Path, target: distribution.Target) -> Path:
    """An archive of the image BASE: our own base with a shell and pip."""
    roots = [*image_base.roots(target.python), "dash", "coreutils", "sed", "grep"]
    root = folder / "root"
    image_base.unpack(image_base.packages(roots), target.python, root)
    (root / "bin/sh").unlink(missing_ok=True)
    (root / "bin/sh").symlink_to("/bin/dash")
    distribution.pip("install", f"--target={root}/usr/lib/python3/dist-packages", "pip")
    config = archive.Config(entrypoint=(), user="", environment=("PATH=/usr/local/bin:/usr/bin:/bin",))
    archive.write(folder / "base.tar", BASE, [archive.layer(root)], config)
    return folder / "base.tar"


def test_the_dockerfile_makes_the_image_that_is_tested(buildah: list[str], tmp_path: Path) -> None:
    tested = images.build(build.build())
    target = distribution.Target(python=image_base.python_version())
    out = tmp_path / "shipped.tar"

    def run(*words: str) -> str:
        done = subprocess.run([*buildah, *words], capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
        assert done.returncode == 0, f"buildah {words[0]}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
        return done.stdout.strip()

    pulled = run("pull", "--quiet", f"oci-archive:{base(tmp_path / 'base', target)}")
    folder = context(tmp_path / "context", target)
    built = run(
        "bud", "--quiet", "--isolation=chroot", f"--build-arg=BASE={pulled}", "--build-arg=PIP_OPTIONS=--no-index",
        f"--file={paths.ROOT}/operator/Dockerfile", str(folder),
    )  # fmt: skip
    run("push", "--quiet", built.splitlines()[-1], f"oci-archive:{out}")
    shipped, ours_ = unpack(out), unpack(tested.muster.archive)
    for name in ("Entrypoint", "User", "WorkingDir"):
        assert shipped.config[name] == ours_.config[name], name
    assert set(ours_.config["Env"]) <= set(shipped.config["Env"])
    assert len(ours_.files) > 1_000, "the comparison has something to compare"
    assert sorted(shipped.files) == sorted(ours_.files)
    bytecode = [name for name in shipped.files if name.endswith(".pyc")]
    modules = {re.sub(r"__pycache__/([^/]+)\.cpython-\d+\.pyc$", r"\1.py", name) for name in bytecode}
    assert modules == {name for name in shipped.files if name.endswith(".py")}, "no pod compiles anything"
    scripts = f"{HOME}bin/"
    texts = [name for name in ours_.files if name.endswith(".py") or name.startswith(scripts)]
    assert f"{scripts}muster" in texts
    assert [name for name in texts if shipped.files[name] != ours_.files[name]] == []
