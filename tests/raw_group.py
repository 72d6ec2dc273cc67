"""A group member in raw frames: every step of the protocol is a call; a test decides what happens between them."""

from datetime import timedelta
from typing import Any

from tests.cluster import wait_until
from tests.raw_client import Disconnected, RawClient, request

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH, FIND = 11, 14, 12, 13, 8, 9, 10
NONE, LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 0, 14, 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCE, MEMBER_ID_REQUIRED = 22, 25, 27, 79
RETRIABLE = {LOADING, NOT_AVAILABLE, NOT_COORDINATOR}


def find_coordinator(bootstrap: str, group: str, seconds: float = 20) -> tuple[int, str, int]:
    """(broker id, host, port) from the first replica that knows."""

    def ask() -> tuple[int, str, int] | None:
        for address in bootstrap.split(","):
            host, port = address.rsplit(":", 1)
            try:
                with RawClient(host, int(port), timeout_s=5) as client:
                    answer = client.call(request(FIND, 3, key=group, key_type=0))
            except Disconnected:
                continue
            if int(answer.error_code) == NONE:
                return int(answer.node_id), str(answer.host), int(answer.port)
        return None

    found: tuple[int, str, int] = wait_until(f"coordinator of {group}", ask, seconds, 0.02)
    return found


class RawMember:
    """One member of any protocol type. Answers are kio entities; `error_code` is an IntEnum."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *,
        protocol_type: str = "connect",
        protocols: tuple[tuple[str, bytes], ...] = (("default", b""),),
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 10_000,
    ) -> None:
        self.bootstrap, self.group = bootstrap, group
        self.protocol_type, self.protocols, self.instance = protocol_type, protocols, instance
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.member, self.generation, self.leader, self.protocol = "", -1, "", ""
        self.members: dict[str, bytes] = {}
        self.assignment = b""
        self.last_join: Any = None
        self._client: RawClient | None = None

    # --- connection

    def connect(self) -> RawClient:
        if self._client is None:
            _, host, port = find_coordinator(self.bootstrap, self.group)
            self._client = RawClient(host, port, timeout_s=max(self.session_ms, self.rebalance_ms) / 1000 + 10)
        return self._client

    def drop_connection(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def call(self, message: Any) -> Any:
        try:
            return self.connect().call(message)
        except Disconnected:
            self.drop_connection()
            raise

    # --- steps

    def send_join(self) -> int:
        """Send JoinGroup without waiting; take the answer with `take_join`."""
        return self.connect().send(self._join())

    def take_join(self, correlation: int | None = None) -> Any:
        answer = self.connect().receive(correlation)
        self._note_join(answer)
        return answer

    def join(self, seconds: float = 20) -> Any:
        """JoinGroup, with the second step when an id is handed out, tried again where the protocol says so."""
        wait_until("a coordinator that takes JoinGroup", self._try_join, seconds)
        return self.last_join

    def _try_join(self) -> bool:
        answer = self.call(self._join())
        if int(answer.error_code) == MEMBER_ID_REQUIRED:
            self.member = answer.member_id
            answer = self.call(self._join())
        self.last_join = answer
        self._note_join(answer)
        if int(answer.error_code) in RETRIABLE:
            self.drop_connection()
            return False
        return True

    def _join(self) -> Any:
        return request(
            JOIN,
            9,
            group_id=self.group,
            session_timeout=timedelta(milliseconds=self.session_ms),
            rebalance_timeout=timedelta(milliseconds=self.rebalance_ms),
            member_id=self.member,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[{"name": name, "metadata": metadata} for name, metadata in self.protocols],
            reason=None,
        )

    def _note_join(self, answer: Any) -> None:
        if int(answer.error_code) == NONE:
            self.member, self.generation, self.leader = answer.member_id, int(answer.generation_id), answer.leader
            self.protocol = answer.protocol_name
            self.members = {m.member_id: bytes(m.metadata) for m in answer.members}

    @property
    def is_leader(self) -> bool:
        return self.leader == self.member

    def send_sync(self, plan: dict[str, bytes] | None = None) -> int:
        return self.connect().send(self._sync(plan))

    def sync(self, plan: dict[str, bytes] | None = None) -> Any:
        answer = self.call(self._sync(plan))
        if int(answer.error_code) == NONE:
            self.assignment = bytes(answer.assignment)
        return answer

    def _sync(self, plan: dict[str, bytes] | None) -> Any:
        return request(
            SYNC,
            5,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            assignments=[{"member_id": m, "assignment": b} for m, b in (plan or {}).items()],
        )

    def heartbeat(self) -> int:
        answer = self.call(
            request(
                HEARTBEAT,
                4,
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member,
                group_instance_id=self.instance,
            )
        )
        return int(answer.error_code)

    def leave(self) -> Any:
        return self.call(
            request(
                LEAVE,
                5,
                group_id=self.group,
                members=[{"member_id": self.member, "group_instance_id": self.instance, "reason": "test"}],
            )
        )

    def commit(self, topic: str, offsets: dict[int, int], metadata: str = "") -> dict[int, int]:
        """Partition → error code."""
        return commit(self.connect(), self.group, topic, offsets, self.generation, self.member, self.instance, metadata)

    def fetch(self, topic: str, partitions: list[int]) -> dict[int, tuple[int, str, int]]:
        return fetch(self.connect(), self.group, topic, partitions)


def commit(
    client: RawClient,
    group: str,
    topic: str,
    offsets: dict[int, int],
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    metadata: str = "",
) -> dict[int, int]:
    """OffsetCommit v9; partition → error code."""
    answer = client.call(
        request(
            COMMIT,
            9,
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[
                {
                    "name": topic,
                    "partitions": [_commit_partition(p, o, metadata) for p, o in offsets.items()],
                }
            ],
        )
    )
    return {int(p.partition_index): int(p.error_code) for t in answer.topics for p in t.partitions}


def _commit_partition(partition: int, offset: int, metadata: str) -> Any:
    from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition

    return OffsetCommitRequestPartition(
        partition_index=partition,  # type: ignore[arg-type]
        committed_offset=offset,  # type: ignore[arg-type]
        committed_leader_epoch=-1,  # type: ignore[arg-type]
        committed_metadata=metadata,
    )


def fetch(client: RawClient, group: str, topic: str, partitions: list[int]) -> dict[int, tuple[int, str, int]]:
    """OffsetFetch v7; partition → (offset, metadata, error code). A group error is raised as AssertionError."""
    from kio.schema.offset_fetch.v7.request import OffsetFetchRequest, OffsetFetchRequestTopic

    answer = client.call(
        OffsetFetchRequest(
            group_id=group,  # type: ignore[arg-type]
            topics=(OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(partitions)),),  # type: ignore[arg-type]
            require_stable=False,
        )
    )
    if int(answer.error_code) != NONE:
        raise Refused(int(answer.error_code))
    return {
        int(p.partition_index): (int(p.committed_offset), str(p.metadata or ""), int(p.error_code))
        for t in answer.topics
        for p in t.partitions
    }


class Refused(AssertionError):
    """A group-level error of OffsetFetch."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code
