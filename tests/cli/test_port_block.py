"""Ports of two local clusters that begin at once differ, whatever either has bound so far."""

import os
import socket

import pytest
from muster_coordinator.cli import port_block
from muster_coordinator.cli.dev_layout import HOST
from muster_coordinator.cli.exits import CliError
from muster_coordinator.cli.port_block import STEP, PortBlock

BASE = 5_000 + 1_000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
"""Below what the clusters of other tests take, and apart from those of pytest's other workers."""
REPLICAS = 3


def every_port(base: int) -> set[int]:
    return {base + offset + replica for offset in (0, 100, 200, 300) for replica in range(REPLICAS)}


def test_a_block_that_is_taken_and_not_used_yet_is_nobody_elses():
    with PortBlock.take(REPLICAS, first=BASE) as one, PortBlock.take(REPLICAS, first=BASE) as other:
        assert not every_port(one.base) & every_port(other.base)


def test_blocks_that_overlap_by_another_range_exclude_each_other():
    """The peers of a cluster at P are where the clients of one at P+100 would be."""
    with PortBlock.take(REPLICAS, first=BASE) as one:
        for distance in (100, 200, 300):
            with PortBlock.take(REPLICAS, first=one.base + distance) as other:
                assert not every_port(one.base) & every_port(other.base)
    with PortBlock.take(REPLICAS, first=BASE + 300) as one:
        for distance in (100, 200, 300):
            with PortBlock.take(REPLICAS, first=one.base - distance) as other:
                assert not every_port(one.base) & every_port(other.base)


def test_a_block_is_free_again_when_its_cluster_ended():
    with PortBlock.take(REPLICAS, first=BASE) as one:
        base = one.base
    with PortBlock.take(REPLICAS, first=BASE) as again:
        assert again.base == base


@pytest.mark.parametrize("offset", [0, 100, 200, 300])
def test_a_strangers_port_makes_its_block_unfit_and_leaves_no_claim(offset):
    with PortBlock.take(REPLICAS, first=BASE) as found:
        base = found.base
    with socket.socket() as stranger:
        stranger.bind((HOST, base + offset + REPLICAS - 1))
        with PortBlock.take(REPLICAS, first=base) as one:
            assert one.base >= base + STEP
    with PortBlock.take(REPLICAS, first=base) as again:
        assert again.base == base


def test_no_free_block_is_said_in_words(monkeypatch):
    monkeypatch.setattr(port_block, "END_BASE", BASE + STEP)
    with PortBlock.take(REPLICAS, first=BASE), pytest.raises(CliError, match="no free ports"):
        PortBlock.take(REPLICAS, first=BASE)
