"""The same for Muster's own log, a copy on every replica: classic, static and simple groups, own record types."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.sources import live
from muster_pipeline.sources.cluster import EARLIEST, LATEST, Cluster
from muster_pipeline.sources.errors import AmbiguousLog
from muster_pipeline.sources.folder import list_segments

from tests.cluster import MusterCluster, wait_until
from tests.pipeline.golden.life import ODD_NAMES, Described, Life, live_on
from tests.pipeline.golden.log_view import LogView, read

pytestmark = [pytest.mark.pipeline, pytest.mark.java, pytest.mark.clients, pytest.mark.timeout(600)]

UNKNOWN_MEMBER_ID = 25
SETTINGS = {"offsets.retention.check.interval.ms": "500", "group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Answers of the cluster while the members were there, and each replica's folder."""

    life: Life
    described: Described
    folders: list[Path]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Golden]:
    folder = tmp_path_factory.mktemp("muster") / "cluster"
    with (
        MusterCluster(folder, partitions=5, settings=SETTINGS) as cluster,
        live_on(cluster.bootstrap, modern=False) as (life, described),
    ):
        folders = [folder / f"replica-{n}" / "data" for n in range(3)]
        wait_until("the replicas are level", lambda: len({sizes(one) for one in folders}) == 1, 60, 0.2)
        yield Golden(life=life, described=described, folders=folders)


def sizes(folder: Path) -> tuple[tuple[str, int], ...]:
    found = list_segments(str(folder)).values()
    return tuple((Path(one.file).name, one.size) for segments in found for one in segments)


def view_of(folder: Path) -> LogView:
    view, accounts, damages = read(folder, {})
    assert damages == view.damages == []
    assert all(account.bytes_decoded == account.bytes_in for account in accounts)
    return view


@pytest.mark.parametrize("replica", range(3))
def test_every_replicas_log_says_what_kafkas_tool_says(golden: Golden, replica: int) -> None:
    view = view_of(golden.folders[replica])
    assert view.key_types >= {1, 2, 1000, 1001}
    assert view.groups() == set(golden.described.states)
    assert view.groups() == {"classic", "static", "left", "trimmed", *ODD_NAMES}
    assert view.offsets == golden.described.offsets
    assert view.all_members() == golden.described.members
    for group, (state, assignor, _, _, members) in golden.described.states.items():
        assert members == sum(of == group for of, _ in view.all_members())
        row = view.generations.get(group)
        if row is not None and row["members"]:
            assert (state, assignor) == ("Stable", row["protocol"])
        else:
            assert state == "Empty"


def test_generations_are_the_coordinators(golden: Golden) -> None:
    view = view_of(golden.folders[0])
    members = [(group, row["generation"], one) for group, row in view.generations.items() for one in row["members"]]
    assert len(members) == 3
    for group, generation, one in members:
        who = (one["member_id"], one["instance_id"])
        assert golden.life.heartbeat(group, generation, *who) == 0
        assert golden.life.heartbeat(group, generation + 1, *who) == 22


def test_offsets_of_a_group_with_members_are_not_altered_and_each_partition_says_so(golden: Golden) -> None:
    """Clients do not raise for it: the answer has an error a partition, and who does not look takes it for done."""
    places = [TopicPartition("flights", number) for number in range(2)]
    with closing(KafkaAdminClient(bootstrap_servers=golden.described.bootstrap)) as admin:
        before = admin.list_group_offsets("classic")["classic"]
        refused = admin.alter_group_offsets("classic", {one: OffsetAndMetadata(999, "", -1) for one in places})
        assert {one: error.errno for one, error in refused.items()} == dict.fromkeys(places, UNKNOWN_MEMBER_ID)
        assert admin.list_group_offsets("classic")["classic"] == before


def test_fetch_gives_the_same_rows_as_the_files(golden: Golden) -> None:
    with Cluster(golden.described.bootstrap) as cluster:
        numbers = cluster.partitions("__consumer_offsets")
        starts, ends = (cluster.bound("__consumer_offsets", numbers, at) for at in (EARLIEST, LATEST))
        for number in numbers:
            where = live.origin("golden", number)
            found = live.pieces(cluster, "__consumer_offsets", where, starts[number], ends[number], strict=True)
            fetched = [piece.records for piece in found if piece.records is not None]
            files = [
                piece.records
                for segment in list_segments(str(golden.folders[1]))[number]
                for piece in segment.pieces("golden")
                if piece.records is not None
            ]
            assert rows(fetched) == rows(files)


def rows(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, RECORDS).drop_columns("segment_base").combine_chunks()


def test_a_folder_of_several_replicas_is_refused(golden: Golden) -> None:
    with pytest.raises(AmbiguousLog):
        list_segments(str(golden.folders[0].parents[1]))
