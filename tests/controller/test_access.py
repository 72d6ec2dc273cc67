"""ACLs and quotas in the controller's log: what its commands do, refuse and keep."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.controller.checkpoint import ControllerCheckpoint, decode_checkpoint
from muster_coordinator.controller.commands import AddAcls, AlterQuotas, QuotaChange, RemoveAcls
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.security import limits
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.quota_entities import QuotaEntity

from tests.controller.cluster_commands import Log, form, register

READ = Acl(2, "orders", 3, "User:a", "*", 3, 3)
WRITE = READ._replace(operation=4)
USER: QuotaEntity = (("user", "a"),)
BOTH: QuotaEntity = (("client-id", ""), ("user", "a"))


def secured() -> Log:
    return Log(
        form(feature_level=MEMBERS_LEVEL), *(register(n, feature_max=MEMBERS_LEVEL, uuid=b"%016d" % n) for n in (1, 2))
    )


def quota(entity: QuotaEntity, key: str, value: float | None) -> AlterQuotas:
    return AlterQuotas(changes=(QuotaChange(entity=entity, key=key, value=value),))


def test_acls_are_added_and_removed_and_a_repetition_does_no_harm() -> None:
    log = secured()
    for _ in range(2):
        assert log.apply(AddAcls(acls=(READ, WRITE))).error == 0
        assert log.cluster.acls == {READ, WRITE}
    for _ in range(2):
        assert log.apply(RemoveAcls(acls=(WRITE,))).error == 0
        assert log.cluster.acls == {READ}


@pytest.mark.parametrize(
    "command", [AddAcls(acls=(READ,)), RemoveAcls(acls=(READ,)), quota(USER, "producer_byte_rate", 1.0)]
)
def test_releases_below_could_not_read_them(command: AddAcls) -> None:
    log = Log(form(feature_level=2))
    result = log.apply(command)
    assert result.error == Code.UNSUPPORTED_VERSION
    assert (log.cluster.acls, dict(log.cluster.quotas)) == (frozenset(), {})


def test_one_that_is_not_valid_adds_none_of_its_command() -> None:
    log = secured()
    result = log.apply(AddAcls(acls=(READ, WRITE._replace(principal="nobody"))))
    assert result.error == Code.INVALID_REQUEST
    assert "nobody" in result.message
    assert not log.cluster.acls


def test_a_cluster_has_so_many_acls_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_coordinator.controller.access.ACLS_MAX", 3)
    log = secured()
    three = tuple(READ._replace(name=f"t{n}") for n in range(3))
    assert log.apply(AddAcls(acls=three)).error == 0
    assert log.apply(AddAcls(acls=(READ,))).error == Code.POLICY_VIOLATION
    assert log.apply(AddAcls(acls=three)).error == 0, "those that are there are no more"
    too_many = (READ,) * (limits.ACLS_OF_A_COMMAND_MAX + 1)
    assert log.apply(AddAcls(acls=too_many)).error == Code.INVALID_REQUEST


def test_quotas_are_set_and_removed() -> None:
    log = secured()
    for command in (
        quota(USER, "producer_byte_rate", 1_000.0),
        quota(USER, "consumer_byte_rate", 500.0),
        quota(BOTH, "request_percentage", 12.5),
        quota((("ip", ""),), "connection_creation_rate", 10.0),
    ):
        assert log.apply(command).error == 0
    assert log.cluster.quotas[USER] == (("consumer_byte_rate", 500.0), ("producer_byte_rate", 1_000.0))
    assert log.apply(quota(USER, "producer_byte_rate", None)).error == 0
    assert log.apply(quota(USER, "consumer_byte_rate", None)).error == 0
    assert set(log.cluster.quotas) == {BOTH, (("ip", ""),)}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ((), "producer_byte_rate", 1.0),
        ((("broker", "1"),), "producer_byte_rate", 1.0),
        ((("ip", "10.0.0.1"), ("user", "a")), "connection_creation_rate", 1.0),
        (USER, "connection_creation_rate", 1.0),
        ((("ip", "10.0.0.1"),), "producer_byte_rate", 1.0),
        (USER, "made_up", 1.0),
        (USER, "producer_byte_rate", 0.0),
        (USER, "producer_byte_rate", -1.0),
        (USER, "producer_byte_rate", 1.5),
        ((("user", "n" * 1_025),), "producer_byte_rate", 1.0),
    ],
)
def test_what_is_no_quota_is_refused(entity: QuotaEntity, key: str, value: float) -> None:
    log = secured()
    assert log.apply(quota(entity, key, value)).error == Code.INVALID_REQUEST
    assert not log.cluster.quotas


def full() -> Log:
    log = secured()
    log.apply(AddAcls(acls=(WRITE, READ, READ._replace(resource_type=7, name="n" * 1_024, host="h" * 1_024))))
    log.apply(quota(BOTH, "request_percentage", 0.1))
    return log


def test_a_checkpoint_has_all_of_it() -> None:
    log = full()
    body = log.machine.image().encode()
    other = ControllerMachine()
    other.restore(body)
    assert other.cluster == log.cluster
    assert other.state_hash() == log.machine.state_hash()
    assert isinstance(log.machine.image(), ControllerCheckpoint)


def test_the_order_in_which_acls_came_is_not_in_the_state() -> None:
    one, other = secured(), secured()
    one.apply(AddAcls(acls=(READ, WRITE)))
    other.apply(AddAcls(acls=(WRITE, READ)))
    assert one.machine.state_hash() == other.machine.state_hash()


@settings(max_examples=50)
@given(st.data())
def test_one_flipped_bit_is_another_state_or_an_error(data: st.DataObject) -> None:
    head = bytearray(full().machine.image().encode().head)
    at = data.draw(st.integers(len(head) - 2_300, len(head) - 1))
    head[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        state = decode_checkpoint(CheckpointBody(bytes(head), ()))
    except Corruption:
        return
    assert state.encode().head == bytes(head), "two spellings of one state would part the hashes"
