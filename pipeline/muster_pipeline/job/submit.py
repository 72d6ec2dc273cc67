"""The script for spark-submit: segments of a folder into tables.

    spark-submit --master M submit.py --segments DIR --tables OUT --cluster NAME

spark-submit gives master, memory and cluster settings. `muster pipeline ingest` does the same from a command line.
"""

import argparse
import sys
from collections.abc import Sequence

from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import BronzeInput, Input, SegmentInput
from muster_pipeline.session.spark import session
from muster_pipeline.sources.errors import SourceError
from muster_pipeline.store.place import place
from muster_pipeline.tables.errors import TablesError
from muster_pipeline.transforms.settings import FoldSettings

EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 done; 2 the input cannot be used, with a message on stderr."""
    parser = argparse.ArgumentParser(description="Offsets log to tables")
    parser.add_argument(
        "--segments", help="folder with the log's segments; without it, make gold again from OUT's records"
    )
    parser.add_argument("--tables", required=True, help="folder or URI of the tables; driver and executors must see it")
    parser.add_argument("--cluster", required=True, help="name of the cluster")
    given = parser.parse_args(arguments)
    try:
        tables = place(given.tables)
        source: Input
        if given.segments is None:
            source = BronzeInput.published(tables, given.cluster)
        else:
            source = SegmentInput.listed(given.segments, given.cluster)
        spark = session(None)
        built = build(spark, source, tables, FoldSettings(cluster=given.cluster))
        spark.stop()
    except (TablesError, SourceError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    sys.stderr.write(f"{built.records} records of {len(built.log_partitions)} log partitions published\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
