"""`make bench-pipeline`: the fused Spark job beside plain processes, DuckDB and Polars on the same segment files."""
