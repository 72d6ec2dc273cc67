"""The README's lines under "Use it", word by word, on the cluster that the first of them starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.readme_cluster import ROOT, ReadmeCluster, commands_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[ReadmeCluster]:
    it = ReadmeCluster(tmp_path)
    try:
        it.start(commands_of("dev")[0])
        yield it
    finally:
        it.stop()


def test_the_lines_of_the_readme(dev: ReadmeCluster) -> None:
    def printed(line: str) -> str:
        done = dev.run(line)
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    _, create, produce, consume, groups, members, lag, status, join, raised = commands_of("dev")
    printed(create)
    printed(produce)
    lines = (ROOT / "README.md").read_text().splitlines()
    assert set(dev.leave_running(consume, max(lines, key=len)).splitlines()) <= set(lines)
    (group,) = (row.split() for row in printed(groups).splitlines()[1:])
    assert (group[0], group[3]) == ("billing", "Stable")
    assert len(printed(members).splitlines()) == 2
    assert "billing: Stable" in dev.leave_running(lag, "lag 0")
    rows = [row.split() for row in printed(status).splitlines()]
    assert [row[0] for row in rows if row[1:2] == ["ready"]] == ["0", "1", "2"]
    assert printed(join).count("has joined") == 2
    assert "all groups have their replicas" in printed(raised)
