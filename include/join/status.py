"""Tells how far a join is by what it has committed: no Spark, no state opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from include.clock import iso
from include.join.algorithm.rework import DONE
from include.join.committed import CommittedJoin, read_committed
from include.join.config.deployed import DeployedJoin
from include.join.requests import JoinRequests
from include.log import topics
from include.log.ports import LogReader, TopicAdmin, all_of
from include.log.publishing.last_mark import newest_of

__all__ = ["JoinStatus", "join_status"]

_COUNTED: Final = 1_000


@dataclass(frozen=True)
class JoinStatus:
    """A join as it stands.

    Args:
        name: of the join.
        topic: the joined topic.
        inputs: the inputs as the file names them.
        rows: of each input, how many rows the state has.
        state_bytes: of all their keys and values.
        buckets: parts of the state that were ever written.
        incomplete: join keys that lack outputs, as a record would have changed too many.
        behind: records of all inputs that the join has not read yet.
        positions: source → what the topic is complete to, as GTIDs.
        at: when it said so, or committed a batch that resolved nothing; '' when it never did.
        uncovered: tables whose changes the topic may lack.
        changing: how far it has become another join, or was made anew; '' when that is over.
        asked: requests that are not done.
        unverified: its state was imported, and it waits until that was verified.
    """

    name: str
    topic: str
    inputs: tuple[str, ...]
    rows: tuple[int, ...]
    state_bytes: int
    buckets: int
    incomplete: int
    behind: int
    positions: dict[str, str]
    at: str
    uncovered: tuple[str, ...]
    changing: str = ""
    asked: tuple[str, ...] = ()
    unverified: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a person."""
        out = [f"{self.name}: {self.topic}, {sum(self.rows):,} rows, {self.state_bytes / 1e6:,.1f} MB of state"]
        out += [f"  {topic}: {rows:,} rows" for topic, rows in zip(self.inputs, self.rows, strict=True)]
        out += [f"  complete to {position} of {source}" for source, position in self.positions.items()]
        if self.at:
            out.append(f"  said at {self.at}; {self.behind:,} records of inputs behind")
        else:
            out.append("  has said nothing yet: does it run? See `lyrebird status`")
        if self.incomplete:
            out.append(
                f"  {self.incomplete:,} join keys lack outputs: records that change more than max_product_per_change "
                "are named in the dead-letter topics of the inputs"
            )
        if self.uncovered:
            out.append(f"  not covered: {', '.join(self.uncovered)}")
        if self.unverified:
            out.append(f"  waits: its state was imported; next: lyrebird state verify {self.name}")
        if self.changing:
            out.append(f"  changes: {self.changing}")
        out += [f"  asked for, and not done: request {each}" for each in self.asked]
        return out


def join_status(join: DeployedJoin, reader: LogReader, admin: TopicAdmin) -> JoinStatus:
    """Reads how far a declared join is."""
    names = set(admin.names())
    resolved = topics.resolved(join.topic)
    committed = read_committed(reader, join.topic) if topics.state(join.topic) in names else None
    committed = committed or CommittedJoin(join.file.buckets)
    counts = committed.counts()
    # While it becomes another join: the inputs of the one whose outputs are out.
    inputs = committed.inputs or tuple(each.label for each in join.file.join)
    slots = committed.slots or tuple(range(len(inputs)))
    asked = JoinRequests(all_of(reader, topics.answers(join.topic)) if topics.answers(join.topic) in names else ())
    positions: dict[str, str] = {}
    uncovered: set[str] = set()
    at_us = behind = 0
    if resolved in names:
        view, _, spoken = newest_of(reader, resolved)
        for source in view.sources():
            if (last := view.of(source)) is not None:
                positions[source] = str(last.position.gtids)
                uncovered |= set(last.uncovered)
                at_us = max(at_us, int(last.state.get("at_us", 0)))
        if spoken is not None and spoken.committed is not None:
            behind = _behind(spoken.committed, reader, names)
            at_us = max(at_us, spoken.at_us)
    return JoinStatus(
        join.name,
        join.topic,
        inputs,
        tuple(counts[f"input_{slot}"] for slot in slots),
        counts["bytes"],
        len(committed.pointers),
        counts["incomplete"],
        behind,
        dict(sorted(positions.items())),
        iso(at_us) if at_us else "",
        tuple(sorted(uncovered)),
        _changing(committed, reader, names),
        tuple(sorted(asked.open)),
        committed.unverified,
    )


def _changing(committed: CommittedJoin, reader: LogReader, names: Collection[str]) -> str:
    takeover = committed.takeover
    if takeover is None:
        return ""
    ends = {(t, p): end for t in takeover.anew if t in names for p, end in reader.end_offsets(t).items()}
    left = sum(end - takeover.cursors.get(at, 0) for at, end in ends.items())
    gone = sum(place == DONE for place in takeover.places.values())
    round_ = " of the second round" if takeover.second else ""
    read = f"{left:,} of {sum(ends.values()):,} records still to read anew, " if ends else ""
    return f"{read}{gone} of {committed.buckets} buckets{round_} gone through"


def _behind(committed: Mapping[str, int], reader: LogReader, names: Collection[str]) -> int:
    by_topic: dict[str, dict[int, int]] = {}
    for text, offset in committed.items():
        topic, _, partition = text.rpartition("/")
        by_topic.setdefault(topic, {})[int(partition)] = offset
    return sum(
        _records(reader, topic, partition, offsets.get(partition, 0), end)
        for topic, offsets in by_topic.items()
        if topic in names
        for partition, end in reader.end_offsets(topic).items()
    )


def _records(reader: LogReader, topic: str, partition: int, start: int, end: int) -> int:
    """Records of a range; where it is long its offsets, of which some are ends of transactions."""
    if end - start > _COUNTED:
        return end - start
    return sum(1 for _ in reader.read(topic, partition, start, end)) if start < end else 0
