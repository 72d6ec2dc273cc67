"""Sources of logs: folders of segments, live clusters, samples of log ends; each is also a Spark data source."""
