"""Tables `quarantine` and `files`: what could not be decoded, and the account which proves that nothing else was lost.

Invariant I1, asserted in every run, per file: bytes_in = bytes_decoded + bytes_quarantined + bytes_pending, where
bytes_quarantined is the sum of `byte_count` of the file's quarantine rows.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import optional, required, schema

RAW_BYTES_MAX: Final = 1 << 20
"""Bytes of a damaged region that `raw` keeps; the hash covers all of them."""

REASONS: Final = {
    "framing": "bytes that are not a batch header: length, magic, counts or attributes are impossible",
    "crc": "the batch's CRC-32C does not match its bytes",
    "continuity": "the batch's base offset is not above the last offset before it, or below the segment's base",
    "epoch": "the batch's leader epoch is below the one before it, or negative in a log that has epochs",
    "codec": "the compressed block cannot be inflated, or exceeds 64 MiB or 100 times its size",
    "records": "the CRC matches, but the records do not fill the batch as its header says",
    "truncated": "a sealed segment ends within a batch",
    "key_schema": "a record's key breaks the schema of its type",
    "value_schema": "a record's value breaks the schema of its version, or the version is not known",
    "utf8": "a name in a record is not UTF-8",
    "unknown_type": "a record of a type that this release does not know",
    "clock": "a coordinator's clock was far from the others': the records' own times are not used",
    "log_truncated": "records that had been read are not in the cluster's log any more: their rows were withdrawn",
    "retention_gap": "offsets that the live cluster had deleted before they were read",
}

QUARANTINE: Final = schema(
    (
        required("cluster", pa.string(), "name of the cluster as given to the run"),
        required("log_partition", pa.int32(), "partition of __consumer_offsets"),
        required("file", pa.string(), "path relative to the folder that was read; 'fetch' for a live cluster"),
        required("segment_base", pa.int64(), "base offset in the file's name; -1 if read from a live cluster"),
        required(
            "scope",
            pa.string(),
            "bytes: a region of the file; record: one record of a sound batch; gap: offsets only; finding: about "
            "records that are sound, and in table records unless withdrawn",
        ),
        required("reason", pa.string(), "why: one of REASONS"),
        required("detail", pa.string(), "the reason as text for people, with numbers"),
        optional(
            "byte_from", pa.int64(), "position of the first damaged byte (scope record: of its batch); null for gaps"
        ),
        optional("byte_to", pa.int64(), "position after the last one"),
        required("byte_count", pa.int64(), "bytes that count as quarantined: 0 for scope record and gap"),
        optional("first_offset", pa.int64(), "first log offset that is or may be affected; null if not known"),
        optional("last_offset", pa.int64(), "last such offset; null if not known"),
        optional("raw", pa.binary(), "the bytes, at most 1 MiB; scope record: the record without its length, inflated"),
        optional("sha256", pa.string(), "of all bytes of the region, hex; scope record: of the record"),
    ),
    comment="one damaged region, undecodable record or hole",
)

FILES: Final = schema(
    (
        required("cluster", pa.string(), "name of the cluster as given to the run"),
        required("log_partition", pa.int32(), "partition of __consumer_offsets"),
        required("file", pa.string(), "path relative to the folder that was read; 'fetch' for a live cluster"),
        required("segment_base", pa.int64(), "base offset in the file's name; -1 if read from a live cluster"),
        required("is_active", pa.bool_(), "the newest segment of its partition, which may end within a batch"),
        required("bytes_in", pa.int64(), "bytes of the file as it was opened"),
        required("bytes_decoded", pa.int64(), "bytes of batches that were decoded"),
        required("bytes_quarantined", pa.int64(), "sum of the file's quarantine.byte_count"),
        required(
            "bytes_pending", pa.int64(), "unfinished batch at the end of an active segment, and preallocated zeros"
        ),
        required("batches", pa.int64(), "batches decoded, empty and control batches included"),
        required("records", pa.int64(), "rows in table records"),
        required("records_quarantined", pa.int64(), "rows in quarantine of scope record"),
        optional("first_offset", pa.int64(), "base offset of the first decoded batch; null without any"),
        optional("next_offset", pa.int64(), "offset after the last decoded batch; null without any"),
        required(
            "offsets_missing", pa.int64(), "offsets within decoded spans that have no record: compaction removed them"
        ),
    ),
    comment="one file that was read, and where its bytes went",
)
