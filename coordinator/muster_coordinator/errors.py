"""The three families of errors, and Kafka's error codes.

MusterError
├── CallerError            the caller's fault: becomes a typed answer, and affects only the caller
│   ├── ApiError(code)     answered with a Kafka error code
│   └── WireError          the bytes are not a request: the connection is closed
├── EnvironmentFault       disk, peers, timeouts: retried with a bound, or reported as a condition
│   ├── UnsupportedFormat  our own bytes of a version or kind that this binary does not know: refused, never guessed
│   ├── Corruption         bytes on disk that no longer match their check: refuse to start
│   │   └── SegmentDamaged  the same in a segment: reported, reads get an error, fetched again from a peer
│   ├── DiskFull           no space for bytes that are also stored elsewhere: they are written later
│   └── StorageFailed      write or fsync failed: the process ends (raft rule 30)
└── (Our own bugs are assertions. In a handler, before anything is proposed, they end the request; anywhere else the
     process.)
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
    NETWORK_EXCEPTION = 13
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
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
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
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    TRANSACTION_ABORTABLE = 120


class MusterError(Exception):
    """Root of all errors that are not bugs of ours."""


class CallerError(MusterError):
    """An error that the caller caused."""


ERROR_MESSAGE_CHARS_MAX = 1_000
"""A message that quotes the client's input is cut at this length: with a name of 32,767 bytes it would not fit into a
string."""


class ApiError(CallerError):
    """A request that is answered with `code`."""

    def __init__(self, code: Code, message: str = "") -> None:
        message = message[:ERROR_MESSAGE_CHARS_MAX]
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class WireError(CallerError):
    """Bytes that are not a request; their connection is closed."""


class EnvironmentFault(MusterError):
    """A failure outside the process: disk, network, operating system."""


class UnsupportedFormat(EnvironmentFault):
    """Own bytes (command, checkpoint, peer payload) of a version or kind above ours. Refused (decision 16)."""


class Corruption(EnvironmentFault):
    """Stored bytes fail their check, and a torn write cannot be the reason. The replica refuses to start."""


class SegmentDamaged(Corruption):
    """Stored batches are not what was written. The replica starts in spite of it: see `replica.snapshots.damage`."""

    def __init__(self, base: int, message: str) -> None:
        super().__init__(message)
        self.base = base
        """Base offset of the segment's file."""


class DiskFull(EnvironmentFault):
    """The disk has no space for something that the WAL or memory holds too, so no promise depends on it. The code that
    gets it leaves everything unchanged and tries again later."""


class StorageFailed(EnvironmentFault):
    """A write or fsync failed. The process must end, because the kernel may have dropped dirty pages (raft rule 30)."""


def no_space(error: BaseException) -> bool:
    """Whether the disk or a quota has no space. Any other error of the disk is a failure."""
    return isinstance(error, OSError) and error.errno in _NO_SPACE


def ends_process(error: BaseException) -> bool:
    """Whether the process must end after this error, wherever it occurred. An error of the disk or the memory is never
    only a matter of the request during which it occurred."""
    return isinstance(error, EnvironmentFault | OSError | MemoryError) or not isinstance(error, Exception)
