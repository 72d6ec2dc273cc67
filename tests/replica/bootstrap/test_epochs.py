"""ADR 40: a cluster that was recovered is of a later epoch; folders of an earlier one never take part in it."""

import pytest
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.formation import BootstrapState, Expectation
from muster_coordinator.replica.bootstrap.identity import (
    UNBOUND,
    ClusterRecord,
    Phase,
    StartRefused,
    Voter,
    load_cluster,
    pack_record,
    store_cluster,
    unpack_record,
)
from muster_coordinator.replica.bootstrap.recovery_file import (
    RECOVERY_FILE,
    RecoveryFile,
    load_recovery,
    refuse_unfinished,
    remove_recovery,
    store_recovery,
)

from tests.replica.bootstrap.test_formation import Net, Seat, boot_all, cluster
from tests.replica.bootstrap.test_replaced_folders import Controller, formation_of
from tests.sim.disk import SimDisk

EPOCH_ID, OTHER_ID = b"1" * 16, b"2" * 16
SEATS = (Voter(BrokerId(0), b"u" * 16), Voter(BrokerId(1), UNBOUND, 1), Voter(BrokerId(2), UNBOUND, 3))
RECORD = ClusterRecord("AbCdEfGhIjKlMnOpQrStUv", SEATS, 50, b"t" * 16, epoch=1, epoch_id=EPOCH_ID)


def recover(seat: Seat, epoch_id: bytes = EPOCH_ID) -> None:
    """As `muster recover` does to a stopped replica's folder."""
    record = seat.stored[1]
    assert record is not None
    voters = tuple(
        voter if voter.broker == seat.broker else Voter(voter.broker, UNBOUND, voter.binding + 1)
        for voter in record.voters
    )
    seat.stored = (Phase.FORMED, record._replace(voters=voters, epoch=record.epoch + 1, epoch_id=epoch_id))


def recovered(seed: int = 0) -> tuple[Net, Seat]:
    """All have formed and are down; the folder of 0 is recovered."""
    net = cluster(seed)
    boot_all(net)
    for seat in net.seats.values():
        seat.kill()
    recover(net.seats[0])
    return net, net.seats[0]


def is_left_behind(seat: Seat) -> bool:
    return seat.stored[0] is Phase.LEFT_BEHIND and len(seat.ended) == 1


def test_the_recovered_folder_starts_alone_and_trusts_nobody_of_before() -> None:
    net, survivor = recovered()
    survivor.boot()
    net.settle()
    assert survivor.formed is not None
    assert survivor.formed.epoch == 1
    for broker in (1, 2):
        assert not formation_of(survivor).trusts(BrokerId(broker), net.seats[broker].uuid)


def test_folders_of_before_end_when_they_meet_it_and_stay_out_when_they_start_again() -> None:
    for seed in range(20):
        _meet(seed)


def _meet(seed: int) -> None:
    net, survivor = recovered(seed)
    for seat in net.seats.values():
        seat.boot()
    net.settle()
    assert is_left_behind(net.seats[1])
    assert is_left_behind(net.seats[2])
    survivor.kill()
    for broker in (1, 2):
        net.seats[broker].boot()
    net.settle()
    for broker in (1, 2):
        formation = formation_of(net.seats[broker])
        assert formation.out
        assert formation.formed() is None, "it opens no Raft group, although nobody is there who could tell"
        assert "recovered without this data folder, and is in epoch 1" in formation.status
    assert survivor.stored[1] == survivor.formed


def test_new_folders_join_the_later_epoch_whatever_else_they_hear() -> None:
    for seed in range(20):
        _join(seed)


def test_a_new_folder_believes_the_later_epoch_also_of_a_higher_broker() -> None:
    net = cluster()
    boot_all(net)
    for seat in net.seats.values():
        seat.kill()
    recover(net.seats[2])
    net.seats[1].wipe()
    net.seats[0].boot()
    net.seats[1].boot()
    net.settle()
    new = formation_of(net.seats[1])
    assert "was emptied and stays out" in new.status, "by the record of a folder of before"
    new.heard(BrokerId(2), BootstrapState(BrokerId(2), net.seats[2].uuid, *_told(net.seats[2])))
    assert "waiting for the controller to bind" in new.status


def _told(seat: Seat) -> tuple[Phase, Expectation, ClusterRecord | None]:
    return seat.stored[0], seat.expects, seat.stored[1]


def _join(seed: int) -> None:
    net, _ = recovered(seed)
    controller = Controller(net)
    for broker in (1, 2):
        controller.replace(broker)
    net.seats[2].wipe()
    for seat in net.seats.values():
        seat.boot()
    for _ in range(3):
        controller.tell(0)
        net.settle()
        controller.bind()
    assert is_left_behind(net.seats[1])
    joined = net.seats[2]
    assert joined.formed is not None
    assert (joined.formed.epoch, joined.formed.epoch_id) == (1, EPOCH_ID)
    assert joined.formed.uuid_of(BrokerId(2)) == joined.uuid


def test_a_new_folder_that_hears_only_folders_of_before_joins_none_of_them() -> None:
    net, survivor = recovered()
    net.seats[1].wipe()
    for broker in (1, 2):
        net.seats[broker].boot()
    net.settle()
    assert net.seats[1].formed is None
    survivor.boot()
    net.settle()
    assert "waiting for the controller to bind" in formation_of(net.seats[1]).status


def test_folders_that_were_recovered_apart_trust_each_other_not_and_a_new_one_joins_neither() -> None:
    net, one = recovered()
    other = net.seats[1]
    recover(other, OTHER_ID)
    net.seats[2].wipe()
    for seat in net.seats.values():
        seat.boot()
    net.settle()
    assert not formation_of(one).trusts(BrokerId(1), other.uuid)
    assert not formation_of(other).trusts(BrokerId(0), one.uuid)
    assert (one.stored[0], other.stored[0]) == (Phase.FORMED, Phase.FORMED), "nobody here knows which one is right"
    assert net.seats[2].formed is None
    assert "brokers [0, 1] were recovered apart from each other" in formation_of(net.seats[2]).status


def test_a_prepared_folder_of_before_is_left_behind_too() -> None:
    net, survivor = recovered()
    late = net.seats[1]
    late.stored = (Phase.PREPARED, late.stored[1])
    survivor.boot()
    late.boot()
    net.settle()
    assert is_left_behind(late)


def test_a_later_recovery_leaves_the_epoch_before_it_behind() -> None:
    net, survivor = recovered()
    copy = net.seats[1]
    copy.stored = (Phase.FORMED, survivor.stored[1]._replace(voters=copy.stored[1].voters))
    recover(survivor, OTHER_ID)
    survivor.boot()
    copy.boot()
    net.settle()
    assert is_left_behind(copy)
    assert survivor.formed is not None
    assert survivor.formed.epoch == 2


def test_whoever_was_left_behind_passes_the_news_on() -> None:
    net, survivor = recovered()
    survivor.boot()
    net.seats[1].boot()
    net.settle()
    assert is_left_behind(net.seats[1])
    survivor.kill()
    net.seats[1].boot()
    net.seats[2].boot()
    net.settle()
    assert is_left_behind(net.seats[2])
    for broker in (1, 2):
        record = net.seats[broker].stored[1]
        assert record is not None
        assert (record.epoch, record.epoch_id) == (1, EPOCH_ID), "the epoch that left it behind"
        assert record.uuid_of(broker) == net.seats[broker].uuid


def test_a_folder_that_was_left_behind_can_be_gone_on_from_after_all() -> None:
    """The recovery was a mistake: the next epoch is above it, and leaves it behind in its turn."""
    net, survivor = recovered()
    other = net.seats[1]
    survivor.boot()
    other.boot()
    net.settle()
    assert is_left_behind(other)
    survivor.kill()
    recover(other, OTHER_ID)
    other.boot()
    survivor.boot()
    net.settle()
    assert other.formed is not None
    assert other.formed.epoch == 2
    assert is_left_behind(survivor)


def test_another_cluster_s_epoch_says_nothing() -> None:
    """A foreign replica at a peer's address ends nobody's process."""
    net, survivor = recovered()
    stranger = net.seats[1]
    record = stranger.stored[1]
    assert record is not None
    stranger.stored = (Phase.FORMED, record._replace(cluster_id="another", epoch=9, epoch_id=OTHER_ID))
    survivor.boot()
    stranger.boot()
    net.settle()
    assert survivor.ended == []
    assert stranger.ended == []
    assert not formation_of(survivor).trusts(BrokerId(1), stranger.uuid)


# The files.


def test_a_record_without_an_epoch_has_the_bytes_that_it_had() -> None:
    plain = RECORD._replace(epoch=0, epoch_id=bytes(16))
    assert pack_record(plain) == b"\x02" + pack_record(RECORD)[1:-22], "without a count of brokers that joined"
    joined = RECORD._replace(joined=(Voter(BrokerId(7), b"j" * 16, 2),))
    assert pack_record(joined._replace(epoch=0)) == b"\x03" + pack_record(joined)[1:-20]
    for record in (RECORD, joined):
        assert unpack_record(pack_record(record), 0) == (record, len(pack_record(record)))


def test_a_left_behind_folder_says_so_after_a_start() -> None:
    disk = SimDisk()
    store_cluster(disk, Phase.LEFT_BEHIND, RECORD)
    assert load_cluster(disk) == (Phase.LEFT_BEHIND, RECORD)


def stored_recovery() -> tuple[SimDisk, RecoveryFile]:
    disk, recovery = SimDisk(), RecoveryFile(1 << 21, b"\x01\x0bcommand", RECORD)
    store_recovery(disk, recovery)
    return disk, recovery


def test_a_recovery_survives_its_file_and_is_removed_when_it_is_complete() -> None:
    disk, recovery = stored_recovery()
    assert load_recovery(disk) == recovery
    with pytest.raises(StartRefused, match="run muster recover again"):
        refuse_unfinished(disk)
    remove_recovery(disk)
    assert load_recovery(disk) is None
    refuse_unfinished(disk)


def test_each_flipped_bit_and_each_cut_of_its_file_is_found() -> None:
    whole = stored_recovery()[0].content(RECOVERY_FILE)
    for at in range(len(whole) * 8):
        disk, _ = stored_recovery()
        disk.damage(RECOVERY_FILE, at // 8, bytes([whole[at // 8] ^ 1 << at % 8]))
        with pytest.raises((Corruption, UnsupportedFormat)):
            load_recovery(disk)
        with pytest.raises(StartRefused):
            refuse_unfinished(disk)
    for size in range(len(whole)):
        disk, _ = stored_recovery()
        file = disk.open(RECOVERY_FILE)
        file.truncate(size)
        file.close()
        with pytest.raises(Corruption):
            load_recovery(disk)


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x02" + bytes(40), b"\x01" + bytes(12) + pack_record(RECORD) + b"x"])
def test_a_file_that_another_release_has_written_is_no_recovery(body: bytes) -> None:
    from muster_coordinator.replica.bootstrap import identity

    disk = SimDisk()
    identity.store(disk, RECOVERY_FILE, 0x4D55_5243, body)
    with pytest.raises((Corruption, UnsupportedFormat)):
        load_recovery(disk)
