"""Segments are found where Kafka and Muster keep them, and nothing else is taken for one."""

from pathlib import Path

import pytest
from muster_pipeline.sources.errors import AmbiguousLog, BadOption, LogChanged, NoLog
from muster_pipeline.sources.folder import list_segments

from tests.pipeline import logs

BATCH = logs.log_of([logs.Batch(records=[logs.commit("g", "t", 0, 1)])])


def put(folder: Path, base: int, data: bytes = BATCH) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020d}.log"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("below", ["", "kafka-logs", "segments/7", "data/segments/7"])
def test_partitions_and_segments_in_order_at_any_depth(tmp_path: Path, below: str) -> None:
    folder = tmp_path / below
    for base in (500, 0, 90):
        put(folder / "__consumer_offsets-11", base)
    put(folder / "__consumer_offsets-2", 0)
    put(folder / "flights-0", 0)
    put(folder / "__consumer_offsets-3.0123abc-delete", 0)
    for name in ("x.log", "1.log", f"{7:020d}.log.deleted", f"{7:020d}.log.swap", f"{7:020d}.index", f"{0:020d}.sidx"):
        (folder / "__consumer_offsets-2" / name).write_bytes(BATCH)
    found = list_segments(str(tmp_path))
    assert {number: [(one.base, one.next_base) for one in segments] for number, segments in found.items()} == {
        2: [(0, None)],
        11: [(0, 90), (90, 500), (500, None)],
    }
    assert found[2][0].size == len(BATCH)
    assert (tmp_path / found[11][1].file).is_file()


def test_the_partition_folder_itself_may_be_named(tmp_path: Path) -> None:
    put(tmp_path / "__consumer_offsets-4", 0)
    assert list(list_segments(str(tmp_path / "__consumer_offsets-4"))) == [4]


def test_a_uri_is_a_place_too(tmp_path: Path) -> None:
    put(tmp_path / "__consumer_offsets-4", 0)
    (segment,) = list_segments(f"file://{tmp_path}")[4]
    pieces = list(segment.pieces("c"))
    assert pieces[-1].account.records == 1
    assert segment.file == f"__consumer_offsets-4/{0:020d}.log"


def test_no_log_is_an_error_not_an_empty_answer(tmp_path: Path) -> None:
    put(tmp_path / "flights-0", 0)
    with pytest.raises(NoLog, match="no folder __consumer_offsets-N"):
        list_segments(str(tmp_path))
    with pytest.raises(NoLog, match="is no folder"):
        list_segments(str(tmp_path / "absent"))
    with pytest.raises(BadOption):
        list_segments("carrierpigeon://host/x")


def test_two_replicas_of_a_partition_are_ambiguous(tmp_path: Path) -> None:
    for replica in ("replica-0", "replica-1"):
        put(tmp_path / replica / "__consumer_offsets-0", 0)
    with pytest.raises(AmbiguousLog, match=r"replica-0/.*replica-1/"):
        list_segments(str(tmp_path))


def test_a_file_that_changed_since_it_was_listed_is_named(tmp_path: Path) -> None:
    path = put(tmp_path / "__consumer_offsets-0", 0)
    (segment,) = list_segments(str(tmp_path))[0]
    path.write_bytes(BATCH[:50])
    with pytest.raises(LogChanged, match="longer when it was listed"):
        list(segment.pieces("c"))
    path.unlink()
    with pytest.raises(LogChanged, match="is gone"):
        list(segment.pieces("c"))


def test_what_is_appended_after_listing_is_not_read(tmp_path: Path) -> None:
    path = put(tmp_path / "__consumer_offsets-0", 0)
    (segment,) = list_segments(str(tmp_path))[0]
    path.write_bytes(BATCH + BATCH)
    *_, last = segment.pieces("c")
    assert (last.account.bytes_in, last.account.records) == (len(BATCH), 1)
