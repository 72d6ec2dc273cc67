"""Starting Spark, with a clear sentence when something it needs is absent."""
