"""The controller's Raft group: proposes commands, applies them, and announces each new image.

Every replica is a voter, so every replica has the image. The leader proposes `FormCluster` from the formed record if
the log has none (decision 15). A command is answered with the result of its apply. What it does not do: forward
commands (`controller_client`), or make Raft groups for topics (`group_manager` does, after each image).
"""

from collections.abc import Callable

from muster_coordinator.controller.codec import encode_command
from muster_coordinator.controller.commands import Command, CommandResult, FormCluster
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import CheckpointBody, CheckpointImage
from muster_coordinator.raft.messages import Entry, EntryKind, Refused
from muster_coordinator.replica.multiraft.raft_group import RaftGroup

Done = Callable[[CommandResult], None]
NOT_LEADER = CommandResult(Code.NOT_CONTROLLER, "leadership was lost before the read was confirmed")
UNKNOWN_FATE = CommandResult(Code.REQUEST_TIMED_OUT, "leadership was lost before the command was applied")


class ControllerGroup:
    """`raft_group.Machine` of Raft group 0. `changed(before, after)` is called when an apply has made a new image."""

    def __init__(
        self,
        group: RaftGroup,
        machine: ControllerMachine,
        form: FormCluster,
        *,
        changed: Callable[[ClusterImage | None, ClusterImage], None],
        moved: Callable[[], None],
    ) -> None:
        self.group = group
        self.machine = machine
        self._form = form
        self._changed = changed
        self._moved = [moved]

    def watch(self, moved: Callable[[], None]) -> None:
        """Call `moved` whenever entries were applied or leadership changed, after the functions added before."""
        self._moved.append(moved)

    def propose(self, command: Command, done: Done) -> Refused | None:
        """Append a command; `done` gets its result. A refusal means that it certainly was not appended."""
        return self.group.propose(EntryKind.COMMAND, encode_command(command), done)

    def propose_bytes(self, command: bytes, done: Done) -> Refused | None:
        """As `propose`, for an encoded command that is known to decode."""
        return self.group.propose(EntryKind.COMMAND, command, done)

    def read(self, done: Done) -> None:
        """`done` gets an index that covers all entries committed before this call; 41 if this replica does not lead."""
        group = self.group

        def confirmed(leads: bool) -> None:
            done(CommandResult(Code.NONE, value=group.applied) if leads else NOT_LEADER)

        group.read_index(confirmed)

    # -- raft_group.Machine ----------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> object:
        assert entry.kind == EntryKind.COMMAND, "the controller's log has only commands"
        before = self.machine.cluster
        result = self.machine.apply_command(entry.index, entry.data)
        after = self.machine.cluster
        if after is not None and after is not before:
            self._changed(before, after)
        return result

    def proposal_applied(self, token: object, result: object) -> None:
        assert callable(token)
        token(result)

    def proposal_lost(self, token: object) -> None:
        assert callable(token)
        token(UNKNOWN_FATE)

    def lead(self, term: int) -> None:
        if self.machine.cluster is None:
            self.propose(self._form, lambda result: None)

    def resign(self) -> None:
        """Nothing to do: no requests are parked here."""

    def moved(self) -> None:
        for call in self._moved:
            call()

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def image(self) -> CheckpointImage:
        return self.machine.image()

    def restore(self, body: CheckpointBody) -> None:
        before = self.machine.cluster
        self.machine.restore(body)
        after = self.machine.cluster
        if after is not None:
            self._changed(before, after)

    def state_hash(self) -> str:
        return self.machine.state_hash()
