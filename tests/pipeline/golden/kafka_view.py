"""What `kafka-consumer-groups` and its sisters say, as values: columns of fixed width, whose names may hold spaces."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Member:
    """One row of `--describe --members --verbose`. Assignments: (topic, partition) pairs; epochs None for classic."""

    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assigned: frozenset[tuple[str, int]]
    target: frozenset[tuple[str, int]] | None


def rows(output: str) -> Iterator[dict[str, str]]:
    """Rows of every table in the output; each table begins with its own header line."""
    header: list[tuple[str, int]] = []
    for line in output.splitlines():
        if line.startswith("GROUP ") and line == line.upper():
            header = columns(line)
        elif line.strip() and header:
            units = line.encode("utf-16-le")  # Java pads by UTF-16 units, of which an emoji has two
            edges = [2 * start for _, start in header[1:]] + [len(units)]
            yield {
                name: units[2 * start : end].decode("utf-16-le").strip()
                for (name, start), end in zip(header, edges, strict=True)
            }


def columns(header: str) -> list[tuple[str, int]]:
    """(name, first character) of each column; `COORDINATOR (ID)` is one."""
    found, at = [], 0
    for word in header.replace("COORDINATOR (ID)", "COORDINATOR_(ID)").split():
        at = header.replace("COORDINATOR (ID)", "COORDINATOR_(ID)").index(word, at)
        found.append((word, at))
        at += len(word)
    return found


def number(text: str) -> int | None:
    return None if text in ("", "-") else int(text)


def offsets(output: str) -> dict[tuple[str, str, int], int]:
    """(group, topic, partition) -> committed offset, of `--describe --offsets`; partitions without one are left out."""
    found = {}
    for row in rows(output):
        offset = number(row["CURRENT-OFFSET"])
        if offset is not None:
            found[row["GROUP"], row["TOPIC"], int(row["PARTITION"])] = offset
    return found


def members(output: str) -> dict[tuple[str, str], Member]:
    """(group, member id) -> member, of `--describe --members --verbose`."""
    found = {}
    for row in rows(output):
        if not row["CONSUMER-ID"]:
            continue
        epoch = number(row["CURRENT-EPOCH"])
        found[row["GROUP"], row["CONSUMER-ID"]] = Member(
            group=row["GROUP"],
            member_id=row["CONSUMER-ID"],
            instance_id=row.get("GROUP-INSTANCE-ID") or None,
            client_id=row["CLIENT-ID"],
            host=row["HOST"],
            epoch=epoch,
            assigned=assignment(row["CURRENT-ASSIGNMENT"]),
            target=None if epoch is None else assignment(row["TARGET-ASSIGNMENT"]),
        )
    return found


def assignment(text: str) -> frozenset[tuple[str, int]]:
    """`flights:0,1;weather:2`, topics may hold dots but neither colon nor semicolon."""
    return frozenset(
        (topic, int(partition))
        for part in text.split(";")
        if part not in ("", "-")
        for topic, _, numbers in [part.rpartition(":")]
        for partition in numbers.split(",")
    )


def states(output: str) -> Mapping[str, tuple[str, str | None, int | None, int | None, int]]:
    """group -> (state, assignor, group epoch, target epoch, members), of `--describe --state --verbose`."""
    return {
        row["GROUP"]: (
            row["STATE"],
            None if row["ASSIGNMENT-STRATEGY"] in ("", "-") else row["ASSIGNMENT-STRATEGY"],
            number(row.get("GROUP-EPOCH", "")),
            number(row.get("TARGET-ASSIGNMENT-EPOCH", "")),
            int(row["#MEMBERS"]),
        )
        for row in rows(output)
    }
