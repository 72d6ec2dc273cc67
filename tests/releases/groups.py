"""Groups of raw members: formed, described, and taken up again by a process that only knows what was written down."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.raw_client import Disconnected, RawClient, request
from tests.raw_group import NONE, RETRIABLE, RawMember, commit, fetch, find_coordinator

DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 15, 16, 42, 47
SESSION_MS = 1_800_000
REBALANCE_MS = 120_000
PATIENCE_S = 30
AGAIN_S = 0.05


def code_of(answer: Any) -> int:
    return int(answer.error_code)


def at_coordinator(bootstrap: str, group: str, ask: Callable[[RawClient], Any], code: Callable[[Any], int]) -> Any:
    """`ask` at the coordinator of the moment, again until it is answered and the answer's code is not retriable."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        last = None
        try:
            _, host, port = find_coordinator(bootstrap, group)
            with RawClient(host, port, timeout_s=10) as client:
                answer = ask(client)
            last = code(answer)
            if last not in RETRIABLE:
                return answer
        except Disconnected:
            pass
        assert time.monotonic() < deadline, f"{group}: no answer within {PATIENCE_S} s; last {last}"
        time.sleep(AGAIN_S)


def describe(bootstrap: str, group: str) -> dict[str, Any]:
    """DescribeGroups v5, as JSON keeps it. What members held before a rebalance is told since 0.2 only (changelog)."""
    message = request(DESCRIBE_GROUPS, 5, groups=[group], include_authorized_operations=False)
    answer = at_coordinator(bootstrap, group, lambda c: c.call(message), lambda a: code_of(a.groups[0]))
    found = answer.groups[0]
    assert code_of(found) == NONE, found
    return {
        "state": str(found.group_state),
        "protocol_type": str(found.protocol_type),
        "protocol": str(found.protocol_data),
        "members": {
            str(one.member_id): {
                "instance": one.group_instance_id,
                "client": [str(one.client_id), str(one.client_host)],
                "metadata": bytes(one.member_metadata).hex(),
                "assignment": bytes(one.member_assignment).hex() if str(found.group_state) == "Stable" else None,
            }
            for one in found.members
        },
    }


def listed(bootstrap: str) -> set[str]:
    """The groups of all coordinators."""
    found: set[str] = set()
    for address in bootstrap.split(","):
        host, port = address.rsplit(":", 1)
        with RawClient(host, int(port)) as client:
            answer = client.call(request(LIST_GROUPS, 4, states_filter=()))
        assert code_of(answer) == NONE, answer
        found |= {str(one.group_id) for one in answer.groups}
    return found


def commit_simple(bootstrap: str, group: str, topic: str, offsets: dict[int, int], metadata: str) -> None:
    """By nobody's member; acknowledged, or an error."""
    codes = at_coordinator(
        bootstrap, group, lambda c: commit(c, group, topic, offsets, metadata=metadata), lambda a: max(a.values())
    )
    assert set(codes.values()) == {NONE}, (group, codes)


def committed(bootstrap: str, group: str, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Partition → (offset, metadata); -1 and an empty text where there is none."""
    answers = at_coordinator(bootstrap, group, lambda c: fetch(c, group, topic, list(partitions)), lambda _: NONE)
    assert all(code == NONE for _, _, code in answers.values()), (group, answers)
    return {partition: (offset, metadata) for partition, (offset, metadata, _) in answers.items()}


def delete_group(bootstrap: str, group: str) -> None:
    message = request(DELETE_GROUPS, 2, groups_names=(group,))
    answer = at_coordinator(bootstrap, group, lambda c: c.call(message), lambda a: code_of(a.results[0]))
    assert code_of(answer.results[0]) == NONE, answer


def delete_offset(bootstrap: str, group: str, topic: str, partition: int) -> None:
    topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    message = request(OFFSET_DELETE, 0, group_id=group, topics=topics)
    answer = at_coordinator(bootstrap, group, lambda c: c.call(message), code_of)
    assert code_of(answer) == NONE, answer
    assert code_of(answer.topics[0].partitions[0]) == NONE, answer


def new_member(bootstrap: str, group: str, instance: str | None = None) -> RawMember:
    """Its protocols carry bytes of their own, which every release must give back."""
    protocols = (("first", f"{group}/{instance}".encode()), ("second", bytes(range(256))))
    return RawMember(
        bootstrap, group, protocols=protocols, instance=instance, session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS
    )


def form(members: Sequence[RawMember]) -> None:
    """Until all are in one generation, not yet synced."""
    for _ in range(10):
        together([member.join for member in members])
        if len({member.generation for member in members}) == 1 and sum(m.is_leader for m in members) == 1:
            return
    raise AssertionError([(m.member, m.generation) for m in members])


def synced(members: Sequence[RawMember]) -> None:
    """The leader's plan is stored, and everybody has his part."""
    leader = next(member for member in members if member.is_leader)
    plan = {m.member: f"{m.group}-{leader.generation}-{n}".encode() for n, m in enumerate(members)}
    together([lambda m=member: m.sync(plan if m is leader else None) for member in members])  # type: ignore[misc]
    for member in members:
        assert member.assignment == plan[member.member], member.member


def together(calls: Sequence[Callable[[], Any]]) -> None:
    errors: list[BaseException] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below, on the test's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S * 2)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a member was not answered"


def seat_of(member: RawMember) -> dict[str, Any]:
    """What a member has to remember, as JSON keeps it."""
    return {
        "group": member.group,
        "instance": member.instance,
        "member": member.member,
        "generation": member.generation,
        "leader": member.leader,
        "protocol": member.protocol,
    }


def member_of(bootstrap: str, seat: dict[str, Any]) -> RawMember:
    """The same member in another process, or at another time."""
    member = new_member(bootstrap, seat["group"], seat["instance"])
    member.member, member.generation = seat["member"], seat["generation"]
    member.leader, member.protocol = seat["leader"], seat["protocol"]
    return member


def heartbeat(member: RawMember) -> int:
    """The code, from the coordinator of the moment."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        code = None
        with contextlib.suppress(Disconnected):
            code = member.heartbeat()
        if code is not None and code not in RETRIABLE:
            return code
        member.drop_connection()
        assert time.monotonic() < deadline, f"{member.group}: no heartbeat answered; last {code}"
        time.sleep(AGAIN_S)
