"""Starting Spark, with a clear message when something that it needs is missing."""
