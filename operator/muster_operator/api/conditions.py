"""Every condition type and reason of both kinds, each with one line of documentation. Reasons are defined nowhere else.

A condition's `reason` is one of these words, its `message` a sentence. Status `Unknown` means that it could not be
observed. docs/operator-conditions.md is generated from this file; a test compares them.
"""

from enum import StrEnum


class Word(StrEnum):
    """A word that appears in the API, with the line that documents it."""

    text: str

    def __new__(cls, value: str, text: str = "") -> "Word":
        made = str.__new__(cls, value)
        made._value_ = value
        made.text = text
        return made


class ClusterCondition(Word):
    """Condition types of a CoordinatorCluster."""

    READY = "Ready", "Every coordinator is Ready and the intent has been carried out."
    QUORUM_AVAILABLE = (
        "QuorumAvailable",
        "Every Raft group has a leader and a majority that is caught up.",
    )
    SURVIVES_NODE_LOSS = "SurvivesNodeLoss", "Every Raft group keeps a majority when any one node is lost."
    PROGRESSING = "Progressing", "Something is being created, replaced or waited for."
    DEGRADED = "Degraded", "A problem that does not resolve by itself."
    SCALING_REFUSED = "ScalingRefused", "The number of coordinators cannot become `replicas` now; the message says why."
    VOLUME_LOST = "VolumeLost", "A coordinator's volume is gone, and its place is not taken by a new one yet."
    CERTIFICATES_READY = (
        "CertificatesReady",
        "Every certificate that a listener or peer needs is there and can be used. Only where there is TLS.",
    )
    PAUSED = "Paused", "Only the status is written."


class GroupCondition(Word):
    """Condition types of a ConsumerGroup."""

    READY = "Ready", "The group is Stable and every wanted consumer is Ready and a member."
    CLUSTER_REACHABLE = "ClusterReachable", "The group's coordinator answered in this pass."
    STATIC_MEMBERSHIP = (
        "StaticMembership",
        "Every member has its pod's name as group.instance.id: restarts within the session timeout cost no rebalance.",
    )
    PROGRESSING = "Progressing", "Something is being created, replaced or waited for, or the group is rebalancing."
    DEGRADED = "Degraded", "A problem that does not resolve by itself."
    PAUSED = "Paused", "Only the status is written."


class KafkaObjectCondition(Word):
    """Condition types of a Topic and of a User."""

    READY = "Ready", "The cluster has it as specified."
    CLUSTER_REACHABLE = "ClusterReachable", "The cluster answered in this pass."
    CREDENTIALS_READY = "CredentialsReady", "Of a User: the cluster knows its credentials, and its Secret has them."
    DEGRADED = "Degraded", "A problem that does not resolve by itself."
    PAUSED = "Paused", "Only the status is written."


class Reason(Word):
    """Reasons of conditions, decisions and Events of all kinds."""

    # Both kinds.
    ALL_READY = "AllReady", "Everything wanted exists, Ready and of the wanted revision."
    AS_EXPECTED = "AsExpected", "There is nothing to report."
    CONVERGED = "Converged", "Nothing is left to do."
    CREATING_CHILDREN = "CreatingChildren", "Its child objects are being created or changed."
    DELETING = "Deleting", "The object is being deleted; Kubernetes removes its child objects."
    PAUSED = "Paused", "It is paused by its annotation or field."
    NOT_PAUSED = "NotPaused", "It is not paused."
    INVALID_SPEC = "InvalidSpec", "The spec breaks a rule; the message names the field."
    NAME_TAKEN = "NameTaken", "An object of a name that it needs exists and belongs to another owner."
    API_ERROR = "ApiError", "The Kubernetes API answered with an error; the operator retries."
    NAMESPACE_NOT_SERVED = (
        "NamespaceNotServed",
        "The operator cannot list this namespace (deleted, or without its role): nothing is done here until it can.",
    )
    NOT_OBSERVED = "NotObserved", "It could not be observed in this pass."
    WAITING_FOR_POD = "WaitingForPod", "A pod is starting, not Ready yet, or not Ready for long enough."
    POD_TERMINATING = (
        "PodTerminating",
        "A pod is being stopped. On a cut-off node this lasts until the node or pod is removed by hand.",
    )
    POD_FAILING = "PodFailing", "A pod cannot start or keeps crashing; the message has Kubernetes' own reason."
    POD_UNSCHEDULABLE = "PodUnschedulable", "No node takes the pod."
    STATEFULSET_NOT_OBSERVED = "StatefulSetNotObserved", "The StatefulSet controller has not seen the last change yet."
    ROLLING_OUT = "RollingOut", "Pods are being replaced by ones of the wanted revision."

    # CoordinatorCluster.
    QUORUM_HEALTHY = "QuorumHealthy", "Every Raft group that was seen has a caught-up majority."
    QUORUM_LOST = "QuorumLost", "At least one Raft group has no caught-up majority."
    QUORUM_UNKNOWN = (
        "QuorumUnknown",
        "Some Raft group has no leader that answered in this pass, or one that was just elected.",
    )
    VOTERS_SPREAD = "VotersSpread", "No node has the majority of any Raft group's voters."
    TOO_FEW_COORDINATORS = (
        "TooFewCoordinators",
        "There are fewer than three coordinators, or voters of the cluster's own Raft groups: none can be away.",
    )
    VOTERS_ON_ONE_NODE = (
        "VotersOnOneNode",
        "Some Raft groups have the majority of their voters on one node; the message names it and the coordinators.",
    )
    NOT_FORMED = (
        "NotFormed",
        "The coordinators have not formed their cluster yet: not every Raft group has had a majority.",
    )
    REPLICAS_UNREACHABLE = "ReplicasUnreachable", "A coordinator's admin API did not answer."
    REPLICAS_NOT_READY = "ReplicasNotReady", "Fewer coordinators than wanted are Ready."
    DISK_LOW = (
        "DiskLow",
        "Little space is left on a coordinator's volume; others lead its Raft groups if they have space.",
    )
    CATCHING_UP = "CatchingUp", "A coordinator that was replaced still lacks entries."
    WAITING_FOR_TURN = "WaitingForTurn", "Other clusters roll out the operator's image first."
    WAITING_FOR_QUORUM = "WaitingForQuorum", "The next restart would leave a Raft group without a caught-up majority."
    DRAINING_POD = "DrainingPod", "A coordinator is handing its leaderships away before its restart."
    EVICTING_POD = "EvictingPod", "A drained coordinator is being restarted."
    REPLACING_BROKEN_POD = (
        "ReplacingBrokenPod",
        "A coordinator of an old revision that is broken is replaced first.",
    )
    OUTAGE_EXPECTED = "OutageExpected", "The only coordinator is restarted: there is no other to take over."
    BLOCKED_BY_BUDGET = "BlockedByBudget", "A PodDisruptionBudget forbids the eviction for now."
    NEW_REVISION_UNHEALTHY = (
        "NewRevisionUnhealthy",
        "A pod of the new revision does not become Ready: the roll-out has stopped and goes on when it is reverted.",
    )
    VOLUMES_PRESENT = "VolumesPresent", "Every coordinator has the volume that it was seen with."
    VOLUME_LOST = (
        "VolumeLost",
        "The claim or the volume of a coordinator is gone; the message says which, and what is done.",
    )
    FOLDER_EMPTIED = (
        "FolderEmptied",
        "A coordinator found its volume empty under its old claim: a person must say that the data is gone.",
    )
    NODE_NOT_READY = (
        "NodeNotReady",
        "The only node with a coordinator's volume is not Ready; its volume counts as lost when a person says so.",
    )
    DATA_LOST = (
        "DataLost",
        "The volumes of all coordinators, or of all with the controller group, are gone: what they had is lost.",
    )
    REPLACING_REPLICA = (
        "ReplacingReplica",
        "A lost coordinator's place is being given to a new one, until all Raft groups have taken it in.",
    )
    REPLACEMENT_REFUSED = (
        "ReplacementRefused",
        "The coordinators, or the API server, refuse the replacement for now; it is asked for again.",
    )
    REPLICA_REPLACED = "ReplicaReplaced", "A lost coordinator was replaced, and all Raft groups have taken it in."
    DOWNGRADE_REFUSED = (
        "DowngradeRefused",
        "The image is of a release that could not read what the cluster has written: no pod is changed.",
    )
    RELEASE_TOO_OLD = (
        "ReleaseTooOld",
        "The image is of a release that does not know what the spec asks for: no pod is made or changed.",
    )
    UNDRAINING_POD = "UndrainingPod", "A drain is undone: the coordinator is not restarted and may lead again."
    SCALING_UNSUPPORTED = (
        "ScalingUnsupported",
        "The release, the cluster's feature level or the installed definition does not allow another number yet.",
    )
    SCALE_AS_WANTED = "ScaleAsWanted", "There are as many coordinators as wanted."
    SCALING_UP = "ScalingUp", "Coordinators are being added."
    SCALING_DOWN = "ScalingDown", "Coordinators are handing over what they hold, and leave when they hold nothing."
    RAISING_REPLICATION = "RaisingReplication", "The Raft groups get more replicas, a few at a time."
    REPLICATION_FACTOR_FIXED = (
        "ReplicationFactorFixed",
        "`replicas` or `replicationFactor` is below the replication factor that the cluster has.",
    )
    REPLICATION_REFUSED = (
        "ReplicationRefused",
        "The coordinators refuse for now that the Raft groups get more replicas; they are asked again.",
    )
    DECOMMISSION_REFUSED = (
        "DecommissionRefused",
        "The coordinators, or the API server, refuse for now that a coordinator leaves; it is asked for again.",
    )
    DECOMMISSION_STUCK = (
        "DecommissionStuck",
        "Something cannot leave a coordinator that is to leave; the message has the coordinators' words.",
    )
    KEEPING_COORDINATOR = (
        "KeepingCoordinator",
        "A coordinator was to leave and is wanted: its decommission is taken back.",
    )
    COORDINATOR_LEFT = "CoordinatorLeft", "Coordinators have left the cluster, and their pods are removed."
    CERTIFICATES_VALID = "CertificatesValid", "Every certificate can be used; the message has the first that expires."
    CERTIFICATE_EXPIRING = (
        "CertificateExpiring",
        "A certificate that the operator does not renew expires within two weeks, or the last tenth of its life.",
    )
    CERTIFICATE_EXPIRED = "CertificateExpired", "A certificate has expired: new connections to its listener fail."
    STORAGE_GROWING = "StorageGrowing", "Volumes are being enlarged."
    STORAGE_REFUSED = "StorageRefused", "A volume cannot be enlarged; the message has Kubernetes' own reason."

    # ConsumerGroup.
    GROUP_STABLE = "GroupStable", "Every member has its partitions."
    GROUP_REBALANCING = "GroupRebalancing", "Members are joining or waiting for their partitions."
    GROUP_EMPTY = "GroupEmpty", "The group has no members."
    GROUP_NOT_FOUND = "GroupNotFound", "The coordinator does not know the group: there was no join and no commit yet."
    MEMBERS_MISSING = "MembersMissing", "Fewer members than Ready consumers."
    REACHABLE = "Reachable", "The coordinator answered."
    UNREACHABLE = "Unreachable", "No address of the cluster answered in time."
    AUTHORIZATION_FAILED = "AuthorizationFailed", "The cluster does not authorize the operator to read the group."
    SECRET_NOT_FOUND = "SecretNotFound", "A Secret that the object names does not exist."
    SECRET_UNUSABLE = "SecretUnusable", "A Secret lacks a key, or what it has cannot be used; the message says what."
    AUTHENTICATION_FAILED = "AuthenticationFailed", "The cluster does not take the login of the Secret."
    MECHANISM_NOT_OFFERED = "MechanismNotOffered", "The cluster's listener does not offer this `authentication.type`."
    CERTIFICATE_NOT_TRUSTED = (
        "CertificateNotTrusted",
        "The cluster's certificate is of another authority, of another host, or out of date.",
    )
    TLS_FAILED = "TlsFailed", "The TLS handshake ended early: no TLS there, or a client certificate is wanted."
    CLUSTER_NOT_FOUND = "ClusterNotFound", "There is no CoordinatorCluster of the name in `clusterRef`."
    CLUSTER_NOT_READY = "ClusterNotReady", "The CoordinatorCluster has no Ready coordinator yet."
    MEMBERS_STATIC = "MembersStatic", "Every member joined with its pod's name as group.instance.id."
    MEMBERS_DYNAMIC = "MembersDynamic", "Members joined without the expected ids: every restart rebalances the group."
    DUPLICATE_INSTANCE_ID = (
        "DuplicateInstanceId",
        "Two processes use one instance id and fence each other; the message names it.",
    )
    GROUP_ID_SHARED = (
        "GroupIdShared",
        "An older ConsumerGroup runs consumers in the same group: nothing is promised, and no member is removed.",
    )
    NOT_REQUESTED = "NotRequested", "`staticMembership` is false."
    NO_MEMBERS = "NoMembers", "There are no members to judge."
    OBSERVING_ONLY = "ObservingOnly", "There is no `template` and no `workloadRef`: the operator runs no consumers."
    NAMES_NOT_STABLE = (
        "NamesNotStable",
        "Pods of a Deployment or Rollout get new names when they are replaced: static membership is not promised.",
    )
    WORKLOAD_NOT_FOUND = "WorkloadNotFound", "There is no workload of the kind and name in `workloadRef`."
    WORKLOAD_WITHOUT_SELECTOR = (
        "WorkloadWithoutSelector",
        "The workload in `workloadRef` has no label selector, so its pods cannot be determined.",
    )
    WORKLOAD_TAKEN = (
        "WorkloadTaken",
        "The operator created the workload in `workloadRef` for another object, or for this one's `template`.",
    )
    WORKLOAD_REFUSED = "WorkloadRefused", "The operator may not read the workload in `workloadRef` or its pods."
    WORKLOAD_SHARED = (
        "WorkloadShared",
        "An older ConsumerGroup refers to the same workload: this one neither scales nor restarts it.",
    )
    WORKLOAD_NOT_OBSERVED = "WorkloadNotObserved", "The workload's controller has not seen the last change yet."
    WORKLOAD_PAUSED = (
        "WorkloadPaused",
        "The Rollout in `workloadRef` has pods of two templates and is paused: by a step of its own, or by its owner.",
    )
    WORKLOAD_DEGRADED = (
        "WorkloadDegraded",
        "Argo Rollouts calls the Rollout in `workloadRef` Degraded, aborted for example; the message has its words.",
    )
    RESTART_REFUSED = "RestartRefused", "The restart annotation is not a time, which a Rollout needs."
    SCALING = "Scaling", "The number of consumers is being changed."
    RECORDING_PODS = "RecordingPods", "Leaving pods are recorded in the status before they are stopped."
    REMOVING_MEMBERS = "RemovingMembers", "Members whose pods are gone for good are being removed from the group."
    SCALED_TO_ZERO = "ScaledToZero", "`replicas` is 0."

    # Topic and User.
    APPLIED = "Applied", "The cluster has it as specified."
    CREATING_TOPIC = "CreatingTopic", "The topic is being created."
    CHANGING = "Changing", "The cluster is being told what differs from the spec."
    RECORDING_CHANGES = "RecordingChanges", "What will be set is recorded in the status first."
    REMOVING = "Removing", "What was made in the cluster is being removed: the object is deleted."
    NOT_ADOPTED = (
        "NotAdopted",
        "It was there before this object and differs from it: annotation muster.dev/adopt says that it is meant.",
    )
    NAME_SHARED = "NameShared", "An older object names the same topic or user of the same cluster: it alone is obeyed."
    FEWER_PARTITIONS = "FewerPartitions", "Kafka cannot take partitions away."
    REPLICATION_DIFFERS = "ReplicationDiffers", "Replicas of an existing topic are not changed from here."
    NO_AUTHORIZER = "NoAuthorizer", "There are `acls`, and the cluster has no authorizer that could keep them."
    CLUSTER_REFUSES = "ClusterRefuses", "The cluster refuses a change; the message has its own words."
    CREDENTIALS_SET = "CredentialsSet", "The cluster has been given the password in the Secret."
    CERTIFICATE_ISSUED = "CertificateIssued", "The user's Secret has a certificate of the operator's CA of clients."
    CERTIFICATE_YOURS = "CertificateYours", "The certificate of this user is yours to issue; the message says for whom."
    TOKEN_YOURS = "TokenYours", "Tokens of this user are the identity provider's; nothing of them is known here."

    # Causes of a rebalance, as far as known.
    SCALED_UP = "ScaledUp", "Consumers were added."
    SCALED_DOWN = "ScaledDown", "Consumers were removed."
    ROLLOUT = "Rollout", "Pods were replaced."
    POD_LOST = "PodLost", "A pod went away or did not come back within the session timeout."
    MEMBER_JOINED = "MemberJoined", "A member joined."
    MEMBER_LEFT = "MemberLeft", "A member left or was expelled."
    UNKNOWN_CAUSE = "UnknownCause", "No observed change explains it."
