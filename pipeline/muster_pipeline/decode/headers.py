"""Headers of many RecordBatches v2 as columns, and which headers a broker can have written.

The batch's CRC covers everything from `attributes` on; base offset, length, leader epoch and magic lie outside it and
are checked against the neighbours (`decode.chain`). Layout: Kafka's DefaultRecordBatch; positions are within the batch.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_pipeline.decode.limits import BATCH_BYTES_MAX, BATCH_BYTES_MIN, RECORD_BYTES_MIN
from muster_pipeline.decode.view import I64, Bools, View

LENGTH_AT: Final = 8
LENGTH_END: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21
MAGIC: Final = 2
CODECS: Final = 5
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
ATTRIBUTES_KNOWN: Final = 0x7F


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """One row per batch. `at`/`end`: positions in the buffer, `end` exclusive."""

    at: I64
    end: I64
    base: I64
    leader_epoch: I64
    attributes: I64
    last_delta: I64
    base_timestamp: I64
    max_timestamp: I64
    producer_id: I64
    producer_epoch: I64
    count: I64

    def __len__(self) -> int:
        return len(self.at)

    @property
    def last(self) -> I64:
        """Last offset of each batch, whether or not a record has it."""
        return self.base + self.last_delta

    def where(self, mask: Bools) -> "Headers":
        """The batches that `mask` names."""
        return Headers(**{name: getattr(self, name)[mask] for name in self.__slots__})


def parse(view: View, at: I64) -> Headers:
    """Headers at positions `at`, each followed by at least 61 bytes of the buffer. Checks nothing."""
    return Headers(
        at=at,
        end=at + LENGTH_END + view.i32(at + LENGTH_AT),
        base=view.i64(at),
        leader_epoch=view.i32(at + 12),
        attributes=view.i16(at + 21),
        last_delta=view.i32(at + 23),
        base_timestamp=view.i64(at + 27),
        max_timestamp=view.i64(at + 35),
        producer_id=view.i64(at + 43),
        producer_epoch=view.i16(at + 51),
        count=view.i32(at + 57),
    )


def possible(headers: Headers) -> Bools:
    """Which headers a broker can have written, by their own fields; CRC and neighbours are not checked."""
    size = headers.end - headers.at
    codec = headers.attributes & CODEC_MASK
    plain_fits = (codec != 0) | (headers.count * RECORD_BYTES_MIN <= size - BATCH_BYTES_MIN)
    return np.asarray(
        (size >= BATCH_BYTES_MIN)
        & (size <= BATCH_BYTES_MAX)
        & ((headers.attributes & ~ATTRIBUTES_KNOWN) == 0)
        & (codec < CODECS)
        & (headers.last_delta >= 0)
        & (headers.count >= 0)
        & (headers.count <= headers.last_delta + 1)
        & (headers.base >= 0)
        & plain_fits,
        np.bool_,
    )
