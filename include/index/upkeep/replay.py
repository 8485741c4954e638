"""Dead letters once more through the indexer's own task: for letters that a mended mapping or reader takes by now.

Reads only, but for the index: letters stay in their topic, as another generation may want them. A letter's record goes
by its own version, so one that was overtaken meanwhile is stale and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from include.errors import InvalidRecord, Terminal, Transient
from include.index.outcome import TaskOutcome
from include.index.states import States
from include.log.ports import LogReader, Record
from include.log.publishing.dead_letter import DeadLetter

__all__ = ["Replayed", "letters_of", "replay", "try_out"]

_TOGETHER: Final = 200


@dataclass
class Replayed:
    """What became of the letters of one topic.

    `done`: written now. `stale`: the index has this state or a newer one. `refused`: still not to be indexed, by their
    coordinates with the reason of now.
    """

    topic: str
    read: int = 0
    done: int = 0
    stale: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        refused = [{"at": at, "reason": reason} for at, reason in self.refused]
        return {"topic": self.topic, "read": self.read, "done": self.done, "stale": self.stale, "refused": refused}


def letters_of(reader: LogReader, dead_topic: str, topic: str, topic_id: str = "") -> Iterable[Record]:
    """The records of `topic` that were set aside in a dead-letter topic, each once, oldest first; none without it.

    A record that several generations refused, or that was set aside by several readers, has several letters. Letters of
    the topic as it was before it was made anew (another id than `topic_id`) are passed over: what they say lies behind
    all that the topic says now, though their offsets may be greater.
    """
    try:
        begins, ends = reader.begin_offsets(dead_topic), reader.end_offsets(dead_topic)
    except Terminal:
        return
    seen: set[tuple[int, int]] = set()
    for p, end in ends.items():
        for letter in reader.read(dead_topic, p, begins[p], end):
            found = DeadLetter.parse(letter)
            record, former = found.record, topic_id and found.topic_id and found.topic_id != topic_id
            # Letters of records beside the topic (resolved ones) are no documents.
            if former or record.topic != topic or (record.partition, record.offset) in seen:
                continue
            seen.add((record.partition, record.offset))
            yield record


def replay(
    topic: str,
    records: Iterable[Record],
    run: Callable[[list[Record]], TaskOutcome],
    on_progress: Callable[[Replayed], None],
) -> Replayed:
    """Index `records` of `topic` again by `run`, a few at a time; `on_progress` hears after each step.

    May be run again, and beside the application. Raises what a task has as its fault, and `Transient` when the index
    does not take documents.
    """
    out = Replayed(topic)
    for group in _groups(records):
        outcome = run(group)
        if outcome.fault is not None:
            raise outcome.fault
        if outcome.waiting:
            raise Transient("index does not take documents", system="elasticsearch", reason=outcome.reason)
        out.read += len(group)
        out.done += outcome.total("indexed") + outcome.total("deleted")
        out.stale += outcome.total("stale") + outcome.total("folded") + outcome.total("filtered")
        out.refused += [(str(one.record.at), one.reason) for one in outcome.dead]
        on_progress(out)
    return out


def try_out(
    topic: str, records: Iterable[Record], states: States, version_of: Callable[[list[str]], Mapping[str, int]]
) -> Replayed:
    """What `replay` would do as far as can be said without writing: `done` may still be refused by the mapping.

    `version_of` gives the versions that the index has of documents, by their ids.
    """
    out = Replayed(topic)
    for group in _groups(records):
        documents: list[tuple[str, int]] = []
        for record in group:
            out.read += 1
            try:
                state = states.of(record)
            except InvalidRecord as error:
                out.refused.append((str(record.at), f"{error.message}: {error.details.get('reason', '')}"))
                continue
            if state is None:
                out.stale += 1
            else:
                documents.append((state.doc_id, state.version))
        there = version_of([doc_id for doc_id, _ in documents])
        stale = sum(there.get(doc_id, -1) >= version for doc_id, version in documents)
        out.stale += stale
        out.done += len(documents) - stale
    return out


def _groups(records: Iterable[Record]) -> Iterable[list[Record]]:
    group: list[Record] = []
    for record in records:
        group.append(record)
        if len(group) >= _TOGETHER:
            yield group
            group = []
    if group:
        yield group
