"""The table that a source yields: rows of `records`, or a table made from them chunk by chunk."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from muster_pipeline.decode.consumer_groups import decode_consumer_groups
from muster_pipeline.decode.generations import NEEDED, decode_generations
from muster_pipeline.decode.limits import SPARK_ROWS_MAX
from muster_pipeline.decode.origin import Origin, quarantine
from muster_pipeline.decode.segment import Account, Piece, files
from muster_pipeline.schemas.consumer_records import CONSUMER_RECORDS
from muster_pipeline.schemas.generation_records import GENERATION_RECORDS
from muster_pipeline.schemas.quarantine import FILES, QUARANTINE
from muster_pipeline.schemas.records import RECORDS

TABLES: Final = {
    "records": RECORDS,
    "quarantine": QUARANTINE,
    "files": FILES,
    "generation_records": GENERATION_RECORDS,
    "consumer_records": CONSUMER_RECORDS,
}
"""Values of the option `table`."""


def columns_of(table: str) -> frozenset[str] | None:
    """Columns of `records` that must be decoded to make this table; None for all."""
    if table == "records":
        return None
    return frozenset({"log_offset"}) if table == "files" else NEEDED


def batches(table: str, origin: Origin, pieces: Iterator[Piece]) -> Iterator[pa.RecordBatch]:
    """Arrow batches of at most SPARK_ROWS_MAX rows, in log order."""
    account: Account | None = None
    for piece in pieces:
        account = piece.account
        for batch in _made(table, origin, piece):
            for start in range(0, batch.num_rows, SPARK_ROWS_MAX):
                yield batch.slice(start, SPARK_ROWS_MAX)
    if table == "files" and account is not None:
        yield files(origin, account)


def _made(table: str, origin: Origin, piece: Piece) -> Iterator[pa.RecordBatch]:
    if table == "quarantine":
        yield quarantine(origin, piece.damages)
    if piece.records is None:
        return
    if table == "records":
        yield piece.records
    elif table == "generation_records":
        yield decode_generations(piece.records).rows
    elif table == "consumer_records":
        yield decode_consumer_groups(piece.records).rows
    elif table == "quarantine":
        for decoded in (decode_generations(piece.records), decode_consumer_groups(piece.records)):
            yield quarantine(origin, decoded.damages)
