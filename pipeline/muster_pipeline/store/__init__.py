"""Tables on disk: Parquet files and one manifest. Reports and people use `read(table, root)`."""

from muster_pipeline.store.reader import Published, damages, files, published, read, tables

__all__ = ["Published", "damages", "files", "published", "read", "tables"]
