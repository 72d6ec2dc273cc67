"""Kafka's own kafka-dump-log reads our segments as they lie on disk, while the log is open."""

import re

import pytest
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import EndMarker
from muster_coordinator.records.keys import encode_candidate_key, encode_group_key, encode_offset_key
from muster_coordinator.records.offsets_log import GroupMetadataValue, encode_group_value, encode_offset_value
from muster_coordinator.records.own import CandidateGeneration, encode_candidate
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.storage.contract import NO_RECOVERY_POINT
from muster_coordinator.storage.partition_log import PartitionLog

from tests import kafka_tools
from tests.records.made import encode_end_marker
from tests.storage.log_kit import START_MS, feed, flush

OFFSETS = [
    [(encode_offset_key("g", "t", 0), encode_offset_value(5, 1, "m", START_MS))],
    [(encode_offset_key("g", "t", 1), encode_offset_value(6, 1, "m", START_MS, topic_id=bytes(range(16))))],
    [(encode_group_key("g"), encode_group_value(GroupMetadataValue("consumer", 3, None, None, START_MS, ())))],
    [(encode_candidate_key("g"), encode_candidate(CandidateGeneration("consumer", 4, "range", "m", START_MS, ())))],
    [(encode_offset_key("g", "t", 0), None)],
]


@pytest.mark.java
@pytest.mark.timeout(180)
def test_kafkas_dump_tool_reads_every_batch_and_decodes_the_offsets_log(tmp_path):
    log = PartitionLog.open(OsDisk(str(tmp_path)), "__consumer_offsets-0", NO_RECOVERY_POINT, 0, segment_bytes=500)
    for records in OFFSETS * 3:
        feed(log, encode_batch(records, timestamp_ms=START_MS), epoch=7)
    feed(log, encode_end_marker(EndMarker(True, 2), producer_id=9, producer_epoch=0, timestamp_ms=START_MS), epoch=8)
    log.write_out()
    paths = [str(tmp_path / path) for path, _ in log.files()]
    assert len(paths) > 2
    text = kafka_tools.run(kafka_tools.DUMP_LOG, "--offsets-decoder", "--files", ",".join(paths))
    assert [int(offset) for offset in re.findall(r"baseOffset: (\d+)", text)] == list(range(16))
    assert text.count("isvalid: true") == 16
    assert "invalid" not in text
    assert "Found" not in text  # "Found n invalid bytes at the end": garbage after the last batch
    assert '"topicId":"AAECAwQFBgcICQoLDA0ODw"' in text
    assert "endTxnMarker: COMMIT" in text
    assert len(re.findall(r'"type":"2","data":\{"group":"g"\}', text)) == 3
    log.close()


@pytest.mark.java
@pytest.mark.timeout(180)
def test_kafkas_dump_tool_reads_the_index_of_aborted_transactions(tmp_path):
    log = PartitionLog.open(OsDisk(str(tmp_path)), "t-0", NO_RECOVERY_POINT, 0, segment_bytes=1 << 20)
    for producer in (7, 2**62):
        data = encode_batch(
            [(b"k", b"v")], timestamp_ms=START_MS, producer_id=producer, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip
        feed(log, data)
    for producer in (2**62, 7):
        feed(log, encode_end_marker(EndMarker(False, 2), producer_id=producer, producer_epoch=0, timestamp_ms=START_MS))
    flush(log, 4)
    text = kafka_tools.run(kafka_tools.DUMP_LOG, "--files", str(tmp_path / "t-0" / f"{0:020d}.txnindex"))
    found = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text)
    assert [tuple(map(int, one)) for one in found] == [(2**62, 1, 2, 0), (7, 0, 3, 4)], text
    log.close()
