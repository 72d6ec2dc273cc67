"""Runs one scenario file: commands with the output they must produce, in the manner of etcd's data-driven tests.

A file is a list of blocks: command lines, a line `----`, the expected output up to an empty line. `#` begins a comment.
Commands (n, m are nodes):

    cluster SIZE [heartbeats=host] [inflight=N] [append_bytes=N] [uncommitted=N]   first command of a file
            [members=N]     only the first N nodes are members, and members may change
    change n voters=m,... [learners=m,...]
    members n ...           the configuration in effect, and the index of its entry
    time BY                 the clock moves; nobody is told
    advance n ...           tell n that its deadline may have passed
    campaign n | step-down n | transfer n to=m | crash n | restart n
    loses n COUNT           while it is down: the last entries of its log are damaged
    suspend n               its start has found that something is lost
    propose n WORD ... [term=T]      one NORMAL entry a word
    read n CONTEXT
    ready n                 take one Ready, print it, queue its write
    disk n [COUNT]          complete the oldest writes, which releases what waits for them
    deliver n [from=m] [type=T] [count=N]     hand over letters addressed to n, oldest first
    drop n [from=m] [type=T]                  lose them
    repeat n [from=m] [type=T]                deliver them and keep copies in flight
    flight                  print what is in flight
    run [n ...]             readys, writes and letters between these nodes (default all) until nothing moves
    host-heartbeats n                 the host of n begins a round of coalesced heartbeats
    lost n peer=m | unreachable n peer=m
    checkpoint n [at=I] [keep=yes]   durable checkpoint, log compacted (not with keep=yes)
    install n [from=m at=I term=T]   the checkpoint n was offered (or this one) has arrived
    status n ... | log n ... | progress n
"""

from collections.abc import Callable

from muster_coordinator.raft.members import decode_config
from muster_coordinator.raft.messages import (
    KNOWS_SUSPENSION,
    NOBODY,
    Entry,
    EntryKind,
    Message,
    MsgType,
    Ready,
    Refused,
)
from muster_coordinator.raft.quorum import Config
from muster_coordinator.raft.timing import FLOW

from tests.raft.network import HostHeartbeat, HostHeartbeatReply, Letter, Network, Options


def show_entry(entry: Entry) -> str:
    text = f"{entry.index}/{entry.term}"
    if entry.kind == EntryKind.CONF:
        return f"{text} {show_config(decode_config(entry.data))}"
    return f"{text} NOOP" if entry.kind == EntryKind.NOOP else f"{text} {entry.data.decode()}"


def show_config(config: Config) -> str:
    halves = (config.voters, config.outgoing, config.learners)
    voters, outgoing, learners = (" ".join(map(str, half)) for half in halves)
    return (
        f"({voters or 'nobody'}"
        + (f" from {outgoing}" if outgoing else "")
        + (f", learners {learners}" if learners else "")
        + ")"
    )


def show_entries(entries: tuple[Entry, ...]) -> str:
    return "[" + ", ".join(show_entry(entry) for entry in entries) + "]"


def show_letter(letter: Letter) -> str:
    head = f"{letter.sender}>{letter.to}"
    if isinstance(letter, HostHeartbeat):
        return f"{head} host-heartbeat t{letter.term} commit={letter.commit} round={letter.round}"
    if isinstance(letter, HostHeartbeatReply):
        accepted = "accepted" if letter.accepted else "REJECTED"
        return f"{head} host-heartbeat-reply t{letter.term} {accepted} round={letter.round}"
    return f"{head} {MsgType(letter.type).name} t{letter.term}{_fields(letter)}"


def _fields(m: Message) -> str:
    kind = MsgType(m.type)
    if kind in (MsgType.PRE_VOTE, MsgType.VOTE):
        return f" last={m.index}/{m.log_term}" + (" forced" if m.context else "")
    if kind in (MsgType.PRE_VOTE_REPLY, MsgType.VOTE_REPLY):
        return " REJECTED" if m.reject else " granted"
    if kind == MsgType.APPEND:
        released = " RELEASED" if m.context > KNOWS_SUSPENSION else ""
        return f" prev={m.index}/{m.log_term} commit={m.commit} {show_entries(m.entries)}{released}"
    if kind == MsgType.APPEND_REPLY:
        suspended = " SUSPENDED" if m.context else ""
        return (f" REFUSED {m.index} hint={m.hint}/{m.log_term}" if m.reject else f" match={m.index}") + suspended
    if kind == MsgType.HEARTBEAT:
        return f" commit={m.commit} round={m.context}"
    if kind == MsgType.HEARTBEAT_REPLY:
        return f" round={m.context}" + (" NOT ACCEPTED" if m.reject else "")
    if kind == MsgType.SNAPSHOT:
        return f" checkpoint={m.index}/{m.log_term}"
    return ""


def show_ready(node: int, ready: Ready) -> list[str]:
    out = []
    if ready.soft_state is not None:
        leader = "nobody" if ready.soft_state.leader == NOBODY else ready.soft_state.leader
        out.append(f"{node}: {ready.soft_state.role.name} t{ready.soft_state.term} leader={leader}")
    if ready.hard_state is not None:
        out.append(
            f"{node}: hard t{ready.hard_state.term} vote={ready.hard_state.vote} commit={ready.hard_state.commit}"
        )
    if ready.entries:
        out.append(f"{node}: write {show_entries(ready.entries)}")
    out += [f"{node}: send {show_letter(m)}" for m in ready.messages]
    out += [f"{node}: after write {show_letter(m)}" for m in ready.after_persist]
    if ready.committed:
        out.append(f"{node}: apply {show_entries(ready.committed)}")
    out += [f"{node}: grant read {grant.context} at {grant.index}" for grant in ready.grants]
    out += [f"{node}: lost read {context}" for context in ready.lost_reads]
    return out or [f"{node}: nothing"]


class Scenario:
    """State of one file."""

    network: Network

    def __init__(self) -> None:
        self.commands: dict[str, Callable[[list[str], dict[str, str]], list[str]]] = {
            name.removeprefix("do_").replace("_", "-"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }

    def command(self, line: str) -> list[str]:
        """Output lines of one command."""
        words = line.split("#")[0].split()
        arguments = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        return self.commands[words[0]](arguments, options)

    def core(self, word: str):
        return self.network.nodes[int(word)].core

    def nodes(self, words: list[str]) -> list[int]:
        return [int(word) for word in words] or list(self.network.voters)

    def do_cluster(self, words: list[str], options: dict[str, str]) -> list[str]:
        flow = FLOW._replace(
            inflight_appends_max=int(options.get("inflight", FLOW.inflight_appends_max)),
            append_bytes_max=int(options.get("append_bytes", FLOW.append_bytes_max)),
            uncommitted_entries_max=int(options.get("uncommitted", FLOW.uncommitted_entries_max)),
        )
        self.network = Network(
            int(words[0]),
            Options(
                own_heartbeats=options.get("heartbeats") != "host",
                flow=flow,
                members=int(options.get("members", 0)),
            ),
        )
        return []

    def do_time(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.network.now_ms += int(words[0])
        return []

    def do_advance(self, words: list[str], options: dict[str, str]) -> list[str]:
        for node in self.nodes(words):
            self.network.nodes[node].core.advance(self.network.now_ms)
        return []

    def do_campaign(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.core(words[0]).campaign(self.network.now_ms)
        return []

    def do_step_down(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.core(words[0]).step_down(self.network.now_ms)
        return []

    def do_abdicate(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.core(words[0]).abdicate(self.network.now_ms)
        return []

    def do_ahead(self, words: list[str], options: dict[str, str]) -> list[str]:
        return [str(self.core(words[0]).ahead_of_own_disk())]

    def do_transfer(self, words: list[str], options: dict[str, str]) -> list[str]:
        return [] if self.core(words[0]).transfer(self.network.now_ms, int(options["to"])) else ["no"]

    def do_crash(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.network.crash(int(words[0]))
        return []

    def do_restart(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.network.restart(int(words[0]))
        return self.do_status(words[:1], {})

    def do_loses(self, words: list[str], options: dict[str, str]) -> list[str]:
        held = self.network.nodes[int(words[0])].disk.entries
        for index in sorted(held)[-int(words[1]) :]:
            del held[index]
        return []

    def do_suspend(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.core(words[0]).suspend()
        return []

    def do_propose(self, words: list[str], options: dict[str, str]) -> list[str]:
        items = tuple((EntryKind.NORMAL, word.encode()) for word in words[1:])
        term = int(options["term"]) if "term" in options else None
        result = self.core(words[0]).propose(self.network.now_ms, items, term)
        return [f"refused: {result.value}"] if isinstance(result, Refused) else []

    def do_change(self, words: list[str], options: dict[str, str]) -> list[str]:
        voters, learners = (
            tuple(int(word) for word in options.get(key, "").split(",") if word) for key in ("voters", "learners")
        )
        result = self.core(words[0]).change_members(voters, learners)
        return [f"refused: {result.value}"] if isinstance(result, Refused) else []

    def do_members(self, words: list[str], options: dict[str, str]) -> list[str]:
        placed = [(node, self.network.nodes[node].core.members.newest) for node in self.nodes(words)]
        return [f"{node}: {show_config(newest.config)} since {newest.at}" for node, newest in placed]

    def do_read(self, words: list[str], options: dict[str, str]) -> list[str]:
        round_no = self.network.round + 1
        return [] if self.core(words[0]).read(self.network.now_ms, int(words[1]), round_no) else ["no"]

    def do_ready(self, words: list[str], options: dict[str, str]) -> list[str]:
        return show_ready(int(words[0]), self.network.take(int(words[0])))

    def do_disk(self, words: list[str], options: dict[str, str]) -> list[str]:
        out: list[str] = []
        for _ in range(int(words[1]) if len(words) > 1 else 1):
            write = self.network.complete_write(int(words[0]))
            out += [f"released {show_letter(m)}" for m in write.released]
        return out

    def _pick(self, words: list[str], options: dict[str, str]) -> list[Letter]:
        def fits(letter: Letter) -> bool:
            if letter.to != int(words[0]) or ("from" in options and letter.sender != int(options["from"])):
                return False
            kind = MsgType(letter.type).name if isinstance(letter, Message) else "HOST-HEARTBEAT"
            return options.get("type", kind) == kind

        picked = [letter for letter in self.network.letters if fits(letter)]
        return picked[: int(options.get("count", len(picked)))]

    def do_deliver(self, words: list[str], options: dict[str, str]) -> list[str]:
        picked = self._pick(words, options)
        for letter in picked:
            self.network.letters.remove(letter)
            self.network.deliver(letter)
        return [show_letter(letter) for letter in picked] or ["no such letter"]

    def do_repeat(self, words: list[str], options: dict[str, str]) -> list[str]:
        picked = self._pick(words, options)
        for letter in picked:
            self.network.deliver(letter)
        return [show_letter(letter) for letter in picked] or ["no such letter"]

    def do_drop(self, words: list[str], options: dict[str, str]) -> list[str]:
        picked = self._pick(words, options)
        for letter in picked:
            self.network.letters.remove(letter)
        return [f"lost {show_letter(letter)}" for letter in picked] or ["no such letter"]

    def do_flight(self, words: list[str], options: dict[str, str]) -> list[str]:
        return [show_letter(letter) for letter in self.network.letters] or ["nothing"]

    def do_run(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.network.run(tuple(self.nodes(words)) if words else None)
        return []

    def do_host_heartbeats(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.network.heartbeat_all(int(words[0]))
        return []

    def do_lost(self, words: list[str], options: dict[str, str]) -> list[str]:
        core = self.core(words[0])
        core.peer_lost(self.network.now_ms, int(options["peer"]))
        return [f"deadline in {core.deadline_ms - self.network.now_ms} ms"]

    def do_unreachable(self, words: list[str], options: dict[str, str]) -> list[str]:
        self.core(words[0]).peer_unreachable(int(options["peer"]))
        return []

    def do_checkpoint(self, words: list[str], options: dict[str, str]) -> list[str]:
        node = int(words[0])
        core = self.core(words[0])
        index = int(options.get("at", core.applied))
        if "keep" in options:
            core.checkpointed(index, core.log.term_at(index))
        else:
            self.network.checkpoint(node, index)
        return [f"{node}: checkpoint {core.log.checkpoint[0]}/{core.log.checkpoint[1]}, log from {core.first_index}"]

    def do_install(self, words: list[str], options: dict[str, str]) -> list[str]:
        node = int(words[0])
        offer = self.core(words[0]).snapshot_offer
        if "from" in options:
            offer = int(options["from"]), int(options["at"]), int(options["term"])
        if offer is None:
            return ["nothing was offered"]
        source, index, term = offer
        taken = self.network.install(node, source, index, term)
        return [f"{node}: checkpoint {index}/{term} {'taken' if taken else 'refused'}"]

    def do_status(self, words: list[str], options: dict[str, str]) -> list[str]:
        out = []
        for node in self.nodes(words):
            me = self.network.nodes[node]
            status = me.core.status()
            leader = "nobody" if status.leader == NOBODY else status.leader
            out.append(
                f"{node}: {status.role.name if me.up else 'DOWN'} t{status.term} vote={status.vote} leader={leader} "
                f"commit={status.commit} applied={status.applied} last={status.last_index} stable={status.stable_index}"
                + (" SUSPENDED" if status.suspended else "")
            )
        return out

    def do_log(self, words: list[str], options: dict[str, str]) -> list[str]:
        out = []
        for node in self.nodes(words):
            log = self.network.nodes[node].core.log
            entries: tuple[Entry, ...] = ()
            while log.first_index + len(entries) <= log.last_index:
                entries += log.slice(log.first_index + len(entries), log.last_index + 1, 1 << 30)[0]
            start = f"after {log.compacted_index}/{log.compacted_term} " if log.compacted_index else ""
            out.append(f"{node}: {start}{show_entries(entries)}")
        return out

    def do_progress(self, words: list[str], options: dict[str, str]) -> list[str]:
        return [
            f"{peer}: {view.state.name} match={view.match} next={view.next} inflight={view.inflight}"
            for peer, view in self.core(words[0]).progress().items()
        ] or ["not leader"]


def run_scenario(text: str) -> str:
    """The file with its outputs as they are."""
    scenario = Scenario()
    out: list[str] = []
    output: list[str] = []
    skipping = False
    for line in [*text.splitlines(), ""]:
        if skipping:
            if line.strip():
                continue
            skipping = False
            out += [*output, ""]
            output = []
        elif line.strip() == "----":
            out.append(line)
            skipping = True
            output = output or ["ok"]
        else:
            out.append(line)
            if line.strip() and not line.startswith("#"):
                output += scenario.command(line)
    return "\n".join(out).rstrip("\n") + "\n"
