"""The Spark program of `test_spark`: two streams over the Kafka source, one into a topic and one into Parquet files,
each with a checkpoint, until it is killed. Run by a Python that has PySpark: FOLDER BOOTSTRAP JARS RECORDS."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, upper


def main(folder: str, bootstrap: str, jars: str, trigger_records: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "words")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", trigger_records)
        .option("includeHeaders", "true")
        .load()
    )
    text = read.select(col("key"), upper(col("value").cast("string")).alias("value"), col("headers"))
    (
        text.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "upper")
        .option("includeHeaders", "true")
        .option("checkpointLocation", f"{folder}/checkpoint-topic")
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    (
        read.select("partition", "offset", "timestamp", col("value").cast("string").alias("value"))
        .writeStream.format("parquet")
        .option("path", f"{folder}/rows")
        .option("checkpointLocation", f"{folder}/checkpoint-rows")
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:5])
