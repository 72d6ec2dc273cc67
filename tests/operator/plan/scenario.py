"""The language of the scenario files: what people and machines do to a model cluster, and what the operator decides.

A file is made of blocks: commands, a line `----`, and what was said. `#` begins a comment. MUSTER_REWRITE=1 writes what
was said anew; read the difference before it is committed.

    cluster replicas=3 groups=3    a new cluster (first command); groups: Raft groups beside the controller group
    image good-2 | bad-pull | bad-crash | bad-silent      spec.image: a new revision, good or not
    replicas 5                     spec.replicas
    pause on | off                 the annotation
    stuck on | off                 nothing can leave a coordinator that is to leave
    decommission 1                 a person says that broker 1 is to leave
    statefulset 5                  a hand on the StatefulSet's number
    crash 1 | cut-off 1 | silence 1 | behind 1            a pod's container, node, admin port, log
    lose 1 claim | volume | node | node-away | content     its volume, and how
    replace-lost on | off          spec.replaceLostReplicas
    annotate 1                     a person says that broker 1's data folder is gone for good
    room off | on                  for new volumes
    elect 0 1                      broker 1 wins an election of Raft group 0
    heal                           every fault is over
    run [passes]                   passes, 2 s apart, until nothing is left to do or (60) passes are over
    status                         the conditions as they are stored
    pods                           the pods
"""

import shlex
from dataclasses import replace

from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import (
    Action,
    Apply,
    Decommission,
    DeleteChild,
    Drain,
    EnsureSecret,
    Plan,
    ReplaceReplica,
    Undrain,
)

from tests.operator.plan.model_cluster import START_MS, ModelCluster

SEPARATOR = "----"
PASSES = 60


class Scenario:
    def __init__(self) -> None:
        self.model = ModelCluster()

    def run(self, command: str) -> list[str]:
        name, *words = shlex.split(command)
        model = self.model
        match name, words:
            case "cluster", options:
                self.model = ModelCluster(**{key: int(value) for key, value in (one.split("=") for one in options)})
            case "image", [image]:
                model.set_image(image)
            case "replicas", [count]:
                model.set_replicas(int(count))
            case "pause", [switch]:
                model.paused = switch == "on"
            case (("crash" | "cut-off"), [one]):
                (model.crash if name == "crash" else model.cut_off)(int(one))
            case (("stuck" | "decommission" | "statefulset"), [word]):
                self._of_members(name, word)
            case (("silence" | "behind"), [one]):
                (model.silent.add if name == "silence" else model.fall_behind)(int(one))
            case (("lose" | "replace-lost" | "annotate" | "room"), _):
                self._of_volumes(name, words)
            case "elect", [group, one]:
                model.elect(int(group), int(one))
            case "heal", []:
                model.heal()
            case "run", count:
                return self._passes(int(count[0]) if count else PASSES)
            case "status", []:
                return [
                    f"{one['type']}={one['status']} {one['reason']}: {one['message']}"
                    for one in model.status["conditions"]
                ]
            case "pods", []:
                return [self._pod(one) for one in sorted(model.pods)]
            case _:
                raise ValueError(f"unknown command: {command}")
        return []

    def _of_members(self, name: str, word: str) -> None:
        model = self.model
        if name == "stuck":
            model.stuck = "orders-0 stays on broker 4: no majority of its replicas is connected" if word == "on" else ""
        elif name == "statefulset":
            model.live["StatefulSet", "c"]["spec"]["replicas"] = int(word)
            model.by_hand = True
        else:
            seats = model.volumes.seats
            seats[int(word)] = replace(seats[int(word)], departing=True)

    def _of_volumes(self, name: str, words: list[str]) -> None:
        model = self.model
        match name, words:
            case "lose", [one, "claim"]:
                model.lose_claim(int(one))
            case "lose", [one, "content"]:
                model.empty(int(one))
            case "lose", [one, how]:
                model.lose_volume(int(one), how)
            case "replace-lost", [switch]:
                model.replace_lost = switch == "on"
            case "annotate", [one]:
                model.replace_folder = model.volumes.seats[int(one)].folder
            case "room", [switch]:
                model.volumes.provides = switch == "on"
            case _:
                raise ValueError(f"unknown command: {name} {words}")

    def _passes(self, count: int) -> list[str]:
        said: list[str] = []
        last = ""
        for _ in range(count):
            plan = self.model.plan()
            line = _line(plan)
            if line != last:
                said.append(f"{(self.model.now_ms - START_MS) // 1_000:4} s  {line}")
                last = line
            self.model.carry_out(plan)
            self.model.tick()
            if plan.decision == Reason.CONVERGED and not plan.actions:
                break
        return said

    def _pod(self, ordinal: int) -> str:
        pod = self.model.pods[ordinal]
        return f"c-{ordinal} {pod.revision} {pod.image} {'Ready' if pod.ready else 'not Ready'}, drain {pod.drain}"


def _line(plan: Plan) -> str:
    done = ", ".join(dict.fromkeys(_name(action) for action in plan.actions))
    reason = "" if plan.decision == Reason.CREATING_CHILDREN else f": {plan.reason}"
    return f"{plan.decision}{reason}" + (f"  => {done}" if done else "")


def _name(action: Action) -> str:
    match action:
        case Apply():
            return f"Apply {action.manifest['kind']}"
        case EnsureSecret():
            return "EnsureSecret"
        case DeleteChild():
            return f"Delete {action.kind}"
        case ReplaceReplica():
            return f"Replace {action.pod}"
        case Decommission():
            return f"{'Decommission' if action.departing else 'Keep'} {action.pod}"
        case Drain() | Undrain():
            return f"{type(action).__name__} {action.pod}"
        case _:
            return f"{type(action).__name__} {getattr(action, 'name', '')}".strip()


def run_scenario(text: str) -> str:
    """`text` with what was said written anew."""
    scenario = Scenario()
    out: list[str] = []
    said: list[str] = []
    expecting = False
    for line in text.splitlines():
        if expecting and line.strip():
            continue
        expecting = False
        if line.strip() == SEPARATOR:
            out += [SEPARATOR, *said]
            said, expecting = [], True
            continue
        out.append(line)
        if line.strip() and not line.startswith("#"):
            said += scenario.run(line)
    assert not said, "a block that says something ends with ----"
    return "\n".join(out) + "\n"
