"""Error codes for a client whose request's record could not be appended to the log (protocol notes 2.4)."""

from muster_coordinator.errors import Code

_CLIENT_CODE = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NETWORK_EXCEPTION: Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.MESSAGE_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.RECORD_LIST_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
}


def client_code(code: Code) -> Code:
    """The code to answer with; codes that clients of the group APIs know are returned unchanged."""
    return _CLIENT_CODE.get(code, code)
