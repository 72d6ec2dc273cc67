"""The cluster that an application gets: fewer partitions of the internal topics than by default, and patient elections.

The JVMs of an application are more than the machine has processors. With the default of a second or two each pause of a
replica would cost its leaderships, and a test would tell of the machine.
"""

from pathlib import Path

from tests.cluster import MusterCluster

SETTINGS = {
    "transaction.state.log.num.partitions": "6",
    "muster.raft.election.timeout.min.ms": "4000",
    "muster.raft.election.timeout.max.ms": "8000",
}


def cluster_for(folder: Path, **settings: str) -> MusterCluster:
    """Three replicas; further settings with `_` for each dot."""
    more = {key.replace("_", "."): value for key, value in settings.items()}
    return MusterCluster(folder, partitions=6, settings={**SETTINGS, **more})
