"""The work that Spark distributes: one task per log partition, from input to durable files, and their publication.

The worker's part (`stage`) does not depend on Spark, so it can run in any process; `distribute` gives tasks to Spark.
"""
