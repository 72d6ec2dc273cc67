"""A cluster that changes under real clients: brokers come and go, folders are replaced, and whoever carries out a step
of a move is killed at it. In `make test` one broker comes and goes and one folder is replaced; MUSTER_CHANGES=whole
(`make changes`, in the nightly) is all of it."""

import os
from pathlib import Path

import pytest

from tests.cluster import MusterCluster
from tests.faults import steps
from tests.faults.changes import COPIED, SETTINGS, Form, run

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.quiet, pytest.mark.timeout(900)]

WHOLE = os.environ.get("MUSTER_CHANGES") == "whole"
SHORT_FORM = Form((3,), growing=(steps.CHANGES,), shrinking=(steps.COMPLETE,), replaced=1, pause_s_max=5.0)
"""The whole form judges the pause: here a machine that stands still for seconds is no fault."""
WHOLE_FORM = Form((3, 4), growing=steps.ALL, shrinking=steps.ALL, replaced=3, pause_s_max=1.0)
OFFSETS_PARTITIONS = 8 if WHOLE else 4
CLUSTER_SETTINGS = {**SETTINGS, **COPIED} if WHOLE else SETTINGS
SEED = 17


def test_clients_notice_nothing_of_a_cluster_that_changes(tmp_path: Path) -> None:
    form = WHOLE_FORM if WHOLE else SHORT_FORM
    with MusterCluster(
        tmp_path / "cluster", partitions=OFFSETS_PARTITIONS, settings=CLUSTER_SETTINGS, room_for=len(form.newcomers)
    ) as cluster:
        result = run(cluster, form, SEED, print)
        print(result)
        assert result.found == []
        assert set(result.killed) == {step.name for step in (*form.growing, *form.shrinking)}
