"""Tables on disk: Parquet files and one manifest. `read(table, root)` is the way in for reports and people."""

from muster_pipeline.store.reader import Published, damages, files, published, read, tables

__all__ = ["Published", "damages", "files", "published", "read", "tables"]
