"""The driver's side of tables: plans what tasks do in a batch, and commits what they made. No Spark.

A batch brings each table that it touches one version further. The steps, in this order:

1. tasks put buckets' new files into the store, under names that no version has yet
2. records that cannot be rows are set aside (`log.publishing.letters`)
3. columns that rows of the batch brought are added, as a version with the rows of before
4. one commit a table: its new files in, the old ones out, offsets, floor, label
5. a generation that is complete for the first time serves readers

A crash after 1 leaves files that no version names, which maintenance removes; after 2 to 4 the batch comes again for
the tables that lack it, and for no others: where a table goes on stands in its own last version. A step that is gone in
parts ends in versions without labels: they are complete to nothing.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from include.clock import Clock
from include.errors import Terminal
from include.lake.tables.columns import KEY, VERSION, Columns, merged_schema
from include.lake.tables.definition import TableEntry
from include.lake.tables.delta_log import DeltaLog, TableState
from include.lake.tables.generation import (
    Generations,
    begin_generation,
    generation_folder,
    generations_of,
    serve_generation,
)
from include.lake.tables.rows import RefusedRow, RowReader
from include.lake.tables.standing import GenerationState, Label
from include.lake.tables.work import CarryOutTables, TableBucketResult, TableWork, arrow_bytes, arrow_schema
from include.log import topics
from include.log.control import floors_of
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import Slice
from include.log.ports import LogReader, Record, SchemaRegistry, TopicInfo
from include.log.publishing.dead_letter import DeadLetterLimit
from include.log.publishing.letters import DeadLetterWriter, letters_within
from include.store.object_store import ObjectStore

__all__ = ["TablesRunner"]

LOGGER: Final = logging.getLogger("lyrebird.tables")
_NEAR: Final = 1_000
"""Offsets among which records that were refused are read at once."""
_LABEL_EVERY_S: Final = 30.0
_SEEN_EVERY_S: Final = 3600.0
"""Least time between two versions of a table that nothing happened to: its label goes on, or, where its topic has no
resolved records, the time up to which it has seen the topic's deletions."""


@dataclass
class _Table:
    """A table that is written."""

    topic: str
    log: DeltaLog
    state: TableState
    generations: Generations
    change: bool
    committed_s: float

    @property
    def standing(self) -> GenerationState:
        return self.state.standing


class TablesRunner:
    """Carries out the batches of one entry of section `tables`; `open` before the first one.

    Args:
        name: the entry's.
        entry: what is declared.
        store: where files go.
        log_of: key of a folder → the log of the Delta table there.
        registry: schemas of the topics.
        reader: of control topics, and of records that are set aside.
        letters: writes these.
        deletions_kept_ms: topic → how long it keeps deletions at least, None where that is not known.
        clock: for labels, and when records were set aside.
        carry_out: does a batch's work.
    """

    def __init__(
        self,
        name: str,
        entry: TableEntry,
        *,
        store: ObjectStore,
        log_of: Callable[[str], DeltaLog],
        registry: SchemaRegistry,
        reader: LogReader,
        letters: DeadLetterWriter,
        deletions_kept_ms: Callable[[str], int | None],
        clock: Clock,
        carry_out: CarryOutTables,
    ) -> None:
        self._name, self._entry = name, entry
        self._store, self._log_of, self._registry = store, log_of, registry
        self._reader, self._letters, self._clock, self._carry_out = reader, letters, clock, carry_out
        self._deletions_kept_ms = deletions_kept_ms
        self._tables: dict[str, _Table] = {}
        self._limits: dict[str, DeadLetterLimit] = {}
        self._cut_at: frozenset[str] = frozenset()

    @property
    def states(self) -> Mapping[str, TableState]:
        """Topic → its table's newest version."""
        return {topic: each.state for topic, each in self._tables.items()}

    def open(self, infos: Iterable[TopicInfo], sources: Sequence[str], cut_at: Collection[str] = ()) -> list[str]:
        """Take up, or make, the table of each of these topics; a topic without a schema has none yet, and is left out.

        A topic that was made anew begins a new generation of its table.

        Args:
            infos: the topics as they are.
            sources: whose positions labels name.
            cut_at: the resolved topics that say them.

        Raises:
            Terminal: a topic has more partitions than its table was made with, or its table stood still for longer than
                it keeps deletions.
            Transient: store or registry do not answer.
        """
        self._cut_at = frozenset(cut_at)
        for info in infos:
            table = self._opened(info, sources)
            if table is not None:
                self._tables[info.name] = table
                self._limits[info.name] = DeadLetterLimit()
        return sorted(self._tables)

    def start(self) -> dict[str, dict[int, int]]:
        """Topic → partition → next offset; control topics are read from their beginnings, as what they say holds."""
        return {topic: dict(each.standing.ends) for topic, each in self._tables.items()}

    def controls(self) -> list[str]:
        """Topics that say floors of these tables."""
        return sorted({topics.control(source) for topic in self._tables for source in _source_of(topic)})

    def asked_anew(self) -> bool:
        """Whether somebody asked for a new generation of a table since `open`."""
        return any(
            generations_of(self._store, self._entry.prefix, topic) != each.generations
            for topic, each in self._tables.items()
        )

    def run(self, plan: BatchPlan) -> Counter[str]:
        """Carry a batch out, exactly once, also when it is run again; what became of its records."""
        floors = self._floors(plan)
        works = [work for table in self._tables.values() if (work := self._work(table, plan, floors)) is not None]
        results = self._carried_out(works) if works else {}
        counts = self._set_aside(results, plan)
        for table in self._tables.values():
            of_table = results.get(table.topic, [])
            for each in of_table:
                counts.update(each.counts)
            self._commit(table, plan, floors.get(table.topic, 0), of_table)
        return counts

    def _opened(self, info: TopicInfo, sources: Sequence[str]) -> _Table | None:
        topic, prefix = info.name, self._entry.prefix
        change = topics.TopicName.parse(topic).kind == "change"
        now = generations_of(self._store, prefix, topic) or begin_generation(self._store, prefix, topic, 0)
        while True:
            log = self._log_of(generation_folder(prefix, topic, now.writing))
            state = log.state(sources)
            if state is None:
                schema = self._first_schema(topic, change)
                if schema is None:
                    return None
                now_ms = self._clock.now_us() // 1000
                standing = GenerationState(
                    topic, info.topic_id, self._entry.buckets, info.partitions, committed_ms=now_ms
                )
                state = log.create(schema, standing, days=self._entry.time_travel_days)
            if state.standing.topic_id == info.topic_id:
                break
            LOGGER.warning("%s was made anew: its table begins generation %d", topic, now.writing + 1)
            now = begin_generation(self._store, prefix, topic, now.writing)
        if info.partitions != state.standing.partitions:
            raise Terminal(
                "topic has another number of partitions than its table was made with, so keys moved between them",
                topic=topic,
                has=info.partitions,
                table=state.standing.partitions,
                fix=f"Begin a new generation of the table: `lyrebird table rebuild {topic}`.",
            )
        self._require_deletions(state.standing)
        return _Table(topic, log, state, now, change, -math.inf)

    def _require_deletions(self, standing: GenerationState) -> None:
        """Raise where the topic may have forgotten deletions that the table has not seen."""
        kept_ms = self._deletions_kept_ms(standing.topic)
        away_ms = self._clock.now_us() // 1000 - standing.committed_ms
        if standing.ends and kept_ms is not None and away_ms > kept_ms:
            raise Terminal(
                "the table stood still for longer than its topic keeps deletions",
                topic=standing.topic,
                stood_still_h=round(away_ms / 3_600_000),
                kept_h=round(kept_ms / 3_600_000),
                fix=f"Begin a new generation of the table: `lyrebird table rebuild {standing.topic}`.",
            )

    def _first_schema(self, topic: str, change: bool) -> Any:
        """The table's own columns and those of the newest schema; None while nothing is registered."""
        import pyarrow.lib as pa

        schema_id = self._registry.newest(f"{topic}-value")
        if schema_id is None:
            return None
        reader = RowReader(topic, change=change, schema_of=self._registry.schema)
        own = [pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64())]
        return pa.schema([*own, *Columns(reader.row_schema(schema_id)).arrow])

    def _floors(self, plan: BatchPlan) -> dict[str, int]:
        """Topic → its floor after this batch."""
        floors = {topic: each.standing.floor for topic, each in self._tables.items()}
        for (topic, partition), end in plan.ends.items():
            name = topics.TopicName.parse(topic)
            start = plan.start.get((topic, partition), 0)
            if name.kind != "control" or name.source is None or end <= start:
                continue
            for named, floor in floors_of(name.source, self._reader.read(topic, partition, start, end)).items():
                if named in floors:
                    floors[named] = max(floors[named], floor)
        return floors

    def _work(self, table: _Table, plan: BatchPlan, floors: Mapping[str, int]) -> TableWork | None:
        slices = []
        for (topic, partition), end in sorted(plan.ends.items()):
            if topic == table.topic:
                start = max(plan.start.get((topic, partition), 0), table.standing.ends.get(partition, 0))
                if end > start:
                    slices.append(Slice(topic, partition, start, end, table.standing.topic_id))
        floor = floors[table.topic]
        if not slices and floor == table.standing.floor:
            return None
        return TableWork(
            table.topic,
            table.change,
            table.standing.buckets,
            generation_folder(self._entry.prefix, table.topic, table.generations.writing),
            uuid.uuid4().hex,
            arrow_bytes(table.state.schema),
            table.state.files,
            floor,
            slices,
        )

    def _carried_out(self, works: Sequence[TableWork]) -> dict[str, Sequence[TableBucketResult]]:
        """The work done; of a table whose columns became wider once more, for all of its buckets."""
        results = dict(self._carry_out(works))
        again = []
        for work in works:
            of_table = results.get(work.topic, ())
            if any(each.wider for each in of_table):
                schema = arrow_schema(work.schema)
                for each in of_table:
                    schema, _ = merged_schema(schema, arrow_schema(each.schema), work.topic)
                again.append(replace(work, schema=arrow_bytes(schema), token=uuid.uuid4().hex, whole=True))
        return results | dict(self._carry_out(again)) if again else results

    def _set_aside(self, results: Mapping[str, Sequence[TableBucketResult]], plan: BatchPlan) -> Counter[str]:
        """Write what cannot be understood to dead-letter topics; `refused <topic>` → how much that was."""
        letters, counts = [], Counter[str]()
        for topic, of_table in results.items():
            refused = sorted({one for each in of_table for one in each.refused})
            counts[f"refused {topic}"] = len(refused)
            read = sum(each.counts["read"] for each in of_table)
            topic_letters = letters_within(
                self._limits[topic],
                self._records(refused),
                len(refused),
                read,
                self._entry.application,
                self._clock.now_us(),
                plan.topic_ids,
            )
            letters += [(topics.dead(topic, self._entry.application), letter) for letter in topic_letters]
        self._letters.write(f"{self._entry.application}.{self._name}.dead", letters, plan.ends)
        return counts

    def _records(self, refused: Sequence[RefusedRow]) -> Iterator[tuple[Record, str]]:
        """Each with its reason; those that lie close to each other are read at once."""
        index = 0
        while index < len(refused):
            topic, partition, first, _ = refused[index]
            wanted: dict[int, str] = {}
            while (
                index < len(refused)
                and refused[index][:2] == (topic, partition)
                and refused[index].offset < first + _NEAR
            ):
                wanted[refused[index].offset] = refused[index].reason
                index += 1
            for record in self._reader.read(topic, partition, first, max(wanted) + 1):
                if record.offset in wanted:
                    yield record, wanted[record.offset]

    def _commit(self, table: _Table, plan: BatchPlan, floor: int, results: Sequence[TableBucketResult]) -> None:
        ends = {p: end for (topic, p), end in plan.ends.items() if topic == table.topic}
        ends = {p: max(end, ends.get(p, 0)) for p, end in table.standing.ends.items()} | {
            p: max(end, table.standing.ends.get(p, 0)) for p, end in ends.items()
        }
        label = self._label(table, plan)
        # A plain topic without resolved records has no better moment than the end of a batch.
        named = topics.resolved_of(table.topic) in self._cut_at
        now_s = self._clock.monotonic_s()
        moved = ends != dict(table.standing.ends) or floor != table.standing.floor
        first = bool(label) and table.generations.serving != table.generations.writing
        every_s = _LABEL_EVERY_S if label else _SEEN_EVERY_S
        if not moved and not first and now_s - table.committed_s < every_s:
            return
        resolved = {**table.standing.resolved, **{source: cut.resolved_offset for source, cut in label.items()}}
        now_ms = self._clock.now_us() // 1000
        standing = replace(table.standing, ends=ends, floor=floor, resolved=resolved, committed_ms=now_ms)
        schema, whole = self._evolved(table, results)
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result.counts)
        table.state = table.log.commit(
            table.state,
            standing,
            added=[result.added for result in results if result.added is not None],
            removed=[file for result in results for file in result.removed],
            label=label,
            counts=counts,
            schema=schema if whole else None,
        )
        table.committed_s = now_s
        if (label or not named) and table.generations.serving != table.generations.writing:
            table.generations = serve_generation(
                self._store, self._entry.prefix, table.topic, table.generations.writing
            )

    @staticmethod
    def _evolved(table: _Table, results: Sequence[TableBucketResult]) -> tuple[Any, bool]:
        """The table's schema with what rows brought, whose new columns are added now; and whether some are wider."""
        schema = table.state.schema
        wider: set[str] = set()
        for each in results:
            schema, more = merged_schema(schema, arrow_schema(each.schema), table.topic)
            wider.update(more)
        if schema.names != table.state.schema.names:
            table.state = table.log.add_columns(schema, tuple(table.standing.resolved))
        return schema, bool(wider)

    @staticmethod
    def _label(table: _Table, plan: BatchPlan) -> Label:
        named = topics.resolved_of(table.topic)
        return {source: cut for (resolved, source), cut in plan.cuts.items() if resolved == named}


def _source_of(topic: str) -> list[str]:
    name = topics.TopicName.parse(topic)
    return [name.source] if name.kind == "change" and name.source is not None else []
