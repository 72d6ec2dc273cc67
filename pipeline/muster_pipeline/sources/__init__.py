"""Where logs are read from: folders of segments, live clusters, samples of log ends; each also a Spark data source."""
