"""Registers the pipeline's data sources with a Spark session (Spark keeps them per session)."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from muster_pipeline.sources.log_end_offsets import HeadsDataSource, LogEndOffsetsDataSource
from muster_pipeline.sources.offsets import OffsetsDataSource
from muster_pipeline.sources.segments import SegmentsDataSource

SOURCES: Final[tuple[type[DataSource], ...]] = (
    SegmentsDataSource,
    OffsetsDataSource,
    LogEndOffsetsDataSource,
    HeadsDataSource,
)


def register(spark: SparkSession) -> None:
    """Register `muster.segments`, `muster.offsets`, `muster.log_end_offsets`, and the last under its old name."""
    for source in SOURCES:
        spark.dataSource.register(source)
