"""Groups of hundreds of members on a real host: what one log entry or one round answers leaves in slices, each once."""

from collections import Counter

from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, JoinGroupAnswer, OffsetFetchAnswer, SyncGroup
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica import limits

from tests.replica.cluster import SimCluster, fetch_request
from tests.replica.test_leadership import join_request, others_of
from tests.sim.loop import World

MEMBERS = 3 * limits.GROUP_ANSWERS_PER_TURN + 7


class Crowd:
    """Sends for many members and notes in which step of the world each answer came."""

    def __init__(self, seed: int) -> None:
        self.cluster = SimCluster(World(seed))
        self.cluster.start()
        self.leader = self.cluster.wait_leader(1)
        self.answers: dict[int, list[GroupAnswer]] = {}
        self.steps: Counter[int] = Counter()

    def send(self, member: int, request: GroupRequest) -> None:
        mine = self.answers[member] = []

        def done(answer: GroupAnswer) -> None:
            mine.append(answer)
            self.steps[self.cluster.world.steps] += 1

        self.cluster.nodes[self.leader].group_request(0, request, self.cluster.context(self.leader), done)

    def join_all(self) -> None:
        """All of them park: their member ids were handed out before the first one's phase may end."""
        with_id = join_request()
        for member in range(MEMBERS):
            self.send(member, with_id)

    def wait_all(self) -> None:
        self.cluster.world.run_until("every answer", lambda: all(self.answers.values()), 5_000)
        self.cluster.world.run_for(50)
        assert all(len(given) == 1 for given in self.answers.values()), "one answer each"


def joined(crowd: Crowd) -> list[JoinGroupAnswer]:
    answers = []
    for given in crowd.answers.values():
        assert isinstance(given[0], JoinGroupAnswer)
        answers.append(given[0])
    return answers


def test_a_join_phase_of_hundreds_is_answered_in_slices() -> None:
    crowd = Crowd(11)
    crowd.join_all()
    crowd.wait_all()
    answers = joined(crowd)
    assert {answer.error for answer in answers} == {Code.NONE}
    assert max(crowd.steps.values()) <= limits.GROUP_ANSWERS_PER_TURN
    generation = max(answer.generation for answer in answers)
    crowd.steps.clear()
    for member, answer in enumerate(answers):
        crowd.send(member, sync_request(answer, generation))
    crowd.wait_all()
    assert max(crowd.steps.values()) <= limits.GROUP_ANSWERS_PER_TURN


def sync_request(answer: JoinGroupAnswer, generation: int) -> SyncGroup:
    plan = ((answer.member, b"all"),) if answer.leader == answer.member else ()
    return SyncGroup(
        group="g",
        generation=generation,
        member=answer.member,
        instance=None,
        protocol_type=None,
        protocol=None,
        assignments=plan,
    )


def test_leadership_that_goes_between_two_slices_leaves_nobody_without_an_answer() -> None:
    crowd = Crowd(12)
    crowd.join_all()
    crowd.cluster.world.run_until("the first slice", lambda: any(crowd.answers.values()), 5_000)
    assert not all(crowd.answers.values()), "there is more than one slice"
    target = others_of(crowd.cluster, crowd.leader)[0]
    assert crowd.cluster.nodes[crowd.leader].transfer(GroupNo(1), BrokerId(target))
    crowd.wait_all()
    assert {answer.error for answer in joined(crowd)} <= {Code.NONE, Code.NOT_COORDINATOR}


READS = 3 * limits.READS_ANSWERED_PER_TURN + 7


def fetch_all(crowd: Crowd) -> None:
    """Everybody asks in one turn: one round confirms them all."""
    assert crowd.cluster.commit(crowd.leader, 0, "g", 5) == Code.NONE
    crowd.cluster.world.run_for(20)
    for reader in range(READS):
        crowd.send(reader, fetch_request("g"))


def fetched(crowd: Crowd) -> list[OffsetFetchAnswer]:
    answers = []
    for given in crowd.answers.values():
        assert isinstance(given[0], OffsetFetchAnswer)
        answers.append(given[0])
    return answers


def test_reads_that_one_round_confirms_are_answered_in_slices() -> None:
    crowd = Crowd(13)
    fetch_all(crowd)
    crowd.wait_all()
    assert {answer.topics[0][1][0].offset for answer in fetched(crowd)} == {5}
    assert max(crowd.steps.values()) <= limits.READS_ANSWERED_PER_TURN


def test_reads_of_several_groups_share_the_turn() -> None:
    crowd = Crowd(14)
    crowd.cluster.world.run_for(1_000)
    leaders = [crowd.cluster.wait_leader(1 + partition) for partition in range(3)]
    busiest = max(leaders, key=leaders.count)
    led = [partition for partition in range(3) if leaders[partition] == busiest]
    steps: Counter[int] = Counter()
    answers: list[GroupAnswer] = []

    def done(answer: GroupAnswer) -> None:
        answers.append(answer)
        steps[crowd.cluster.world.steps] += 1

    context = crowd.cluster.context(busiest)
    for partition in led:
        for _ in range(READS):
            crowd.cluster.nodes[busiest].group_request(partition, fetch_request("g"), context, done)
    crowd.cluster.world.run_until("every answer", lambda: len(answers) == READS * len(led), 5_000)
    assert max(steps.values()) <= limits.READS_ANSWERED_PER_TURN


def test_leadership_that_goes_between_two_slices_of_reads_leaves_no_reader_without_an_answer() -> None:
    """Whoever was not answered before is refused, though everything was confirmed while this replica led."""
    crowd = Crowd(15)
    fetch_all(crowd)
    crowd.cluster.world.run_until("the first slice", lambda: any(crowd.answers.values()), 5_000)
    assert not all(crowd.answers.values()), "there is more than one slice"
    crowd.cluster.nodes[crowd.leader].host.groups[GroupNo(1)].step_down()
    crowd.wait_all()
    codes = Counter(answer.error for answer in fetched(crowd))
    assert codes.keys() == {Code.NONE, Code.NOT_COORDINATOR}
    assert max(crowd.steps.values()) <= limits.READS_ANSWERED_PER_TURN


def test_reads_that_no_round_confirmed_are_refused_in_slices() -> None:
    crowd = Crowd(16)
    fetch_all(crowd)
    crowd.cluster.nodes[crowd.leader].host.groups[GroupNo(1)].step_down()
    crowd.wait_all()
    assert {answer.error for answer in fetched(crowd)} == {Code.NOT_COORDINATOR}
    assert max(crowd.steps.values()) <= limits.READS_ANSWERED_PER_TURN
