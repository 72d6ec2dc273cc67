"""Topic partitions whose offsets have gaps, as topics in Redis have: a difference of two is no number of records.

Table `partition_status` says it, by the last sample of each. Sections that add differences up leave them out, and say
that the number is not known.
"""

from muster_pipeline.report.source import Tables, rows

Place = tuple[str, int]


def gapped(tables: Tables) -> frozenset[Place]:
    """(topic, partition) of these; one pass over `partition_status`."""
    found = rows(tables, "partition_status", ("topic", "partition", "has_gaps"))
    return frozenset((topic, partition) for topic, partition, has_gaps in found if has_gaps)
