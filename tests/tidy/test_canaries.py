"""Every suite that runs a cluster of processes looks for its secrets in all that they said; and that look sees them."""

from pathlib import Path

import pytest

from tests.cluster import MusterCluster

TOKEN = "Zo8cS2r0Zx1m"  # of nobody's


@pytest.mark.parametrize("said", ["password is canary-alice", f"Bearer {TOKEN}"])
@pytest.mark.parametrize("where", ["data.log", "data/replica-1/server.log"])
def test_a_cluster_that_said_a_secret_fails_its_test(tmp_path: Path, said: str, where: str) -> None:
    cluster = MusterCluster(tmp_path / "data")
    (tmp_path / "data" / "replica-1").mkdir(parents=True)
    (tmp_path / "data" / "admin-token").write_text(f"{TOKEN}\n")
    (tmp_path / where).write_text('{"message": "member joined"}\n')
    assert cluster.secrets_said() == []
    with (tmp_path / where).open("a") as log:
        log.write(f'{{"message": "{said}"}}\n')
    with pytest.raises(AssertionError) as caught:
        cluster.close()
    assert where in str(caught.value)
    assert TOKEN not in str(caught.value)
