"""The pure parts of the machinery: what it reads of a machine, and that images are a function of their content."""

import json
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from e2e.node import archive, build, cgroups, distribution, image_base

HYBRID_MOUNTS = """\
30 24 0:26 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""
HYBRID_OWN = """\
4:memory:/docker/abc/inner
3:cpu,cpuacct:/docker/abc
2:name=systemd:/
1:freezer:/
0::/docker/abc
"""
UNIFIED_MOUNTS = "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


def test_a_hybrid_machine_has_its_first_version_hierarchies() -> None:
    found = {each.controllers: each for each in cgroups.parse(HYBRID_MOUNTS, HYBRID_OWN)}
    assert set(found) == {"memory", "cpu,cpuacct", "name=systemd"}, "freezer is not mounted, unified has no controllers"
    assert {each.version for each in found.values()} == {1}


def test_a_group_lies_below_the_group_of_the_caller() -> None:
    found = {each.controllers: each.parent for each in cgroups.parse(HYBRID_MOUNTS, HYBRID_OWN)}
    assert found["memory"] == PurePosixPath("/sys/fs/cgroup/memory/inner"), "the mount shows /docker/abc as its root"
    assert found["cpu,cpuacct"] == PurePosixPath("/sys/fs/cgroup/cpu,cpuacct")


def test_a_mount_from_another_namespace_is_used_at_its_root() -> None:
    own = "4:memory:/\n"
    (found,) = cgroups.parse(HYBRID_MOUNTS, own)
    assert found.parent == PurePosixPath("/sys/fs/cgroup/memory")


def test_a_unified_machine_has_one_hierarchy() -> None:
    (found,) = cgroups.parse(UNIFIED_MOUNTS, "0::/user.slice/session-2.scope\n")
    assert (found.version, found.parent) == (2, PurePosixPath("/sys/fs/cgroup"))


def test_a_machine_without_cgroups_has_none() -> None:
    assert cgroups.parse("30 24 0:26 / /proc rw - proc proc rw\n", "0::/\n") == ()


DEPENDS = """\
python3.11-minimal
  PreDepends: libc6
 |Depends: debconf
  Depends: <debconf-2.0>
    cdebconf
 |Depends: first-choice
  Depends: second-choice
libc6
  Depends: libgcc-s1
debconf
  Depends: perl-base
libgcc-s1
  Depends: libc6
first-choice
second-choice
"""


def test_the_base_follows_first_alternatives_and_no_installers() -> None:
    found = image_base.closure(DEPENDS, ["python3.11-minimal"])
    assert found == ["first-choice", "libc6", "libgcc-s1", "python3.11-minimal"]


def a_root(folder: Path, order: list[str]) -> Path:
    for name in order:
        path = folder / "opt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


CONFIG = archive.Config(entrypoint=("x",), user="10001:10001", environment=("A=b",))


def test_an_image_is_the_same_bytes_whenever_it_is_made(tmp_path: Path) -> None:
    one = archive.layer(a_root(tmp_path / "one", ["b", "a"]))
    two = archive.layer(a_root(tmp_path / "two", ["a", "b"]))
    archive.write(tmp_path / "one.tar", "muster.test/x:1", [one], CONFIG)
    archive.write(tmp_path / "two.tar", "muster.test/x:1", [two], CONFIG)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_an_image_changes_with_its_content(tmp_path: Path) -> None:
    one = archive.layer(a_root(tmp_path / "one", ["a"]))
    two = archive.layer(a_root(tmp_path / "two", ["b"]))
    assert one.diff_id != two.diff_id


def test_an_archive_says_what_runs(tmp_path: Path) -> None:
    packed = archive.layer(a_root(tmp_path / "root", ["a"]))
    archive.write(tmp_path / "out.tar", "muster.test/x:1", [packed], CONFIG)
    with tarfile.open(tmp_path / "out.tar") as tar:

        def blob(digest: str) -> bytes:
            member = tar.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert member is not None
            return member.read()

        index = tar.extractfile("index.json")
        assert index is not None
        (entry,) = json.load(index)["manifests"]
        manifest = json.loads(blob(entry["digest"]))
        config = json.loads(blob(manifest["config"]["digest"]))
    assert entry["annotations"]["io.containerd.image.name"] == "muster.test/x:1"
    assert config["config"]["User"] == "10001:10001"
    assert config["config"]["Entrypoint"] == ["x"]
    assert config["rootfs"]["diff_ids"] == [packed.diff_id]


def test_the_programs_say_their_release() -> None:
    go_mod = "require (\n\thelm.sh/helm/v4 v4.3.1\n\tk8s.io/kubernetes v1.37.0\n)\n"
    assert build.kubernetes_version(go_mod) == "v1.37.0"
    flags = build.link_flags("v1.37.0", go_mod)
    assert "version.gitVersion=v1.37.0 " in flags
    assert "version.gitMinor=37 " in flags
    assert flags.endswith("version.version=v4.3.1")


def test_another_compiler_is_another_build() -> None:
    assert build.key("go1.26.8", "") != build.key("go1.26.9", "") != build.key("go1.26.9", "-s")


def test_a_lock_is_read_as_of_the_images_python() -> None:
    text = (
        "aiohttp==3.14.5 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via muster (pyproject.toml)\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:cc\n"
        "numpy==2.4.6 ; python_full_version < '3.12' --hash=sha256:dd  # via muster\n"
        "numpy==2.5.5 ; python_full_version >= '3.12' --hash=sha256:ee\n"
    )
    old, new = (distribution.pins(text, distribution.Target(python=version)) for version in ("3.11", "3.13"))
    assert [pin.line() for pin in old] == [
        "aiohttp==3.14.5 --hash=sha256:aa --hash=sha256:bb", "numpy==2.4.6 --hash=sha256:dd",
    ]  # fmt: skip
    assert [pin.exact for pin in new] == ["aiohttp==3.14.5", "numpy==2.5.5"]


def test_a_wheel_that_was_made_here_is_of_the_locked_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the version before is kept beside it, and of another package whose name begins alike."""
    monkeypatch.setattr(distribution, "WHEELS", tmp_path)
    for name in ("pyspark-4.2.0", "pyspark-4.3.0", "pyspark-4.3.0.1", "pyspark_client-4.3.0"):
        (tmp_path / f"{name}-py2.py3-none-any.whl").touch()
    pin = distribution.Pin(exact="pyspark==4.3.0", hashes=())
    assert [path.name for path in pin.made()] == ["pyspark-4.3.0-py2.py3-none-any.whl"]
    assert distribution.Pin(exact="pyspark==4.4.0", hashes=()).made() == []
