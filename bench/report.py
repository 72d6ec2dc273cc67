"""Rows as Markdown, and their place in docs/benchmarks.md. Pure: text in, text out.

Each row owns a section between two marks, so that one row can be measured again without losing the others. People write
the reasons for missed targets into `bench/reasons.toml`; a missed target without one says so.
"""

from collections.abc import Mapping, Sequence

from bench.compare import KAFKA, MUSTER, SIDES, Samples, Verdict, number, ratio, spread
from bench.runner import RowResult

BEGIN, END = "<!-- bench:{} -->", "<!-- /bench:{} -->"
NO_REASON = "reason not yet known"
Reasons = Mapping[str, Mapping[str, str]]
"""Row -> target, by its text -> why it is missed. Two targets of one figure have a reason each."""


def table(result: RowResult) -> str:
    """Figures by side; the ratio of medians where both clusters have the figure."""
    samples: Samples = result.samples
    sides = [side for side in SIDES if side in result.row.sides]
    compares = MUSTER in sides and KAFKA in sides
    head = ["figure", *sides, *(["Muster / Kafka"] if compares else [])]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for figure, unit in result.row.units.items():
        cells = [f"{figure} ({unit})", *(spread(samples.get(figure, {}).get(side, ())) for side in sides)]
        if compares:
            value = ratio(samples, figure, MUSTER, KAFKA)
            cells.append("–" if value is None else f"{value:.2f}x")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def targets(result: RowResult, reasons: Reasons) -> str:
    """One line per target; a missed one is bold and has its reason."""
    lines = []
    for one in result.judgements:
        said = one.verdict.value
        if one.verdict is Verdict.MISSED:
            reason = reasons.get(result.row.name, {}).get(one.target.text, NO_REASON)
            said = f"**missed**: {reason}"
        lines.append(f"* {one.target.text}: {one.measured}, {said}")
    return "\n".join(lines)


def unexplained(result: RowResult, reasons: Reasons) -> list[str]:
    """The targets that were not judged, or missed without a reason: what nobody knows yet."""
    known = reasons.get(result.row.name, {})
    return [
        f"{result.row.name}: {one.target.text}: {one.measured}"
        for one in result.judgements
        if one.verdict is not Verdict.HELD and not (one.verdict is Verdict.MISSED and one.target.text in known)
    ]


def section(result: RowResult, reasons: Reasons, machine: Mapping[str, str]) -> str:
    """The whole text of a row, without its marks."""
    row = result.row
    parts = [f"### {row.title} (`{row.name}`)", row.how, table(result)]
    if row.targets:
        parts.append(targets(result, reasons))
    if len(result.p99_ms) > 1:
        together = ", ".join(f"{side} {number(ms)} ms" for side, ms in result.p99_ms.items())
        parts.append(f"p99 of all runs together: {together}.")
    parts += [f"Not measured on {side}: {'; '.join(why)}." for side, why in result.failures.items()]
    parts.append(
        f"{result.when}, load {result.load_before:g} before and {result.load_after:g} after, "
        f"{result.stolen_ticks} ticks stolen, Muster {machine['Muster']}, Kafka {machine['Kafka']}, {machine['model']}."
    )
    return "\n\n".join(parts)


def machine_section(machine: Mapping[str, str]) -> str:
    return "\n".join(f"* {name}: {value}" for name, value in machine.items())


def place(document: str, sections: Mapping[str, str], order: Sequence[str]) -> str:
    """The document with these sections between their marks; a new one is inserted behind its neighbour in `order`.

    Text outside the marks is unchanged. Raises ValueError if a mark occurs twice or has no end.
    """
    for name, text in sections.items():
        begin, end = BEGIN.format(name), END.format(name)
        whole = f"{begin}\n{text}\n{end}"
        if document.count(begin) > 1 or document.count(begin) != document.count(end):
            raise ValueError(f"marks of {name} do not pair")
        if begin in document:
            head, _, rest = document.partition(begin)
            document = head + whole + rest.partition(end)[2]
            continue
        at = order.index(name)
        before = [END.format(other) for other in reversed(order[:at]) if END.format(other) in document]
        after = [BEGIN.format(other) for other in order[at + 1 :] if BEGIN.format(other) in document]
        if before:
            document = document.replace(before[0], f"{before[0]}\n\n{whole}")
        elif after:
            document = document.replace(after[0], f"{whole}\n\n{after[0]}")
        else:
            document = f"{document.rstrip()}\n\n{whole}\n"
    return document
