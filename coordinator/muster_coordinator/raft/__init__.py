"""A Raft consensus core for one group: no clock, no disk, no network, no randomness of its own.

Problem: N offsets partitions, each a replicated log whose leader *is* the coordinator of its groups.
Mechanism: etcd-raft's semantics (pre-vote and check-quorum always on, asynchronous-storage `Ready`), with time handed
in (`now_ms`) and no per-group tick: the host keeps one deadline heap and coalesces heartbeats of all groups into one
heartbeat per peer (decision 19). Members change by joint consensus (`change`, ADR 37), where whoever makes the core
can store a configuration; none of our hosts can yet. What it does not do: leases.

The surface (`core.RaftCore`), all calls synchronous, none raising for anything a peer can send:

    RaftCore(node=, voters= or configs=, log=, hard_state=, applied=, rand=, timing=, flow=, own_heartbeats=)
        own_heartbeats False: the host sends heartbeats for all groups; else the core emits HEARTBEAT itself
    step(now_ms, message, contact)         a peer message; `contact` as for `advance`, of use with (pre-)vote requests
    propose(now_ms, items, expected_term) -> index | Refused   items = ((kind, data), ...); the first index given
    read(now_ms, context, round_no) -> bool    ask for a ReadGrant; False when not leader. `round_no`: a host round that
                                           starts after this call
    change_members(voters, learners) -> index | Refused    with `configs`: the entry that begins the change
    config_at(index) -> Config | None      what a checkpoint there has to carry; None: not known here
    is_first_config(index) -> bool        nothing, since no entry up to there brought one
    transfer(now_ms, target) -> bool       leadership transfer; proposals refused meanwhile; aborts after an election
                                           timeout
    persisted(term, index)                 a Ready's (persist_term, persist_index) and all before it are durable
    applied_to(index)                      the host applied up to here
    advance(now_ms, contact)               the deadline passed; `contact[peer]` = monotonic ms of the last proof of life
                                           of that peer *for this group and term* that the host has beyond `step`
    heartbeat(now_ms, leader, term, commit) -> bool   a coalesced heartbeat names this group (follower's side)
    heartbeat_commit(peer) -> index        what a heartbeat to `peer` may name as committed
    heartbeat_ok(sent_ms, peer, round_no)  a heartbeat of that round was accepted by `peer` for this group and its
                                           current term: counts for check-quorum, confirms reads, un-pauses a probing
                                           peer
    heartbeat_rejected(now_ms, peer, term) `peer` did not accept a heartbeat because it is in `term`
    wants_heartbeats                       leading, and single `heartbeat_ok` calls are of use now
    quorum_heard(since_ms, contact) -> bool    leading, and a quorum showed life since then
    peer_unreachable(peer) / peer_lost(now_ms, peer)   link broke / did not come back: a follower whose leader is lost
                                           campaigns after a short random delay (decision 17)
    campaign(now_ms)                       start pre-vote now
    step_down(now_ms)                      a leader gives up
    abdicate(now_ms)                       a leader gives up since its disk is stuck, and names an heir
    ahead_of_own_disk() -> int             who has what this disk is slow to take, and so may lead instead
    checkpointed(index, term)              a checkpoint is durable: followers far behind are offered it
    compacted(index, term)                 entries up to here may be dropped from memory
    snapshot_offer                         (leader, index, term) of a checkpoint to fetch, or None
    snapshot_installed(index, term, config) -> bool    an installed checkpoint is durable here; False: core is past it
    skip_to(index)                             the state machine took it all the same: nothing it covers is handed out
    has_ready() / ready() -> Ready         each Ready is taken exactly once
    deadline_ms                            when `advance` is wanted next; 0 until the first one arms the timers
    role term leader commit applied handed last_index first_index term_start_index committed_in_term progress() status()

See `messages.Ready` for what may happen before what, and docs/raft-rules.md for what a core must not get wrong.
"""
