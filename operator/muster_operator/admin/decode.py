"""Answers of the admin API (docs/admin-api.schema.json) as views. Pure.

An answer without the documented shape is `Unknown`: a coordinator of another version may answer differently, and a
guess about a quorum is worse than no answer.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster_operator.world.cluster import MovesView, RaftGroupView, ReplicationView, ReplicaView, Seat
from muster_operator.world.group import Counted, GroupFacts
from muster_operator.world.views import Unknown

Json = Mapping[str, Any]
VERSION_CHARS_MAX = 60
FOLDER: Final = re.compile(r"[0-9a-f]{32}")
STUCK_MAX: Final = 3
STUCK_CHARS_MAX: Final = 200
QUALITIES: Final = frozenset({"exact", "estimated", "unknown"})


def replica_view(pod: str, ordinal: int, status: Json, partitions: Json) -> ReplicaView | Unknown:
    """`/v1/status` and `/v1/partitions` of one pod. The broker id must equal the pod's ordinal, because the address may
    be stale and belong to another pod by now."""
    try:
        broker_id = _int(status["broker"])
        if ordinal not in (-1, broker_id) or _int(partitions["broker"]) != broker_id:
            return Unknown(
                reason="WrongReplica", message=f"the address of {pod} is answered by broker {broker_id}, not {ordinal}"
            )
        drain = status["drain"]
        return ReplicaView(
            pod=pod,
            broker_id=broker_id,
            ready=bool(status["ready"]),
            not_ready=tuple(str(reason) for reason in status["not_ready"]),
            cluster_id=status["cluster_id"],
            drain_phase=str(drain["phase"]),
            leaderships=_int(status["leaderships"]),
            groups=tuple(_raft_group(one) for one in partitions["partitions"]),
            disk_low=bool(status["disk"]["low"]) if "disk" in status else False,
            version=_word(status.get("version")),
            feature_level=None if status.get("feature_level") is None else _int(status["feature_level"]),
            folder=_folder(status.get("replica_uuid")),
            seats=_seats(status.get("brokers") or ()),
            groups_to_change=_int(status.get("groups_to_change", 0)),
            voters=tuple(_int(one) for one in status.get("voters") or ()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unknown(
            reason="AnswerNotUnderstood",
            message=f"{pod} answers in a shape of another version ({type(error).__name__})",
        )


def group_facts(document: Json) -> GroupFacts | Unknown:
    """`/v1/groups/{group}`. What is None the coordinator does not report; before any join it reports generation -1."""
    try:
        generation = _int(document["generation"])
        at = document.get("last_rebalance_ms")
        reason = document.get("last_rebalance_reason")
        return GroupFacts(
            generation if generation >= 0 else None,
            None if at is None else _int(at),
            None if reason is None else str(reason),
            dict(_counted(document.get("offsets") or ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unknown(
            reason="AnswerNotUnderstood", message=f"the coordinator answers in another shape ({type(error).__name__})"
        )


def _counted(offsets: Iterable[Json]) -> Iterable[tuple[tuple[str, int], Counted]]:
    for one in offsets:
        behind = one.get("behind")
        if behind is None:
            continue
        records, quality = behind["records"], behind["quality"]
        if quality not in QUALITIES:
            raise ValueError("another word for how good a number is")
        known = None if records is None or quality == "unknown" else _int(records)
        yield (str(one["topic"]), _int(one["partition"])), Counted(records=known, exact=quality == "exact")


def moves_view(document: Json) -> MovesView | Unknown:
    """`/v1/balancer` of the controller's leader."""
    try:
        return MovesView(
            moving=_int(document["moving"]),
            paused=bool(document["paused"]),
            stuck=tuple(str(one)[:STUCK_CHARS_MAX] for one in document["stuck"][:STUCK_MAX]),
            reason=str(document["reason"])[:STUCK_CHARS_MAX],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unknown(
            reason="AnswerNotUnderstood", message=f"the coordinator answers in another shape ({type(error).__name__})"
        )


def replication_view(document: Json) -> ReplicationView | Unknown:
    """`/v1/replication-factor` of the controller's leader."""
    try:
        return ReplicationView(
            factor=_int(document["replication_factor"]),
            partitions_to_go=_int(document["partitions_to_go"]),
            moving=_int(document["moving"]),
            voters=len([_int(one) for one in document["controller_voters"]]),
            voters_to_be=_int(document["controller_voters_to_be"]),
            done=document["done"] is True,
            reason=str(document["reason"])[:STUCK_CHARS_MAX],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unknown(
            reason="AnswerNotUnderstood", message=f"the coordinator answers in another shape ({type(error).__name__})"
        )


def _raft_group(found: Json) -> RaftGroupView:
    leader, partition = found["leader"], found["partition"]
    return RaftGroupView(
        group=_int(found["group"]),
        topic=found["topic"],
        partition=None if partition is None else _int(partition),
        role=str(found["role"]),
        term=_int(found["term"]),
        leader=None if leader is None else _int(leader),
        voters=tuple(_int(voter) for voter in found["voters"]),
        last_index=_int(found["last_index"]),
        commit_index=_int(found["commit"]),
        applied_index=_int(found["applied"]),
        log_bytes=None if found.get("log_bytes") is None else _int(found["log_bytes"]),
        match={int(broker): _int(index) for broker, index in found["match"].items()},
        bindings={
            int(broker): None if binding is None else _int(binding)
            for broker, binding in found.get("bindings", {}).items()
        },
    )


def _seats(brokers: Iterable[Json]) -> dict[int, Seat]:
    """Coordinators of earlier releases do not report folders: then there are no seats."""
    return {
        _int(one["broker"]): Seat(
            folder=_folder(one["replica_uuid"]), binding=_int(one["binding"]), departing=one.get("departing") is True
        )
        for one in brokers
        if "replica_uuid" in one
    }


def _folder(value: object) -> str | None:
    """The uuid of a data folder, as the status and the admin API write it."""
    if value is None:
        return None
    if not isinstance(value, str) or FOLDER.fullmatch(value) is None:
        raise TypeError("not the uuid of a data folder")
    return value


def _word(value: object) -> str | None:
    """A short text from another program, cut to the bound of a status field; None for anything else."""
    return value[:VERSION_CHARS_MAX] if isinstance(value, str) and value else None


def _int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not a whole number")
    return value
