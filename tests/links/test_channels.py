"""Who goes first on a peer link, and how many bytes may wait."""

from muster_coordinator.links.channels import APPEND, BULK, BULK_SHARE_BYTES, CONTROL, FORWARD, RULES, ChannelQueues


def taken(queues: ChannelQueues, budget: int = 1 << 30) -> list[bytes]:
    return queues.take(budget)[1::2]


def test_control_overtakes_everything_that_waits() -> None:
    queues = ChannelQueues()
    for channel, body in ((BULK, b"bulk"), (APPEND, b"append"), (FORWARD, b"forward"), (CONTROL, b"vote")):
        assert queues.offer(channel, b"h", body)
    order = taken(queues)
    assert order[0] == b"vote"
    assert order[-1] == b"bulk"


def test_a_channel_keeps_its_order() -> None:
    queues = ChannelQueues()
    bodies = [bytes([n]) for n in range(50)]
    for body in bodies:
        queues.offer(APPEND, b"h", body)
    assert taken(queues) == bodies


def test_append_and_forward_take_turns() -> None:
    queues = ChannelQueues()
    for n in range(3):
        queues.offer(APPEND, b"h", b"a%d" % n)
        queues.offer(FORWARD, b"h", b"f%d" % n)
    assert sorted(taken(queues, 2)[:1] + taken(queues, 2)[:1]) == [b"a0", b"f0"]


def test_bulk_gets_a_share_under_steady_load() -> None:
    queues = ChannelQueues()
    queues.offer(BULK, b"h", b"chunk")
    piece = bytes(64 * 1024)
    queues.offer(APPEND, b"h", piece)
    sent = 0
    while b"chunk" not in (got := taken(queues, 1)):
        sent += sum(map(len, got))
        queues.offer(APPEND, b"h", piece)
        assert sent <= BULK_SHARE_BYTES + 2 * len(piece)
    assert sent >= BULK_SHARE_BYTES - len(piece)


def test_bulk_waits_while_the_others_have_not_had_their_share() -> None:
    queues = ChannelQueues()
    queues.offer(BULK, b"h", b"chunk")
    queues.offer(APPEND, b"h", b"one")
    queues.offer(APPEND, b"h", b"two")
    assert taken(queues) == [b"one", b"two", b"chunk"]


def test_a_full_channel_refuses_and_the_others_do_not() -> None:
    queues = ChannelQueues()
    body = bytes(256 * 1024)
    accepted = 0
    while queues.offer(BULK, b"h", body):
        accepted += len(body) + 1
    assert RULES[BULK].unsent_bytes_max <= accepted < RULES[BULK].unsent_bytes_max + len(body) + 1
    assert not queues.has_room(BULK)
    assert queues.offer(CONTROL, b"h", b"heartbeat")
    queues.take(1 << 30)
    assert queues.has_room(BULK)
    assert queues.unsent_bytes() == 0


def test_the_budget_ends_after_the_frame_that_reaches_it() -> None:
    queues = ChannelQueues()
    for _ in range(4):
        queues.offer(APPEND, b"h", bytes(99))
    assert len(taken(queues, 150)) == 2
    assert len(taken(queues, 1)) == 1
