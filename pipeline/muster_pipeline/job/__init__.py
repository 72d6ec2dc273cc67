"""The work that Spark distributes: one task a log partition, from input to durable files, and their publication.

The worker's part (`stage`) knows nothing of Spark, so it can run in any process; `distribute` hands tasks to Spark.
"""
