"""The data folders of three replicas as a release left them when all were killed, packed and unpacked."""

import json
import tarfile
from pathlib import Path

from muster_coordinator.settings import STANDARD_AUTHORIZER

from tests.cluster import MusterCluster, wait_until
from tests.releases import packed
from tests.releases.life import REPLICAS, WITH_TRANSACTIONS, first_life
from tests.releases.oracle import Oracle, check
from tests.releases.release import Release
from tests.releases.running import form, kill

PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": "300",
    "offsets.topic.segment.bytes": "32768",
    "log.segment.bytes": "32768",
    "muster.wal.file.bytes": "262144",
    "muster.wal.max.bytes": "1048576",
    "muster.checkpoint.bytes": "16384",
    "muster.segment.flush.bytes": "16384",
    "muster.segment.flush.ms": "500",
    "muster.raft.trailing.entries": "50",
    "log.retention.check.interval.ms": "86400000",
    "offsets.retention.check.interval.ms": "86400000",
}
"""Small, so that a few hundred kilobytes have sealed segments, checkpoints, and files of the WAL that were let go of.
Nothing goes because the folder has become old."""
OPENED = {"muster.wal.max.bytes": "8388608"}
"""With what else the folders are opened later: more is written then, by two releases, while a replica is away."""
SINCE_0_2 = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "log.cleaner.backoff.ms": "1000",
    "transaction.state.log.num.partitions": "2",
    "transactional.id.expiration.ms": str(100 * 365 * 86_400_000),
}
"""What 0.1 does not know."""
PACKED, KNOWN = "cluster.tar.xz", "cluster.json"


def settings(release: Release) -> dict[str, str]:
    """Of the cluster that the release made."""
    return {**SETTINGS, **(SINCE_0_2 if release.level >= WITH_TRANSACTIONS else {})}


def opened(release: Release) -> dict[str, str]:
    """Of the cluster that is opened later, also by that release."""
    return {**settings(release), **OPENED}


def make(release: Release, scratch: Path, target: Path) -> None:
    """A cluster of that release lives its first life and is killed; its folders and the oracle go to `target`."""
    cluster = MusterCluster(scratch / "cluster", replicas=REPLICAS, partitions=PARTITIONS, settings=settings(release))
    try:
        form(cluster, release)
        known = first_life(cluster.bootstrap, lambda: _until_checkpoints(cluster.folder), release.level)
        kill(cluster)
        _pack(cluster.folder, target)
        (target / KNOWN).write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        cluster.start(fresh=False)
        check(cluster.bootstrap, known)  # what is missed later was lost later
    finally:
        cluster.close()


def _pack(folder: Path, target: Path) -> None:
    with tarfile.open(target / PACKED, "w:xz") as archive:
        for replica in range(REPLICAS):
            archive.add(folder / f"replica-{replica}" / "data", f"replica-{replica}/data", filter=nobodys)


def _until_checkpoints(folder: Path) -> None:
    """Of the controller's group and of some partitions, on each replica."""

    def made() -> bool:
        return all(
            {"0"} < {path.parent.name for path in folder.glob(f"replica-{replica}/data/checkpoints/*/*.ckpt")}
            for replica in range(REPLICAS)
        )

    wait_until("checkpoints are made", made, 30)


def nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(release: Release, folder: Path) -> Oracle:
    """The folders, as `muster dev --data` finds them, and what must be found in them."""
    source = release.wheel.parent
    packed.unpack(source / PACKED, folder)
    known: Oracle = json.loads((source / KNOWN).read_text())
    return known
