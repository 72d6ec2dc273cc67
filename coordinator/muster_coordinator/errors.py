"""The three families of errors, and Kafka's error codes.

MusterError
├── CallerError            the caller's fault: becomes a typed answer, costs the caller only
│   ├── ApiError(code)     answered with a Kafka error code
│   └── WireError          the bytes are no request: the connection is closed
├── EnvironmentFault       disk, peers, time-outs: retried with a bound, or shown as a condition
│   ├── UnsupportedFormat  our own bytes of a version or kind that this binary does not know: refuse, never guess
│   ├── Corruption         bytes on disk that were once good and are not any more: refuse to start
│   │   └── SegmentDamaged  … of a segment: told, answered with an error, fetched again from a peer
│   ├── DiskFull           no space for bytes that are safe elsewhere: they wait here, and are written later
│   └── StorageFailed      write or fsync failed: the process ends (raft rule 30)
└── (our own bugs are assertions: met by a client's request before anything is proposed, they end that request; met
     anywhere else, the process)
"""

import errno
from enum import IntEnum

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Code(IntEnum):
    """Kafka error codes that Muster answers with (numbers and names: org.apache.kafka.common.protocol.Errors)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    KAFKA_STORAGE_ERROR = 56
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115


class MusterError(Exception):
    """Root of all errors that are not our own bugs."""


class CallerError(MusterError):
    """The caller's fault."""


ERROR_MESSAGE_CHARS_MAX = 1_000
"""A message that names what the caller sent is cut here: a name of 32,767 bytes and a word more fit no string."""


class ApiError(CallerError):
    """A request that is answered with `code`."""

    def __init__(self, code: Code, message: str = "") -> None:
        message = message[:ERROR_MESSAGE_CHARS_MAX]
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class WireError(CallerError):
    """Bytes that are no request; the connection that sent them is closed."""


class EnvironmentFault(MusterError):
    """The world around the process failed."""


class UnsupportedFormat(EnvironmentFault):
    """Own bytes (command, checkpoint, peer payload) of a version or kind above ours. Refused (decision 16)."""


class Corruption(EnvironmentFault):
    """Stored bytes that fail their check where a torn write cannot be the reason. The replica refuses to start."""


class SegmentDamaged(Corruption):
    """Stored batches are not what was written. No start is refused for it: see `replica.snapshots.damage`."""

    def __init__(self, base: int, message: str) -> None:
        super().__init__(message)
        self.base = base
        """Of the segment's file."""


class DiskFull(EnvironmentFault):
    """The disk has no space for something that no promise hangs on, since the WAL or memory holds it too: whoever meets
    it leaves everything as it was and tries again later."""


class StorageFailed(EnvironmentFault):
    """A write or fsync failed. The process must end: dirty pages may be gone (raft rule 30)."""


def no_space(error: BaseException) -> bool:
    """Did the disk, or a quota, refuse for want of space? Everything else that it refuses is a failure of it."""
    return isinstance(error, OSError) and error.errno in _NO_SPACE


def ends_process(error: BaseException) -> bool:
    """Must nothing go on after this error, whatever it was met in? What the disk or the memory refused is no matter of
    the request that met it."""
    return isinstance(error, EnvironmentFault | OSError | MemoryError) or not isinstance(error, Exception)
