"""Reports how far tables are: version, label, lag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from include.clock import Clock, iso
from include.lake.tables.definition import TableEntry
from include.lake.tables.delta_log import DeltaLog
from include.lake.tables.generation import Generations, generation_folder
from include.log import topics
from include.log.ports import LogReader, TopicAdmin
from include.log.publishing.last_mark import newest_of

__all__ = ["TableStatus", "table_status"]

_LOOKED_BACK = 200
"""Versions among which the newest label is looked for."""


@dataclass(frozen=True)
class TableStatus:
    """One table.

    Args:
        entry: name of the entry that keeps it.
        topic: what it is the state of.
        generation: the one that is read.
        writing: the one that is written; another while a new one is made.
        version: Delta's, of the generation that is read.
        rows: how many.
        files: how many.
        size_bytes: of its files.
        label_version: newest version that is complete to a position; None: none is, as far as one looked back.
        positions: source → GTIDs that it is complete to.
        complete_to: when the last of these transactions was committed; None without a label.
        lag_s: seconds since then.
        uncovered: tables whose changes it may lack.
        waiting: offsets of the topic that it has not taken in, as far as the newest resolved record goes.
    """

    entry: str
    topic: str
    generation: int
    writing: int
    version: int
    rows: int
    files: int
    size_bytes: int
    label_version: int | None
    positions: dict[str, str]
    complete_to: str | None
    lag_s: float | None
    uncovered: list[str]
    waiting: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def table_status(
    name: str,
    entry: TableEntry,
    topic: str,
    generations: Generations,
    log_of: Callable[[str], DeltaLog],
    reader: LogReader,
    admin: TopicAdmin,
    clock: Clock,
) -> TableStatus | None:
    """The status of the table of a topic; None where its generation has no version yet.

    Args:
        name: of the entry that keeps it.
        entry: as it is declared.
        topic: its name.
        generations: of its table.
        log_of: key of a folder → the log of the table there.
        reader: tells how far the topic goes.
        admin: tells whether the topic is still the one that the table is of.
        clock: tells the present, for the lag.

    Raises:
        Terminal: Lyrebird did not make the table, or a resolved record of the topic cannot be read.
        Transient: store or log does not answer.
    """
    log = log_of(generation_folder(entry.prefix, topic, generations.read))
    state = log.state()
    if state is None:
        return None
    labelled = next(((version, label) for version, _, label in log.labels(_LOOKED_BACK) if label), None)
    label = labelled[1] if labelled else {}
    commits = [cut.position.commit_us for cut in label.values()]
    info = admin.describe(topic)
    same = info is not None and info.topic_id == state.standing.topic_id
    ends = _ends(topic, reader, admin) if same else {}
    begins = reader.begin_offsets(topic) if same else {}
    files = [file for of in state.files.values() for file in of]
    return TableStatus(
        name,
        topic,
        generations.read,
        generations.writing,
        state.version,
        sum(file.rows for file in files),
        len(files),
        sum(file.size_bytes for file in files),
        labelled[0] if labelled else None,
        {source: str(cut.position.gtids) for source, cut in sorted(label.items())},
        iso(min(commits)) if commits else None,
        round((clock.now_us() - min(commits)) / 1e6, 1) if commits else None,
        sorted({table for cut in label.values() for table in cut.uncovered}),
        sum(max(0, end - max(begins[p], state.standing.ends.get(p, 0))) for p, end in ends.items()),
    )


def _ends(topic: str, reader: LogReader, admin: TopicAdmin) -> dict[int, int]:
    """Up to where a table of the topic can be: behind the newest resolved record it waits for the next."""
    resolved = topics.resolved_of(topic)
    if admin.describe(resolved) is None:
        return reader.end_offsets(topic)
    spoken = newest_of(reader, resolved)[0].ends() or {}
    return {partition: end for (named, partition), end in spoken.items() if named == topic}
