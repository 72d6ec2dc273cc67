"""The pipeline of today's or an earlier release on one folder of tables, each in a process of its own."""

import subprocess
import sys
import tarfile
from pathlib import Path

from tests.cluster import MusterCluster
from tests.releases import folder, packed
from tests.releases.life import REPLICAS
from tests.releases.release import Release
from tests.releases.running import start

CLUSTER = "kept"
PACKED = "pipeline.tar.xz"
SECONDS_MAX = 300
ROUND = """
import sys
from muster_pipeline.job.build import build
from muster_pipeline.job.live import LiveInput
from muster_pipeline.transforms.settings import FoldSettings

bootstrap, tables, cluster = sys.argv[1:]
source = LiveInput.onward(bootstrap, cluster, tables, {}, every=False)
build(None, source, tables, FoldSettings(cluster=cluster))
print(source.new())
"""
"""A round of `muster pipeline stream` without Spark: the bytes are the same (pipeline/store/test_build.py)."""


def make(release: Release, scratch: Path, target: Path) -> None:
    """That release's pipeline follows that release's cluster on the kept folders, with Spark, as a person starts it."""
    cluster = MusterCluster(
        scratch / "cluster", replicas=REPLICAS, partitions=folder.PARTITIONS, settings=folder.opened(release)
    )
    folder.unpack(release, cluster.folder)
    tables = scratch / "tables"
    try:
        start(cluster, release)
        arguments = ["stream", "--once", "--bootstrap", cluster.bootstrap, "--cluster", CLUSTER, "--heads", "live"]
        pipeline(release, *arguments, "--tables", str(tables))
    finally:
        cluster.close()
    with tarfile.open(target / PACKED, "w:xz") as archive:
        archive.add(tables, "tables", filter=folder.nobodys)


def unpack(release: Release, scratch: Path) -> Path:
    packed.unpack(release.wheel.parent / PACKED, scratch)
    return scratch / "tables"


def pipeline(release: Release | None, *arguments: str) -> None:
    """`muster pipeline …` of that release, None: today's; it must end with 0."""
    _run([sys.executable, "-m", "muster_coordinator.cli.main", "pipeline", *arguments], release)


def go_on(bootstrap: str, tables: Path) -> int:
    """One round of today's stream; how many offsets it read."""
    return int(_run([sys.executable, "-c", ROUND, bootstrap, str(tables), CLUSTER], None))


def _run(command: list[str], release: Release | None) -> str:
    done = subprocess.run(
        command,
        env=None if release is None else release.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{command[3:]} ended with {done.returncode}: {done.stderr[-3000:]}"
    return done.stdout
