"""Where one segment ends and the next begins is a fact of the log: equal on all replicas, whatever was altered when."""

from random import Random

import pytest
from muster_coordinator.controller.commands import AlterTopicConfigs, CreateTopic
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import MIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.folders import segments_folder
from muster_coordinator.topics.log_commands import SetRoll, decode_log_command, encode_log_command

from tests.replica.cluster import SimCluster
from tests.sim.loop import World

TOPIC_ID = bytes([7]) * 16
SMALL = {"checkpoint_bytes": 4_000, "trailing_entries": 3, "segment_flush_ms": 200}


class Writer:
    """Batches of two records, each a second of record time after the one before."""

    def __init__(self, cluster: SimCluster, **configs: str) -> None:
        self.cluster = cluster
        self.configs: tuple[tuple[str, str], ...] = tuple(configs.items())
        made = cluster.submit(
            cluster.brokers[0], CreateTopic(name="t", topic_id=TOPIC_ID, partitions=1, configs=self.configs)
        )
        assert made.error == Code.NONE, made
        self.group = GroupNo(cluster.nodes[0].image().topics["t"].partitions[0].group)
        cluster.wait_leader(self.group)
        self.at_ms = 1_700_000_000_000

    def alter(self, *configs: tuple[str, str]) -> None:
        expected, self.configs = self.configs, configs
        broker = next(iter(self.cluster.nodes))
        command = AlterTopicConfigs(topic_id=TOPIC_ID, expected=expected, configs=configs)
        assert self.cluster.submit(broker, command).error == Code.NONE
        nodes = self.cluster.nodes.values()
        self.cluster.world.run_until(
            "all know it", lambda: all(node.image().topics["t"].configs == configs for node in nodes), 5_000
        )

    def write(self, count: int, size: int = 300) -> None:
        done = 0
        while done < count:
            leader = self.cluster.wait_leader(self.group, 20_000)
            loop, results = self.cluster.loops[leader], []
            raw = encode_batch([(b"k", bytes(size)), (b"l", b"v")], timestamp_ms=self.at_ms)
            log = self.cluster.nodes[leader].local_log(self.group)
            log.produce(raw, configs={}, deadline_ms=loop.monotonic_ms() + 5_000, done=results.append)
            self.cluster.world.run_until("an answer", lambda results=results: results, 10_000)
            if results[0].code == Code.NONE:
                done += 1
                self.at_ms += 1_000
            else:
                self.cluster.world.run_for(20)

    def segments(self, broker: int) -> dict[str, bytes]:
        """Name -> bytes, the last one whole too."""
        state = self.cluster.nodes[broker].group_manager.states[self.group]
        state.log.write_out()
        folder = f"{segments_folder(self.group)}/t-0"
        disk = self.cluster.disks[broker]
        return {n: disk.content(f"{folder}/{n}") for n in disk.listdir(folder) if n.endswith(".log")}

    def assert_equal(self) -> dict[str, bytes]:
        self.cluster.converge([self.group], 30_000)
        found = [self.segments(broker) for broker in self.cluster.nodes]
        names = [sorted(one) for one in found]
        assert all(one == names[0] for one in names), names
        assert all(one == found[0] for one in found)
        return found[0]


def power_cycle(cluster: SimCluster, broker: int) -> None:
    cluster.kill(broker)
    cluster.restart(broker)
    cluster.wait_ready()


def test_an_altered_segment_ms_takes_effect_with_the_next_batch_on_every_replica() -> None:
    cluster = SimCluster(World(1), **SMALL)
    cluster.start()
    writer = Writer(cluster, **{"segment.ms": "10000"})
    writer.write(22)
    assert list(writer.assert_equal()) == [f"{base:020d}.log" for base in (0, 22)]
    writer.alter(("segment.ms", "2000"))
    writer.write(9)
    assert list(writer.assert_equal()) == [f"{base:020d}.log" for base in (0, 22, 44, 50, 56)]


def test_an_altered_segment_bytes_takes_effect_with_the_next_batch() -> None:
    cluster = SimCluster(World(2), **SMALL)
    cluster.start()
    writer = Writer(cluster)
    writer.write(8, size=200_000)
    assert len(writer.assert_equal()) == 1
    writer.alter(("segment.bytes", str(MIB)))
    writer.write(8, size=200_000)
    assert len(writer.assert_equal()) == 3


def test_a_replica_that_starts_anew_after_an_alteration_rolls_where_the_others_do() -> None:
    cluster = SimCluster(World(3), **SMALL)
    cluster.start()
    writer = Writer(cluster, **{"segment.ms": "20000"})
    writer.write(5)
    writer.alter(("segment.ms", "3000"))
    power_cycle(cluster, 2)
    writer.write(30)
    assert len(writer.assert_equal()) > 5


def test_a_replica_brought_back_by_a_transferred_checkpoint_rolls_where_the_others_do() -> None:
    cluster = SimCluster(World(4), **SMALL)
    cluster.start()
    writer = Writer(cluster, **{"segment.ms": "20000"})
    writer.write(5)
    cluster.kill(2)
    writer.alter(("segment.ms", "3000"))
    writer.write(60)
    cluster.world.run_for(2_000)
    cluster.restart(2)
    cluster.wait_ready()
    writer.write(11)
    assert cluster.nodes[2].formed.installs.installed[writer.group], "nothing was transferred"
    assert len(writer.assert_equal()) > 10


@pytest.mark.parametrize("seed", range(8))
def test_segments_are_equal_byte_by_byte_after_alterations_and_kills(seed: int) -> None:
    cluster = SimCluster(World(100 + seed), **SMALL)
    cluster.start()
    writer = Writer(cluster)
    rand = Random(seed)
    for _ in range(12):
        event = rand.random()
        if event < 0.4:
            writer.alter(("segment.ms", str(rand.choice((1_000, 2_500, 7_000, 30_000)))))
        elif event < 0.8:
            power_cycle(cluster, rand.choice([int(broker) for broker in cluster.brokers]))
        writer.write(rand.randrange(1, 12))
    assert len(writer.assert_equal()) > 3


def test_offsets_partitions_follow_the_leaders_setting_and_differing_settings_do_not_part_them() -> None:
    cluster = SimCluster(World(5), partitions=1, retention_check_ms=1_000, offsets_segment_bytes=4_000, **SMALL)
    cluster.start()
    cluster.world.run_for(2_500)
    for offset in range(20):
        assert cluster.commit(cluster.wait_leader(1), 0, "g", offset) == 0
    cluster.base = cluster.base.__class__(**{**vars_of(cluster.base), "offsets_segment_bytes": 1_500})
    cluster.kill(2)
    cluster.restart(2)
    cluster.wait_ready()
    for offset in range(60):
        assert cluster.commit(cluster.wait_leader(1), 0, "g", offset) == 0
    cluster.converge([1])
    bases = {broker: node.group_manager.states[GroupNo(1)].log.views() for broker, node in cluster.nodes.items()}
    assert len(bases[0]) > 1
    assert bases[0] == bases[1] == bases[2]


def vars_of(settings) -> dict:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def test_below_its_feature_level_nothing_new_is_written() -> None:
    """A replica of the release before would end at a command that it does not know."""
    cluster = SimCluster(World(6), feature_max=1, **SMALL)
    cluster.start()
    writer = Writer(cluster, **{"segment.ms": "2000"})
    writer.write(9)
    assert len(writer.assert_equal()) == 3, "as configured at its creation"
    for node in cluster.nodes.values():
        assert node.group_manager.states[writer.group].replicated_roll is None


@pytest.mark.parametrize("command", [SetRoll(1, 1), SetRoll(2**31 - 1, 2**63 - 1)])
def test_a_roll_command_comes_back_as_it_was(command: SetRoll) -> None:
    assert decode_log_command(encode_log_command(command)) == command


@pytest.mark.parametrize(("size", "span_ms"), [(0, 1), (1, 0), (-1, 5)])
def test_a_roll_command_of_nothing_is_no_command(size: int, span_ms: int) -> None:
    data = bytes([1, 3]) + size.to_bytes(8, "big", signed=True) + span_ms.to_bytes(8, "big", signed=True)
    with pytest.raises(Corruption):
        decode_log_command(data)
    with pytest.raises(Corruption):
        decode_log_command(data[:-1])
