"""CreateAcls, DescribeAcls, DeleteAcls through Kafka's protocol, and what an ACL does to the next request."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from muster_coordinator.api.audit import RESOURCES
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.standard_authorizer import AuthorizerSettings, StandardAuthorizer
from muster_coordinator.controller.access import alter_access
from muster_coordinator.controller.commands import AddAcls, AlterQuotas, Command, CommandResult, RemoveAcls
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.misfit import MisfitError
from muster_coordinator.errors import Code
from muster_coordinator.events import AUDITED, WOULD_BE_DENIED, Event
from muster_coordinator.groups.requests import HeartbeatAnswer
from muster_coordinator.limits import REFUSED_AFTER_MS
from muster_coordinator.security import limits
from muster_coordinator.security.acl import Acl
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.versions import BEFORE_AUTHENTICATION, VERSIONS, Api
from typing_extensions import override

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient
from tests.api.test_every_version import REQUESTS
from tests.made_settings import api_settings

TOPIC, GROUP, CLUSTER, LITERAL, PREFIXED, DENY, ALLOW = 2, 3, 4, 3, 4, 2, 3
ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ROOT = AuthorizerSettings(super_users=frozenset({"User:root"}), allow_if_no_acl=False, report_only=False)


class Secured(FakeSurface):
    """A replica whose image has ACLs and quotas: commands change it as the controller's log would."""

    def __init__(self) -> None:
        super().__init__()
        self.access: ClusterImage | None = None
        self.on_command = self._judge

    @override
    def image(self) -> ClusterImage | None:
        image = super().image()
        if image is None or self.access is None:
            return image
        return replace(image, acls=self.access.acls, quotas=self.access.quotas)

    def _judge(self, command: Command) -> CommandResult:
        image = self.image()
        assert image is not None
        if isinstance(command, AddAcls | RemoveAcls | AlterQuotas):
            try:
                self.access = alter_access(replace(image, topics=MappingProxyType({})), command)
            except MisfitError as misfit:
                return misfit.result
        return CommandResult(0)


def client(surface: FakeSurface, principal: str = "User:root", settings: AuthorizerSettings = ROOT) -> KafkaClient:
    made = KafkaClient(surface, authorize=StandardAuthorizer(surface.image, settings))
    made.connection.principal = principal
    return made


def creation(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": LITERAL,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": ALLOW,
        **changes,
    }


@pytest.fixture
def surface() -> Secured:
    return Secured()


VERSIONS_OF_ALL = range(VERSIONS[Api.CREATE_ACLS].min, VERSIONS[Api.CREATE_ACLS].max + 1)


@pytest.mark.parametrize("version", VERSIONS_OF_ALL)
def test_an_acl_is_created_described_and_deleted(surface: Secured, version: int) -> None:
    root = client(surface)
    made = root.ask(Api.CREATE_ACLS, version, creations=[creation(), creation(resource_pattern_type=PREFIXED)])
    assert [int(one.error_code.value) for one in made.results] == [0, 0]
    described = root.ask(Api.DESCRIBE_ACLS, version, **ANY)
    assert [(r.resource_type, r.resource_name, r.pattern_type) for r in described.resources] == [
        (TOPIC, "orders", LITERAL),
        (TOPIC, "orders", PREFIXED),
    ]
    (entry,) = described.resources[0].acls
    assert (entry.principal, entry.host, entry.operation, entry.permission_type) == ("User:a", "*", 3, ALLOW)
    deleted = root.ask(Api.DELETE_ACLS, version, filters=[{**ANY, "pattern_type_filter": LITERAL}, ANY])
    assert [int(one.error_code.value) for one in deleted.filter_results] == [0, 0]
    assert [len(one.matching_acls) for one in deleted.filter_results] == [1, 2], "each filter tells what it found"
    gone = deleted.filter_results[0].matching_acls[0]
    assert (int(gone.error_code.value), gone.resource_name, gone.principal, gone.operation) == (
        0,
        "orders",
        "User:a",
        3,
    )
    assert root.ask(Api.DESCRIBE_ACLS, version, **ANY).resources == ()


def test_valid_ones_are_created_beside_others_that_are_not(surface: Secured) -> None:
    creations = [
        creation(resource_type=1),
        creation(),
        creation(resource_type=CLUSTER, resource_name="mine"),
        creation(resource_name=""),
        creation(principal="a"),
    ]
    made = client(surface).ask(Api.CREATE_ACLS, 3, creations=creations)
    assert [int(one.error_code.value) for one in made.results] == [42, 0, 42, 42, 42]
    image = surface.image()
    assert image is not None
    assert image.acls == {Acl(TOPIC, "orders", LITERAL, "User:a", "*", 3, ALLOW)}


def test_a_filter_of_unknown_numbers_is_refused_and_deletes_nothing(surface: Secured) -> None:
    root = client(surface)
    root.ask(Api.CREATE_ACLS, 3, creations=[creation()])
    bad = {**ANY, "operation": 0}
    assert int(root.ask(Api.DESCRIBE_ACLS, 3, **bad).error_code.value) == 42
    results = root.ask(Api.DELETE_ACLS, 3, filters=[bad]).filter_results
    assert [int(one.error_code.value) for one in results] == [42]
    image = surface.image()
    assert image is not None
    assert len(image.acls) == 1


def test_a_long_request_becomes_several_commands(surface: Secured) -> None:
    root = client(surface)
    many = [creation(resource_name=f"t{n}") for n in range(limits.ACLS_OF_A_COMMAND_MAX + 1)]
    assert {int(r.error_code.value) for r in root.ask(Api.CREATE_ACLS, 3, creations=many).results} == {0}
    longest = [creation(resource_name=f"{n:04d}" * 256, host=f"{n:04d}" * 256) for n in range(20)]
    root.ask(Api.CREATE_ACLS, 3, creations=longest)
    sizes = [len(command.acls) for command in surface.commands if isinstance(command, AddAcls)]
    assert sizes[:2] == [1_000, 1]
    assert len(sizes) > 3
    assert sum(sizes) == 1_021
    root.ask(Api.DELETE_ACLS, 3, filters=[ANY])
    image = surface.image()
    assert image is not None
    assert not image.acls


def test_nothing_is_deleted_by_an_image_that_may_be_late(surface: Secured) -> None:
    root = client(surface)
    root.ask(Api.CREATE_ACLS, 3, creations=[creation()])
    surface.on_image_question = lambda: False
    (result,) = root.ask(Api.DELETE_ACLS, 3, filters=[ANY]).filter_results
    assert int(result.error_code.value) == Code.NOT_CONTROLLER
    assert not any(isinstance(command, RemoveAcls) for command in surface.commands)


def test_a_right_is_in_force_with_the_next_request_and_so_is_its_end(surface: Secured) -> None:
    """On a connection that is open, and although heartbeats are all the same bytes."""
    surface.on_group = lambda _: HeartbeatAnswer(Code.NONE)
    surface.on_heartbeat = lambda _: Code.NONE
    root, member = client(surface), client(surface, "User:a")

    def beat() -> int:
        return int(member.ask(Api.HEARTBEAT, 4, group_id="g", member_id="m").error_code.value)

    right = creation(resource_type=GROUP, resource_name="g")
    assert beat() == Code.GROUP_AUTHORIZATION_FAILED
    root.ask(Api.CREATE_ACLS, 3, creations=[right])
    assert [beat(), beat(), beat()] == [0, 0, 0]
    root.ask(Api.CREATE_ACLS, 3, creations=[{**right, "permission_type": DENY, "host": "10.0.0.9"}])
    assert [beat(), beat()] == [30, 30]
    root.ask(Api.DELETE_ACLS, 3, filters=[{**ANY, "permission_type": DENY}])
    assert beat() == 0
    root.ask(Api.DELETE_ACLS, 3, filters=[ANY])
    assert [beat(), beat()] == [30, 30]
    assert surface.heartbeats_at_once == 0


def test_who_may_not_alter_the_cluster_changes_no_acl(surface: Secured) -> None:
    other = client(surface, "User:a")
    assert int(other.ask(Api.DESCRIBE_ACLS, 3, **ANY).error_code.value) == 31
    assert [int(r.error_code.value) for r in other.ask(Api.CREATE_ACLS, 3, creations=[creation()]).results] == [31]
    assert [int(r.error_code.value) for r in other.ask(Api.DELETE_ACLS, 3, filters=[ANY]).filter_results] == [31]
    assert surface.commands == []


def test_reports_only(surface: Secured) -> None:
    told: list[Event] = []
    settings = replace(ROOT, report_only=True)
    made = KafkaClient(surface, authorize=StandardAuthorizer(surface.image, settings, told.append))
    made.connection.principal = "User:a"
    answer = made.ask(Api.METADATA, 12, topics=[{"name": "orders", "topic_id": None}])
    assert [int(topic.error_code.value) for topic in answer.topics] == [0]
    assert [(event.kind, dict(event.fields)) for event in told] == [
        (
            WOULD_BE_DENIED,
            {"principal": "User:a", "peer": "10.0.0.9", "operation": "DESCRIBE", "resource": "TOPIC:orders", "api": 3},
        )
    ]
    assert made.ask(Api.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=1).producer_id >= 0
    assert told[1].fields["operation"] == "IDEMPOTENT_WRITE"


def test_who_may_write_to_some_topic_may_have_a_producer_id(surface: Secured) -> None:
    root, other = client(surface), client(surface, "User:a")
    ask = {"transactional_id": None, "transaction_timeout_ms": 1}
    assert int(other.ask(Api.INIT_PRODUCER_ID, 4, **ask).error_code.value) == 31
    root.ask(Api.CREATE_ACLS, 3, creations=[creation(operation=int(Operation.WRITE), resource_name="elsewhere")])
    assert int(other.ask(Api.INIT_PRODUCER_ID, 4, **ask).error_code.value) == 0


@pytest.mark.parametrize(("found", "may"), [(True, True), (False, False)])
def test_who_is_named_by_no_acl_may_or_may_not(surface: Secured, found: bool, may: bool) -> None:
    settings = replace(ROOT, allow_if_no_acl=found)
    authorizer = StandardAuthorizer(surface.image, settings)
    context = client(surface, "User:a")
    context.dispatcher = type(context.dispatcher)(surface, context.dispatcher.services.settings, authorizer)
    answer = context.ask(Api.METADATA, 12, topics=[{"name": "orders", "topic_id": None}])
    assert (int(answer.topics[0].error_code.value) == 0) == may
    assert authorizer._index.of_principal(TOPIC, "User:a") == ()
    assert Resource(ResourceType.TOPIC, "orders").name == "orders"


RETRIABLE = {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR}


@pytest.mark.parametrize("api", sorted(VERSIONS.keys() - BEFORE_AUTHENTICATION))
def test_before_the_acls_are_known_nobody_but_a_super_user_is_heard(surface: Secured, api: int) -> None:
    """A closed connection is tried again by every client; a denial would end it."""
    surface.formed = False
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        stranger = client(surface, "User:a")
        stranger.send(api, version, **REQUESTS[api])
        stranger.send(api, version, **REQUESTS[api])
        assert stranger.receive() == []
        assert stranger.connection.state is State.READY, "it would come again at once"
        surface.formed = True
        surface.fake_loop.run(REFUSED_AFTER_MS)
        surface.formed = False
        assert stranger.receive() == []
        assert stranger.connection.state is State.FAILED
        assert "who may do what" in stranger.connection.failure
    assert (surface.commands, surface.group_requests) == ([], [])


@pytest.mark.parametrize("api", sorted({*RESOURCES, Api.OFFSET_COMMIT}))
def test_before_the_acls_are_known_a_change_is_audited_all_the_same(surface: Secured, api: int) -> None:
    """A commit without a member is a reset of offsets."""
    surface.formed = False
    told: list[Event] = []
    guard = StandardAuthorizer(surface.image, ROOT)
    made = KafkaClient(surface, dispatcher=Dispatcher(surface, api_settings(), guard, tell=told.append))
    made.connection.principal = "User:a"
    made.send(api, VERSIONS[api].max, **REQUESTS[api])
    surface.fake_loop.run(REFUSED_AFTER_MS)
    audited = [event.fields for event in told if event.kind is AUDITED]
    (line,) = audited
    assert (line["principal"], line["action"], line["result"]) == ("User:a", Api(api).name, "connection closed")


def test_before_the_acls_are_known_greetings_are_answered_and_a_report_denies_nothing(surface: Secured) -> None:
    surface.formed = False
    told: list[Event] = []
    greeted = client(surface, "User:a").ask(Api.API_VERSIONS, 3, client_software_name="c", client_software_version="1")
    assert int(greeted.error_code.value) == 0
    reporting = StandardAuthorizer(surface.image, replace(ROOT, report_only=True), told.append)
    made = KafkaClient(surface, authorize=reporting)
    made.connection.principal = "User:a"
    assert Code(made.ask(Api.HEARTBEAT, 4, group_id="g", member_id="m").error_code.value) in RETRIABLE
    assert told == []
    root = client(surface)
    assert [int(one.error_code.value) for one in root.ask(Api.CREATE_ACLS, 3, creations=[]).results] == []
    surface.formed = True
    assert int(client(surface, "User:a").ask(Api.DESCRIBE_ACLS, 3, **ANY).error_code.value) == 31
