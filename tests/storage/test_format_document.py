"""docs/format.md, read as a specification: a second reader, written from it alone, understands the product's files."""

import struct

from muster_coordinator.groups.effects import CheckpointBody, CheckpointParts
from muster_coordinator.raft.quorum import Config
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import EndMarker, TransactionMarker, marker_batch
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.checkpoint import CheckpointMeta, encode_checkpoint

from tests.sim.disk import SimDisk
from tests.storage.log_kit import FOLDER as LOG_FOLDER
from tests.storage.log_kit import START_MS, feed, fill, flush, open_log
from tests.storage.wal_kit import CLUSTER, FOLDER, NODE, commit, conf, entries, open_wal, wal_files, writes


def read_wal_file(data):
    """Header fields and the sound batches: (number, [(type, kind, group, index, term, payload)])."""
    magic, version, flags, sequence, node, cluster, first, chain, crc = struct.unpack(">4sHHQ16s16sQII", data[:64])
    assert (magic, version, crc) == (b"MWAL", 1, crc32c(data[:60]))
    assert flags in (0, 1)
    assert (node, cluster) == (NODE, CLUSTER)
    seed = crc32c(struct.pack(">Q", sequence), crc32c(cluster, crc32c(node)))
    batches, records, at, start, before = [], [], 64, 64, chain
    while at + 32 <= len(data) and data[at + 8]:
        length, crc, kind_of_record, kind, zero, group, index, term = struct.unpack(">IIBBHIQQ", data[at : at + 32])
        assert crc == crc32c(data[at + 8 : at + 32 + length], seed)
        assert zero == 0
        payload = data[at + 32 : at + 32 + length]
        end = at + 32 + length + (-length % 8)
        assert data[at + 32 + length : end].strip(b"\0") == b""
        if kind_of_record == 5:
            count, size, chain = struct.unpack(">IQI", payload)
            assert (group, index, count, size) == (0xFFFFFFFF, start, len(records), at - start)
            assert chain == crc32c(data[start:at], before)
            batches.append((term, records))
            if records and records[0][0] == 6:
                break
            records, start, before = [], end, chain
        else:
            records.append((kind_of_record, kind, group, index, term, payload))
        at = end
    return sequence, first, chain, batches, flags


def test_wal_files():
    disk = SimDisk()
    wal = open_wal(disk)
    commit(wal, writes(3, hard=(2, 1, 9), recovery_point=(8, 80, 40, 77), checkpoint=(7, 2)))
    for low in range(8, 60, 4):
        commit(wal, writes(3, entries(low, low + 4, term=2, size=150)))
    commit(wal, writes(5, hard=(1, -1, 0)))
    wal.drop_group(5)
    commit(wal)
    names = wal_files(disk)
    assert len(names) > 2
    number, chain, seen = 1, 0, []
    for at, name in enumerate(names):
        sequence, first, after, batches, flags = read_wal_file(disk.content(f"{FOLDER}/{name}"))
        assert (name, first, flags) == (f"{sequence:016x}.wal", number, 0)
        sealed = batches[-1][1] and batches[-1][1][0][0] == 6
        assert bool(sealed) == (name != names[-1])
        if sealed:
            assert batches.pop()[1][0][3] == sequence + 1
        assert [batch for batch, _ in batches] == list(range(number, number + len(batches)))
        if at:
            # The state of every group as of the batch before.
            assert [record[:1] + record[2:] for record in batches[0][1][:3]] == [
                (2, 3, 9, 2, struct.pack(">i", 1)),
                (4, 3, 7, 2, b""),
                (3, 3, 8, 0, struct.pack(">qqq", 80, 40, 77)),
            ]
        number += len(batches)
        seen += [record for _, records in batches for record in records]
        chain = after
    assert chain
    assert [(r[3], r[4], r[5]) for r in seen if r[0] == 1] == [
        (e.index, e.term, e.data) for e in entries(8, 60, term=2, size=150)
    ]
    assert seen[-1][:3] == (7, 0, 5)


def test_configurations_in_wal_files():
    disk = SimDisk()
    wal = open_wal(disk)
    config = Config((1, 1 << 32 | 3), (1, 2, 3), (7,))
    data = struct.pack(">BBBB6q", 1, 2, 3, 1, 1, 2**32 + 3, 1, 2, 3, 7)
    commit(wal, writes(3, (conf(1, config),), hard=(1, 1 << 32 | 3, 1)))
    commit(wal, writes(3, checkpoint=(1, 1), config=config))
    _, _, _, batches, _ = read_wal_file(disk.content(f"{FOLDER}/{wal_files(disk)[0]}"))
    assert [record for _, records in batches for record in records] == [
        (2, 0, 3, 1, 1, struct.pack(">q", 2**32 + 3)),
        (1, 3, 3, 1, 1, data),
        (4, 1, 3, 1, 1, b""),
        (8, 0, 3, 1, 0, data),
    ]


def test_wal_files_whose_states_are_spread_over_batches():
    disk = SimDisk()
    wal = open_wal(disk, states_per_batch=2)
    groups = range(3, 15)
    for group in groups:
        commit(wal, writes(group, hard=(2, 1, group)))
    for low in range(1, 200, 4):
        commit(wal, writes(3, entries(low, low + 4, term=2, size=100)))
    spread = 0
    for name in wal_files(disk)[1:-1]:
        _, _, _, batches, flags = read_wal_file(disk.content(f"{FOLDER}/{name}"))
        states = [[record for record in records if record[0] == 2] for _, records in batches]
        if flags:
            spread += 1
            assert len(states[0]) < len(groups)
            assert [record[1] for records in states for record in records].count(1) == 1
        assert {record[2] for records in states for record in records} >= set(groups)
    assert spread > 2


def test_sidecars():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1 << 20)
    batches = fill(log, 60, epoch=4, size=100)
    fill(log, 5, epoch=6)
    flush(log, 65)
    data = disk.content(f"{LOG_FOLDER}/{0:020d}.sidx")
    magic, version, zero, base, following, size, first_ms, max_ms, epochs, slots, crc = struct.unpack(
        ">4sHHqqqqqIII", data[:60]
    )
    assert (magic, version, zero, crc) == (b"MSIX", 1, 0, crc32c(data[60:], crc32c(data[:56])))
    assert (base, following, first_ms, max_ms) == (0, 130, START_MS, START_MS + 590)
    assert size == len(disk.content(f"{LOG_FOLDER}/{0:020d}.log"))
    at = 60 + 12 * epochs
    assert list(struct.iter_unpack(">iq", data[60:at])) == [(4, 0), (6, 120)]
    offsets = struct.unpack(f">{slots}I", data[at : at + 4 * slots])
    positions = struct.unpack(f">{slots}I", data[at + 4 * slots : at + 8 * slots])
    maxima = struct.unpack(f">{slots}q", data[at + 8 * slots :])
    width = len(batches[0])
    assert slots > 3
    for offset, position, maximum in zip(offsets, positions, maxima, strict=True):
        assert position == offset // 2 * width
        assert maximum == (START_MS + 10 * (offset // 2 - 1) if offset else -1)


def test_sidecars_of_segments_with_transactions():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1 << 20)
    for producer in (7, 8, 9):
        data = encode_batch(
            [(b"k", b"v")], timestamp_ms=START_MS, producer_id=producer, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip
        feed(log, data, 4)
    feed(log, marker_batch(TransactionMarker(8, 0, EndMarker(False, 1), 1), START_MS), 4)
    flush(log, 4)
    listed = disk.content(f"{LOG_FOLDER}/{0:020d}.txnindex")
    assert list(struct.iter_unpack(">hqqqq", listed)) == [(0, 8, 1, 3, 0)]
    data = disk.content(f"{LOG_FOLDER}/{0:020d}.sidx")
    magic, version, marked = struct.unpack_from(">4sHH", data)
    epochs, slots, crc = struct.unpack_from(">III", data, 48)
    assert (magic, version, marked, crc) == (b"MSIX", 2, 1, crc32c(data[60:], crc32c(data[:56])))
    at = 60 + 12 * epochs + 16 * slots
    assert struct.unpack_from(">III", data, at) == (2, 1, crc32c(listed))
    assert list(struct.iter_unpack(">qq", data[at + 12 :])) == [(7, 0), (9, 2)]


def test_checkpoints():
    meta = CheckpointMeta(9, 41, 3, 100, 20, ((1, 20), (3, 60)))
    body = CheckpointBody(b"head", ((b"b", b"blob of b"), (b"aa", b"1")))
    data = b"".join(encode_checkpoint(meta, CheckpointParts(body.head, iter(sorted(body.blobs)))))
    fields = struct.unpack(">4sHHIQIqqIIQI", data[:60])
    assert fields[:-1] == (b"MCKP", 1, 0, 9, 41, 3, 100, 20, 2, 0, 4)
    assert fields[-1] == crc32c(data[:56])
    assert list(struct.iter_unpack(">iq", data[60:84])) == [(1, 20), (3, 60)]
    assert data[84:88] == b"head"
    version_3 = b"".join(
        encode_checkpoint(meta._replace(config=Config((1, 2), (), (7,))), CheckpointParts(b"", iter(())))
    )
    config = struct.pack(">BBBB3q", 1, 2, 0, 1, 1, 2, 7)
    assert struct.unpack(">4sHHIQIqqIIQI", version_3[:60])[:-1] == (b"MCKP", 3, 0, 9, 41, 3, 100, 20, 2, len(config), 0)
    assert version_3[84:100] == bytes(16)
    assert version_3[100 : 100 + len(config)] == config
    slots_at, slots, keys_at, index_crc, head_crc, size, crc, magic = struct.unpack(">QIQIIQI4s", data[-44:])
    assert (size, magic, crc) == (len(data), b"MCKE", crc32c(data[-44:-8]))
    assert index_crc == crc32c(data[keys_at:-44])
    assert head_crc == crc32c(data[60:88])
    found = []
    for n in range(slots):
        key_at, key_bytes, position, length, blob_crc = struct.unpack_from(">IIQII", data, slots_at + 24 * n)
        blob = data[position : position + length]
        assert blob_crc == crc32c(blob)
        found.append((data[keys_at + key_at : keys_at + key_at + key_bytes], blob))
    assert found == sorted(body.blobs)
