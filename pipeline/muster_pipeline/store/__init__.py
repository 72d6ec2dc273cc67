"""Tables: Delta, and one row of `runs` that says which versions belong together. Reports and people use
`read(table, root)`."""

from muster_pipeline.store.reader import Published, Root, Snapshot, damages, dataset, files, published, read, tables

__all__ = ["Published", "Root", "Snapshot", "damages", "dataset", "files", "published", "read", "tables"]
