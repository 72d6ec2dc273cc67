"""Single cores in a given state, and the messages that others would send them."""

from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.messages import NOBODY, Entry, EntryKind, HardState, Message, MsgType, Ready, Role
from muster_coordinator.raft.timing import FLOW, Flow, Timing

from tests.made_settings import TIMING
from tests.raft.network import Disk, FixedRand

NOW = 10_000


def entries(terms: tuple[int, ...], first: int = 1) -> tuple[Entry, ...]:
    """Entries of these terms, from index `first`."""
    return tuple(Entry(term, first + i, EntryKind.NORMAL, b"%d/%d" % (first + i, term)) for i, term in enumerate(terms))


def make_core(
    terms: tuple[int, ...] = (),
    *,
    term: int | None = None,
    vote: int = NOBODY,
    commit: int = 0,
    node: int = 1,
    size: int = 3,
    compacted: tuple[int, int] = (0, 0),
    flow: Flow = FLOW,
    timing: Timing = TIMING,
    own_heartbeats: bool = True,
    cache_bytes_max: int = 1 << 20,
) -> RaftCore:
    """A restarted follower whose durable log holds entries of `terms` behind `compacted`."""
    disk = Disk()
    disk.compacted = compacted
    disk.entries = {entry.index: entry for entry in entries(terms, compacted[0] + 1)}
    core = RaftCore(
        node=node,
        voters=tuple(range(1, size + 1)),
        log=disk.log(cache_bytes_max),
        hard_state=HardState(max((*terms, compacted[1])) if term is None else term, vote, commit),
        applied=compacted[0],
        rand=FixedRand(node),
        timing=timing,
        flow=flow,
        own_heartbeats=own_heartbeats,
    )
    core.advance(NOW)
    return core


def persist(core: RaftCore, ready: Ready | None = None) -> Ready:
    """Take a Ready (or use this one), write it, apply what is committed."""
    ready = core.ready() if ready is None else ready
    core.persisted(ready.persist_term, ready.persist_index)
    if ready.committed:
        core.applied_to(ready.committed[-1].index)
    return ready


def settle(core: RaftCore) -> list[Message]:
    """Take, write and apply until nothing is left; all messages that left meanwhile."""
    sent: list[Message] = []
    while core.has_ready():
        ready = persist(core)
        sent += ready.messages + ready.after_persist
    return sent


def make_leader(terms: tuple[int, ...] = (), *, commit_noop: bool = True, **options) -> RaftCore:
    """Leader of the next term, elected by everybody; with `commit_noop` all followers hold its log."""
    core = make_core(terms, **options)
    core.campaign(NOW)
    settle(core)
    for peer in core.peers:
        core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, peer, core.node, core.term + 1))
    settle(core)
    for peer in core.peers:
        core.step(NOW, Message(MsgType.VOTE_REPLY, peer, core.node, core.term))
    assert core.role is Role.LEADER
    if commit_noop:
        settle(core)
        for peer in core.peers:
            acknowledge(core, peer)
        settle(core)
        assert core.commit == core.last_index
    return core


def acknowledge(core: RaftCore, peer: int, index: int | None = None) -> None:
    """`peer` tells the leader that it holds everything up to `index` (the end)."""
    index = core.last_index if index is None else index
    core.step(NOW, Message(MsgType.APPEND_REPLY, peer, core.node, core.term, index=index))


def append(
    core: RaftCore,
    previous: tuple[int, int],
    terms: tuple[int, ...],
    *,
    sender: int = 2,
    term: int | None = None,
    commit: int = 0,
) -> None:
    """`sender`, leading `term`, sends entries of `terms` that follow `previous` = (index, term)."""
    message = Message(
        MsgType.APPEND,
        sender,
        core.node,
        core.term if term is None else term,
        index=previous[0],
        log_term=previous[1],
        commit=commit,
        entries=entries(terms, previous[0] + 1),
    )
    core.step(NOW, message)


def vote_request(
    core: RaftCore, *, sender: int = 2, term: int, last: tuple[int, int], pre: bool = False, forced: bool = False
) -> None:
    """`sender` asks for a vote in `term`; its log ends at `last` = (index, term)."""
    kind = MsgType.PRE_VOTE if pre else MsgType.VOTE
    core.step(NOW, Message(kind, sender, core.node, term, index=last[0], log_term=last[1], context=int(forced)))


def log_terms(core: RaftCore) -> list[int | None]:
    """Terms of all entries that are not compacted."""
    return [core.log.term_at(index) for index in range(core.first_index, core.last_index + 1)]


def kinds(messages: list[Message] | tuple[Message, ...]) -> list[MsgType]:
    """Types only."""
    return [MsgType(message.type) for message in messages]
