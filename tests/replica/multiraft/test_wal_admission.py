"""Who may write into a filling WAL: a share of the room, which lasts until a file goes, in the order of asking."""

from muster_coordinator.limits import MIB
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.wal_admission import PAUSE_MS_MAX, RETRY_MS, Admission

from tests.sim.loop import SimLoop, World

BOUND = 16 * MIB
RESERVE = MIB // 2


class FillingWal:
    """How full a WAL is, and nothing else of it."""

    def __init__(self, used: int) -> None:
        self.used = used
        self.deleted_files = 0
        self.reserve_bytes = RESERVE

    def crowded(self) -> bool:
        return self.used >= BOUND // 2

    def room_bytes(self) -> int:
        return max(0, BOUND - self.used)


class Case:
    def __init__(self, used: int) -> None:
        self.world = World(1)
        self.loop = SimLoop(self.world)
        self.wal = FillingWal(used)
        self.admission = Admission(self.loop, self.wal)
        self.came: list[tuple[int, bool]] = []

    def write(self, size: int) -> bool:
        admitted = self.admission.admits(size)
        self.wal.used += size * admitted
        return admitted

    def wait(self, number: int, size: int, wait_ms: int = 30_000) -> None:
        def go(admitted: bool) -> None:
            self.came.append((number, admitted and self.write(size)))

        self.admission.when_room(size, self.loop.monotonic_ms() + wait_ms, go)


def test_a_wal_that_is_half_empty_lets_everybody_in() -> None:
    case = Case(BOUND // 4)
    assert all(case.write(10_000) for _ in range(100))


def test_room_lasts_as_long_as_the_oldest_file_is_expected_to_stay() -> None:
    case = Case(BOUND * 3 // 4)
    case.admission.expect(10_000)
    room = case.wal.room_bytes() - RESERVE
    begun = case.wal.used
    for _ in range(1_000):  # 10 s
        while case.write(1_000):
            pass
        case.world.run_for(10)
    taken = case.wal.used - begun
    assert room // 2 < taken < room * 3 // 4, "what is left shrinks, and its share with it"


def test_room_lasts_also_when_the_file_stays_longer_than_expected() -> None:
    case = Case(BOUND * 3 // 4)
    last_ms = case.loop.monotonic_ms()
    longest_ms = 0
    for _ in range(2_000):  # 20 s
        case.admission.expect(1_000)
        if case.write(1_000):
            longest_ms = max(longest_ms, case.loop.monotonic_ms() - last_ms)
            last_ms = case.loop.monotonic_ms()
        while case.write(1_000):
            pass
        case.world.run_for(10)
    assert case.wal.room_bytes() > RESERVE
    assert longest_ms <= PAUSE_MS_MAX


def test_a_large_batch_is_made_up_for_by_a_pause_that_is_bounded() -> None:
    case = Case(BOUND * 3 // 4)
    case.admission.expect(10_000)
    case.world.run_for(1_000)
    assert case.write(300_000)
    begun_ms = case.loop.monotonic_ms()
    while not case.write(1_000):
        case.world.run_for(1)
    assert case.loop.monotonic_ms() - begun_ms == PAUSE_MS_MAX


def test_large_batches_do_not_use_up_the_room_by_coming_after_pauses() -> None:
    case = Case(BOUND * 3 // 4)
    case.admission.expect(10_000)
    for _ in range(1_000):  # 10 s
        case.write(500_000)
        case.world.run_for(10)
    assert case.wal.room_bytes() > RESERVE


def test_what_is_set_aside_for_carrying_is_not_given_to_writers() -> None:
    case = Case(BOUND - RESERVE)
    case.world.run_for(60_000)
    assert not case.write(1)
    assert case.admission.slowed == 1


def test_who_waits_goes_in_order_and_nobody_overtakes() -> None:
    case = Case(BOUND * 3 // 4)
    case.admission.expect(100_000)
    for number in range(50):
        case.wait(number, 20_000)
    assert 0 < len(case.came) < 50
    case.world.run_for(500)
    case.wait(50, 1)
    assert (50, True) not in case.came
    case.wal.used = 0
    case.world.run_for(20)
    assert case.came == [(number, True) for number in range(51)]


def test_who_has_waited_too_long_is_told_so_and_so_is_who_finds_too_many_waiting() -> None:
    case = Case(BOUND)
    for number in range(3):
        case.wait(number, limits.WAL_PARKED_BYTES_MAX // 3)
    assert case.came == [(2, False)], "no room to wait"
    case.world.run_for(limits.WAL_PARKED_MS_MAX - 20)
    assert len(case.came) == 1
    case.world.run_for(40)
    assert case.came == [(2, False), (0, False), (1, False)]
    assert case.admission.slowed == 3


def test_a_burst_long_after_the_last_file_went_is_not_held_back_by_that_time() -> None:
    case = Case(BOUND * 3 // 4)
    case.admission.expect(100)
    case.world.run_for(3_600_000)
    case.admission.expect(0)
    begun = case.wal.used
    for _ in range(100):  # a second
        while case.write(1_000):
            pass
        case.world.run_for(10)
    assert case.wal.used - begun > (BOUND // 4 - RESERVE) * 3 // 4


def test_who_has_less_time_than_others_is_told_at_its_deadline_and_never_let_in_after_it() -> None:
    case = Case(BOUND)
    case.wait(0, 1_000)
    case.wait(1, 1_000, wait_ms=200)
    case.wait(2, 1_000, wait_ms=300)
    case.world.run_for(195)
    assert case.came == []
    case.world.run_for(RETRY_MS + 5)
    assert case.came == [(1, False)], "although the one before it still waits"
    case.loop.pause()  # the loop stands over the deadline of the next one, and then there is room
    case.world.run_for(200)
    case.wal.used = 0
    case.loop.resume()
    case.world.run_for(20)
    assert case.came == [(1, False), (0, True), (2, False)]
    assert case.admission.parked == 0


def test_those_who_went_in_leave_nothing_behind() -> None:
    case = Case(BOUND * 3 // 4)
    for number in range(3_000):
        case.wait(number, 5_000)
        case.world.run_for(1)
    assert len(case.admission._ends) < 3_000
    case.wal.used = 0
    case.world.run_for(2_000)
    assert (case.admission.parked, len(case.admission._ends), case.admission._parked_bytes) == (0, 0, 0)
    assert len(case.came) == 3_000
