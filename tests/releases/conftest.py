"""A cluster on the data folders that an earlier release left, not started yet, and what must be found in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import MusterCluster
from tests.releases import folder
from tests.releases.life import REPLICAS
from tests.releases.oracle import Oracle
from tests.releases.release import KEPT, Release


@pytest.fixture(params=KEPT)
def old(request: pytest.FixtureRequest) -> Release:
    return Release(request.param)


@pytest.fixture
def cluster(tmp_path: Path, old: Release) -> Iterator[MusterCluster]:
    made = MusterCluster(
        tmp_path / "cluster", replicas=REPLICAS, partitions=folder.PARTITIONS, settings=folder.opened(old)
    )
    yield made
    made.close()


@pytest.fixture
def known(old: Release, cluster: MusterCluster) -> Oracle:
    return folder.unpack(old, cluster.folder)
