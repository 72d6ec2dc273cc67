"""`muster group migrate`: copy committed offsets of groups from one cluster to another, both spoken to as Kafka.

Problem: who begins to use `topics.mode=kafka` has his committed offsets in that Kafka, and may want to go back.
Mechanism: some groups at a time are read at both sides, planned (`migrate_plan`), committed, read back, and looked at
once more at the source; each group has its own outcome, and none stops the others. What this does not do: move
consumers, delete anything, give a commit the time of the one that it copies (OffsetCommit cannot say it), or compare
the records of both sides.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import Annotated, Any, NamedTuple

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.group_copies import ListedGroup, commit_copies, list_groups, read_groups
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide
from muster_coordinator.cli.migrate_plan import (
    Answered,
    GroupAt,
    Outcome,
    Plan,
    Sides,
    batches,
    exit_code,
    judge,
    parse_pattern,
    plan_group,
    totals,
)
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Execute, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, emit_value, note

WORKERS_MAX = 4
"""So many batches of groups are under way at once, each with connections of its own to both sides."""
SENTENCES_MAX = 5
"""So many groups that were not migrated are told in sentences; the report has them all."""
_UNTRIED = "not tried: a side had stopped answering"
_NOT_DONE = (Outcome.REFUSED, Outcome.DIFFERS, Outcome.UNKNOWN)

_COLUMNS = (
    Column("group", "GROUP"),
    Column("outcome", "OUTCOME"),
    Column("partitions", "PARTITIONS", numeric=True),
    Column("copied", "COPIED", numeric=True),
    Column("only_at_target", "ONLY-AT-TARGET", numeric=True),
    Column("why", "WHY"),
)


class Result(NamedTuple):
    """One group of the report. `source`, `target`: as they were read first; None: they could not be."""

    outcome: Outcome
    why: str
    copied: int = 0
    source: GroupAt | None = None
    target: GroupAt | None = None


class _Asked(NamedTuple):
    source: tuple[str, Mapping[str, str], float]
    """What a KafkaSide is made of."""
    target: tuple[str, Mapping[str, str], float]
    sides: Sides
    overwrite: bool
    execute: bool
    listed: tuple[Mapping[str, ListedGroup], Mapping[str, ListedGroup]]
    """Of source and target."""


def migrate_groups(
    from_: Annotated[str, typer.Option("--from", help="host:port of brokers of the source, comma-separated.")],
    groups: Annotated[list[str] | None, typer.Argument(help="Group ids; after -- also those like options.")] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", help="All groups whose whole name matches this regular expression.")
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all", help="All groups of the source.")] = False,
    from_config: Annotated[
        Path | None,
        typer.Option("--from-config", help="As --config, for the source; --config is the target's.", dir_okay=False),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also where the target has other committed offsets already.")
    ] = False,
    execute: Execute = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Copy committed offsets from another cluster (--from) to this one. A dry run unless --execute is given.

    Offset, metadata and leader epoch are copied. The time of a commit cannot be given, so offsets are as new at the
    target as the copy.
    """
    if bool(groups) + (pattern is not None) + all_groups != 1:
        raise CliError(Exit.USAGE, "give groups, or one of --pattern and --all")
    matches = None if pattern is None else parse_pattern(pattern)
    source = (from_, read_client_properties(from_config), timeout)
    target = (bootstrap, read_client_properties(config), timeout)
    with KafkaSide(*source) as side:
        at_source, lacks = list_groups(side)
    with KafkaSide(*target) as side:
        at_target, _ = list_groups(side)  # what is missing there is known when it is read
    names = list(dict.fromkeys(groups or ()))
    if not groups:
        names = sorted(name for name in at_source if matches is None or matches.fullmatch(name))
        for sentence in lacks:
            note(f"{from_}: {sentence}")
    sides = Sides(f"the source {from_}", f"the target {bootstrap}")
    results = _migrate(names, _Asked(source, target, sides, overwrite, execute, (at_source, at_target)))
    _report(results, sides, output)
    if not execute:
        note("nothing was changed; add --execute to do it")
    outcomes = [one.outcome for one in results.values()]
    code = exit_code(outcomes, named=bool(groups), complete=bool(groups) or not lacks)
    if code is not Exit.OK:
        raise typer.Exit(int(code))


def _migrate(names: Sequence[str], asked: _Asked) -> dict[str, Result]:
    """The result of each group, in the order of `names`."""
    jobs: SimpleQueue[list[str]] = SimpleQueue()
    count = 0
    for batch in batches(names):
        jobs.put(batch)
        count += 1
    results: dict[str, Result] = {}
    stop = Event()
    with ThreadPoolExecutor(WORKERS_MAX) as pool:
        try:
            running = [pool.submit(_work, jobs, asked, stop) for _ in range(min(count, WORKERS_MAX))]
            for one in running:
                results.update(one.result())
        except BaseException:
            stop.set()  # what is under way ends with its group
            raise
    untried = Result(Outcome.UNKNOWN, _UNTRIED)
    return {name: results.get(name, untried) for name in names}


def _work(jobs: "SimpleQueue[list[str]]", asked: _Asked, stop: Event) -> dict[str, Result]:
    """Batch after batch; ends early when a side does not answer any more, or `stop` is set."""
    results: dict[str, Result] = {}
    with ExitStack() as stack:
        source, target = (stack.enter_context(KafkaSide(*one)) for one in (asked.source, asked.target))
        while not stop.is_set():
            try:
                batch = jobs.get_nowait()
            except Empty:
                break
            of_batch = _migrate_batch(source, target, batch, asked, stop)
            results.update(of_batch)
            if all(one.source is None for one in of_batch.values()) and any(
                one.outcome is Outcome.UNKNOWN for one in of_batch.values()
            ):
                stop.set()
    return results


def _migrate_batch(
    source: KafkaSide, target: KafkaSide, names: Sequence[str], asked: _Asked, stop: Event
) -> dict[str, Result]:
    results: dict[str, Result] = {}
    planned: dict[str, tuple[Plan, GroupAt]] = {}
    for name, (here, there) in _read_both(source, target, names, asked).items():
        if isinstance(here, CliError):
            results[name] = Result(_outcome_of(here), f"{asked.sides.source}: {here}")
        elif isinstance(there, CliError):
            results[name] = Result(_outcome_of(there), f"{asked.sides.target}: {there}")
        else:
            plan = plan_group(here, there, asked.sides, overwrite=asked.overwrite)
            results[name] = Result(plan.outcome, plan.why, len(plan.copies), here, there)
            if plan.outcome is Outcome.PLANNED:
                planned[name] = plan, here
    if not asked.execute:
        return results
    answers: dict[str, Answered] = {}
    for name, (plan, _) in planned.items():
        if stop.is_set():
            results[name] = results[name]._replace(outcome=Outcome.UNKNOWN, why=_UNTRIED)
        else:
            answers[name] = commit_copies(target, name, plan.copies)
    after = _read_both(source, target, list(answers), asked)
    for name, answered in answers.items():
        outcome, why = judge(planned[name][0], planned[name][1], answered, after[name], asked.sides)
        results[name] = results[name]._replace(outcome=outcome, why=why)
    return results


def _read_both(
    source: KafkaSide, target: KafkaSide, names: Sequence[str], asked: _Asked
) -> dict[str, tuple[GroupAt | CliError, GroupAt | CliError]]:
    at_source, at_target = asked.listed
    here, there = read_groups(source, names, at_source), read_groups(target, names, at_target)
    return {name: (here[name], there[name]) for name in names}


def _outcome_of(error: CliError) -> Outcome:
    return Outcome.UNKNOWN if error.code is Exit.UNREACHABLE else Outcome.REFUSED


def _report(results: Mapping[str, Result], sides: Sides, output: Format) -> None:
    counts = totals(one.outcome for one in results.values())
    rows = [_row(name, one) for name, one in results.items()]
    if output is Format.TABLE:
        emit([{**row, "group": printable(str(row["group"]))} for row in rows], _COLUMNS, output)
    else:
        emit_value({"groups": rows, "totals": counts}, output)
    not_done = [(name, one) for name, one in results.items() if one.outcome in _NOT_DONE]
    for name, one in not_done[:SENTENCES_MAX]:
        note(f"group {printable(name)} is not migrated: {one.why}")
    if len(not_done) > SENTENCES_MAX:
        note(f"nor are {len(not_done) - SENTENCES_MAX} more, see the report")
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "none"
    note(f"from {sides.source} to {sides.target}, groups: {told}")


def _row(name: str, one: Result) -> dict[str, Any]:
    known = one.source is not None and one.target is not None
    here = one.source.offsets if one.source else {}
    there = one.target.offsets if one.target else {}
    return {
        "group": name,
        "outcome": str(one.outcome),
        "partitions": len(here) if known else None,
        "copied": one.copied if known else None,
        "only_at_target": len(there.keys() - here.keys()) if known else None,
        "why": one.why or None,
    }


def printable(name: str) -> str:
    """A name for a terminal: one with control characters, or none at all, as JSON's string."""
    return name if name.isprintable() and name else json.dumps(name)
