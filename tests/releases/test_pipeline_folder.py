"""Tables of an earlier release's pipeline are followed on by today's; those of 0.1 are migrated first."""

from pathlib import Path
from typing import Any

import pytest
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.live import LiveInput
from muster_pipeline.transforms.settings import FoldSettings

from tests.cluster import MusterCluster
from tests.releases import oracle, tables
from tests.releases.life import Life
from tests.releases.oracle import Oracle
from tests.releases.release import FIRST, Release
from tests.releases.running import start

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NO_EFFECT = {"txn_superseded", "txn_replaced", "txn_aborted", "txn_removed", "txn_open"}


def live_further(life: Life, turn: int) -> None:
    """What the tables must have afterwards: commits, a removed one, a group that is formed."""
    for n in range(6):
        life.commit(f"turn-{n}", "events", {0: 100 * turn + n, 1: turn}, f"turn {turn}")
    life.delete_offset("turn-0", "events", 1)
    for member in life.new_group(f"formed-{turn}", 2):
        member.drop_connection()


def last_commits(root: Path) -> dict[tuple[str, str, int], tuple[Any, str]]:
    """(group, topic, partition) → (offset, metadata) of the last commit that was not removed."""
    found: dict[tuple[str, str, int], tuple[Any, str]] = {}
    for row in sorted(
        store.read("commits", root).to_pylist(), key=lambda row: (row["log_partition"], row["log_offset"])
    ):
        if row["outcome"] in NO_EFFECT:
            continue
        key = (row["group_id"], row["topic"], row["partition"])
        found[key] = (row["committed_offset"], oracle.kept(row["metadata"] or ""))
    return {key: value for key, value in found.items() if value[0] is not None}


def acknowledged(known: Oracle) -> dict[tuple[str, str, int], tuple[Any, str]]:
    return {
        (group, topic, int(partition)): (offset, metadata)
        for group, topics in known["offsets"].items()
        for topic, partitions in topics.items()
        for partition, (offset, metadata) in partitions.items()
    }


def test_a_folder_of_tables_goes_on_with_todays_release(
    cluster: MusterCluster, old: Release, known: Oracle, tmp_path: Path
) -> None:
    root = tables.unpack(old, tmp_path)
    if old.commit == FIRST:
        tables.pipeline(None, "migrate", "--tables", str(root))
    assert last_commits(root) == acknowledged(known)
    assert store.read("log_end_offsets", root).num_rows > 0
    start(cluster, None)
    life = Life(cluster.bootstrap, known)
    for turn in (1, 2):
        live_further(life, turn)
        assert tables.go_on(cluster.bootstrap, root) > 0
        assert last_commits(root) == acknowledged(known)
    batch = tmp_path / "batch"
    build(None, LiveInput.whole(cluster.bootstrap, tables.CLUSTER), batch, FoldSettings(cluster=tables.CLUSTER),
          log_ends=store.read("log_end_offsets", root))  # fmt: skip
    assert store.read("records", root).equals(store.read("records", batch))
    tables.pipeline(None, "verify", "--tables", str(root), "--stream-of", str(batch))
    page = tmp_path / "report.html"
    tables.pipeline(None, "report", "--tables", str(root), "--html", str(page))
    assert "turn-5" in page.read_text()
