"""`muster accept-losses` on a stopped replica's folder: what it says, what it does, and whom it refuses."""

from pathlib import Path

import pytest
from muster_coordinator.cli.accept_losses import accept_losses
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.bootstrap.identity import UNBOUND, ClusterRecord, Phase, Voter, store_cluster
from muster_coordinator.replica.group_manager import OFFSETS_WAL, TOPICS_WAL
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.runtime.folder import FolderLock
from muster_coordinator.storage.wal_losses import LOSSES_NAME, Losses, load, store


def replica(folder: Path, voters: int = 1, joined: tuple[Voter, ...] = ()) -> Path:
    """The configuration of a replica whose folder is there, with a loss of two groups."""
    data = folder / "data"
    data.mkdir()
    disk = OsDisk(str(data))
    seats = tuple(Voter(BrokerId(number), bytes([number + 1]) * 16) for number in range(voters))
    store_cluster(disk, Phase.FORMED, ClusterRecord("c", seats, 3, bytes(16), joined))
    for wal in (OFFSETS_WAL, TOPICS_WAL):
        disk.mkdir(wal)
    store(disk, OFFSETS_WAL, Losses({GroupNo(0), GroupNo(7)}, unknown=True, whole={GroupNo(1)}).encoded())
    config = folder / "muster.properties"
    config.write_text(f"node.id=0\nlog.dirs={data}\n")
    return config


def lost(config: Path, wal: str = OFFSETS_WAL) -> Losses:
    found = load(OsDisk(str(config.parent / "data")), wal)
    assert found is not None
    return found


def test_it_says_what_is_lost_and_accepts_it_when_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = replica(tmp_path)
    accept_losses(config)
    said = capsys.readouterr()
    assert "wal-offsets: Raft groups 0, 7, and any that the WAL does not know may have lost entries" in said.out
    assert "--execute" in said.out
    assert "acknowledged commits, records and topics may be missing" in said.err
    assert lost(config).groups == {0, 7}
    accept_losses(config, execute=True)
    assert "accepted" in capsys.readouterr().out
    assert (lost(config).groups, lost(config).unknown) == (set(), False)
    accept_losses(config, execute=True)
    assert capsys.readouterr().out == "no Raft group is suspended: there is nothing to accept\n"


def test_a_list_that_cannot_be_read_says_that_all_may_be_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replica(tmp_path)
    (tmp_path / "data" / TOPICS_WAL / LOSSES_NAME).write_bytes(b"MSUS?")
    accept_losses(config, execute=True)
    assert "wal-topics: Raft groups (none known), and any that the WAL does not know" in capsys.readouterr().out
    assert lost(config, TOPICS_WAL).groups == set()


def test_a_replica_with_other_voters_is_refused(tmp_path: Path) -> None:
    config = replica(tmp_path, voters=3)
    with pytest.raises(CliError, match="3 replicas: 0, 1, 2; the others make good") as refused:
        accept_losses(config, execute=True)
    assert refused.value.code == Exit.REFUSED
    assert lost(config).groups == {0, 7}


def test_the_founder_of_a_cluster_that_others_joined_is_refused(tmp_path: Path) -> None:
    """It may be one of several voters of each group by now, and would forget what it had promised them (ADR 45)."""
    config = replica(tmp_path, joined=(Voter(BrokerId(7), b"7" * 16), Voter(BrokerId(8), b"8" * 16)))
    with pytest.raises(CliError, match="3 replicas: 0, 7, 8; the others make good") as refused:
        accept_losses(config, execute=True)
    assert refused.value.code == Exit.REFUSED
    assert lost(config).groups == {0, 7}


def test_brokers_that_left_again_make_good_for_nothing(tmp_path: Path) -> None:
    config = replica(tmp_path, joined=(Voter(BrokerId(7), UNBOUND, 1),))
    accept_losses(config, execute=True)
    assert lost(config).groups == set()


def test_a_running_replica_is_refused(tmp_path: Path) -> None:
    config = replica(tmp_path)
    lock = FolderLock(tmp_path / "data")
    with pytest.raises(CliError, match="in use by another process"):
        accept_losses(config, execute=True)
    lock.release()
    assert lost(config).groups == {0, 7}


def test_a_folder_or_configuration_that_is_none_is_told(tmp_path: Path) -> None:
    config = tmp_path / "muster.properties"
    config.write_text(f"node.id=0\nlog.dirs={tmp_path / 'nowhere'}\n")
    with pytest.raises(CliError, match="is not a folder"):
        accept_losses(config)
    config.write_text("node.id=-1\n")
    with pytest.raises(CliError) as refused:
        accept_losses(config)
    assert refused.value.code == Exit.USAGE
    assert not (tmp_path / "nowhere").exists()
