"""What the image is built of: each lock is what pyproject.toml asks for, exact, by hash, and from no named index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.supply.__main__ import LOCKS, REQUIREMENTS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"([a-z0-9.-]+)==(\S+)(?: ; ([^\\\n]+?))?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")
OURS = "muster (pyproject.toml)"


def wanted(extras: tuple[str, ...]) -> list[Requirement]:
    optional = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *(one for extra in extras for one in optional[extra])]
    return [Requirement(each) for each in named]


def pinned(text: str) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for name, version, _, _ in PIN.findall(text):
        found.setdefault(name, []).append(Version(version))
    return found


def faults(text: str, requirements: list[Requirement]) -> list[str]:
    """What is wrong with a lock."""
    left = re.sub(r"(?m)^ +#.*\n", "", PIN.sub("", text))
    found = [f"not a pin with hashes: {line}" for line in left.splitlines()]
    found += [f"{word} in a lock" for word in ("://", "--index", "--extra", "--find", "--trusted") if word in text]
    pins = pinned(text)
    for each in requirements:
        versions = pins.get(canonicalize_name(each.name), [])
        if not versions:
            found.append(f"{each} is not locked")
        wrong = [version for version in versions if version not in each.specifier]
        found += [f"{each.name}=={version} is locked, and {each} is wanted" for version in wrong]
    return found


def asked_for_by_us(text: str) -> set[str]:
    """The pins whose annotation names us."""
    blocks = re.split(r"\n(?=[a-z0-9])", text)
    return {block.partition("==")[0] for block in blocks if OURS in block}


@pytest.mark.parametrize("name", LOCKS)
def test_each_lock_is_what_is_asked_for(name: str) -> None:
    text, asked = (REQUIREMENTS / f"{name}.txt").read_text(), wanted(LOCKS[name])
    assert faults(text, asked) == [], "run `make lock`"
    assert asked_for_by_us(text) == {canonicalize_name(each.name) for each in asked}, "run `make lock`"


def test_the_demos_image_has_the_versions_of_the_other() -> None:
    image, demo = (pinned((REQUIREMENTS / f"{name}.txt").read_text()) for name in ("image", "demo"))
    assert image.items() <= demo.items()


def test_every_lock_is_known() -> None:
    assert {path.stem for path in REQUIREMENTS.iterdir()} == set(LOCKS)


def test_the_image_is_built_by_hash() -> None:
    file = (ROOT / "operator/Dockerfile").read_text()
    assert "--require-hashes --no-deps --requirement /tmp/wheels/${LOCK}.txt" in file
    assert len(re.findall(r"pip --python \S+ install", file)) == 2
    assert "--no-deps --no-index \\\n      /tmp/wheels/muster-*.whl" in file, "our own wheel brings nobody along"


GOOD = (
    "rich==15.0.0 \\\n    --hash=sha256:" + "a" * 64 + "\n    # via\n    #   muster (pyproject.toml)\n    #   typer\n"
)
RICH = [Requirement("rich>=13.9,<16")]


def test_a_good_lock_has_no_fault() -> None:
    assert faults(GOOD, RICH) == []


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.replace("15.0.0", "16.0.0"),
        GOOD.replace("rich", "poor"),
        GOOD.replace(" \\\n    --hash=sha256:" + "a" * 64, ""),
        GOOD.replace("==", ">="),
        "--find-links wheels\n" + GOOD,
        GOOD + "left @ file:///left.whl\n",
    ],
)
def test_each_fault_of_a_lock_is_seen(bad: str) -> None:
    assert faults(bad, RICH)
