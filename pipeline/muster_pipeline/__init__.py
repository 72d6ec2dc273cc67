"""The Muster pipeline: offsets logs, of files or of a live cluster, into tables and a report, with Spark."""
