"""The part of a run in which a topic comes and goes: who is there, what is left, what came of it."""

from collections.abc import Iterable

from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo
from muster_coordinator.replica.folders import SEGMENTS, segments_folder

from tests.sim.check_churn import ChurnCheck
from tests.sim.churn import CHURN, CHURN_GROUP, PARTITIONS_MAX, ChurnProducer, ChurnReader, TopicAdmin
from tests.sim.cluster import Cluster
from tests.sim.committers import Committer
from tests.sim.history import Violation
from tests.sim.incarnations import Incarnations
from tests.sim.logs import compare_logs
from tests.sim.oracle import Oracle
from tests.sim.producers import TopicClient


def left_over(wanted: set[GroupNo], groups: Iterable[GroupNo], files: list[str]) -> list[str]:
    """Raft groups that are too many, or not there, and files of segments that belong to none."""
    folders = tuple(f"{segments_folder(group)}/" for group in wanted)
    kept = [path for path in files if path.startswith(f"{SEGMENTS}/") and not path.startswith(folders)]
    return [f"group {number}" for number in sorted(wanted ^ set(groups))] + kept


class Churn:
    """Clients of one topic and its admin."""

    def __init__(self, cluster: Cluster, oracle: Oracle, stays_from_ms: int | None = None) -> None:
        self.cluster = cluster
        self.incarnations = Incarnations(CHURN)
        self.incarnations.watch(cluster, oracle)
        self.admin = TopicAdmin(cluster, self.incarnations, stays_from_ms)
        self.clients: list[TopicClient] = [
            self.admin,
            ChurnProducer(cluster, "churn/p0", 0),
            ChurnProducer(cluster, "churn/p1", 0),
            ChurnReader(cluster, "churn/r", 0),
        ]
        keys = [(CHURN, partition) for partition in range(PARTITIONS_MAX)]
        self.committers = [
            Committer(cluster, f"churn/c{number}", CHURN_GROUP, keys=keys, pause_ms=250, reads=0.5)
            for number in range(2)
        ]

    def left_over(self) -> list[str]:
        """Raft groups and folders of partitions that no topic has any more (T3)."""
        down = [f"{replica.broker} is down" for replica in self.cluster.replicas if not replica.up]
        image = None if down else self.cluster.voters()[0].node.image()
        if image is None:
            return down or ["no image"]
        of_topics = [partition for t in image.topics.values() for partition in t.partitions]
        found = []
        for replica in (*self.cluster.voters(), *self.cluster.observers):
            wanted = {CONTROLLER_GROUP, *(one.group for one in of_topics if replica.broker in one.holders)}
            what = left_over(wanted, replica.node.host.groups, replica.disk.files())
            found += [f"{replica.broker}: {one}" for one in what]
        return found

    def judge(self) -> list[Violation]:
        cluster, marks = self.cluster, self.cluster.marks
        check = ChurnCheck(cluster.history, self.incarnations)
        check.history_only()
        image = cluster.image()
        assert image is not None
        topic = image.topics[CHURN]
        for number, partition in enumerate(topic.partitions):
            group_manager = cluster.holders(GroupNo(partition.group))[0].node.group_manager
            assert group_manager is not None
            batches, differences = compare_logs(cluster, GroupNo(partition.group))
            check.found += differences
            log_start = group_manager.states[GroupNo(partition.group)].log_start
            check.final(topic.topic_id, number, log_start, batches)
            if log_start:
                marks.add("retention took records")
        if self.incarnations.gone_us:
            marks.add("a topic was deleted")
        if len(self.incarnations.born_us) > 1:
            marks.add("a topic was created again")
        if self.incarnations.partitions_most > 2:
            marks.add("partitions were added")
        return check.found
