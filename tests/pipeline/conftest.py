"""One Spark session for the run (per pytest worker), with the pipeline's data sources registered."""

from collections.abc import Iterator

import pytest
from muster_pipeline.session.spark import SparkMissing, check_java, session
from muster_pipeline.sources.registry import register
from pyspark.sql import SparkSession

from tests import machine_parts

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """local[2]; skipped, or failed with MUSTER_REQUIRE=java, where there is no Java."""
    try:
        check_java()
    except SparkMissing as error:
        machine_parts.give_up("java", str(error))
    found = session("local[2]", SETTINGS, app="muster-tests")
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    yield found
    found.stop()
