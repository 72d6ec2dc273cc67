"""Clusters of real processes. `cluster` is shared by a module's tests that leave it whole; others start their own."""

from collections.abc import Iterator

import pytest

from tests.cluster import MusterCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    with MusterCluster(tmp_path_factory.mktemp("cluster") / "data") as it:
        yield it
