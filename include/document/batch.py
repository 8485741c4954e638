"""Runs a batch of the assembler: signals → keys → look-ups in snapshots → documents in one transaction.

Knows neither Spark nor Kafka nor MySQL, only the ports. Memory is bounded by keys and versions: look-ups are read and
documents are written in chunks of 1,000 keys, all in the same transaction. Each chunk is read in a snapshot of its own
(the first one in that which finds the keys), as keys are independent; encoding, writing and waiting come after it. More
than one further chunk may be made elsewhere (`making`).
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from include.clock import Clock
from include.document.assembler import Assembler
from include.document.batch_keys import AffectedKeys, KeyFinder
from include.document.behind import Reach
from include.document.dead_letters import AssemblerLetters, FailedDocument
from include.document.encoders import DocumentEncoders
from include.document.making import CHUNK, ChunkResult, MakeRest, chunks_of, encoded
from include.document.overflow_requests import OWN, reached, spread
from include.document.reading.lookup import MissingRow
from include.document.reading.read_after import ReplicaBehind
from include.document.reading.read_throttle import Metered, ReadLoad
from include.document.reading.tables import SourceTables
from include.document.rebuild import FIRST_START, Rebuilds
from include.document.signals import Inputs, Signals
from include.document.topic_state import Find, LivingPages, by_reader
from include.errors import InvalidRecord, Transient
from include.log.planning.plan import BatchPlan, Cut, Partition
from include.log.planning.tail import PortTail, ResolvedTail
from include.log.ports import LogReader, SchemaRegistry
from include.log.publishing.publisher import Publisher
from include.log.requests.records import Answer, Request
from include.metrics.exporter import Metrics
from include.pace import Backoff
from include.record.codec import Decoder
from include.record.position import SourcePosition

__all__ = ["BatchRunner"]

LOGGER: Final = logging.getLogger("lyrebird.document")
DocumentKey = tuple[Any, ...]
_COUNTED: Final = "counted"
"""Inputs that signal nothing, so that one which signals later is a new one."""
_PATIENCE_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0


class BatchRunner:
    """Runs batches one after the other. `start` first; an error of `run` ends the process, which may start again.

    Args:
        inputs: the topics that are read, and the definition of the documents.
        publisher: the writer of the documents' topic.
        tables: the source's database.
        reader: reads the documents' topic and the source's resolved records.
        registry: of the schemas of inputs and documents.
        clock: for times and waits.
        metrics: of the application.
        find: looks for old documents in the output topic; None: this process reads it.
        make: makes documents of all chunks of a batch but the first; None: this process does.
        tell: hears now and then that a long batch goes on, and what it waits for, '' for nothing.
        stopping: whether to wait no longer.
    """

    def __init__(
        self,
        inputs: Inputs,
        publisher: Publisher,
        tables: SourceTables,
        reader: LogReader,
        registry: SchemaRegistry,
        clock: Clock,
        metrics: Metrics,
        *,
        find: Find | None = None,
        make: MakeRest | None = None,
        tell: Callable[[str], None] = lambda waiting_for: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.inputs = inputs
        self.unheard = Counter[str]()
        """Table that signals nothing → changes and deletes of its rows, in batches that are done; callers clear it."""
        self._definition = inputs.definition
        self._publisher = publisher
        self._encoders = DocumentEncoders(inputs.topic, inputs.definition, tables, registry)
        self._reader = reader
        self._clock = clock
        self._metrics = metrics
        self._tell = tell
        self._stopping = stopping
        self._assembler = Assembler(inputs.definition)
        self._aside = AssemblerLetters(inputs.definition, publisher, clock)
        self._load = ReadLoad(inputs.definition.read_rows_per_s, clock)
        self._metered = Metered(tables, self._load)
        self._make = make
        living = LivingPages(find or by_reader(reader, inputs.topic))
        self._keys = KeyFinder(inputs.definition, living, Decoder(registry.schema))
        self._rebuilds = Rebuilds()
        self._own_request: Request | None = None
        self._refused: list[tuple[Request, str]] = []

    def start(self) -> dict[str, dict[int, int]] | None:
        """Open everything and say where each input begins: topic → partition → next offset.

        Who finds committed offsets goes on from them. Who starts empty, or with an input that is new to it, begins at
        the newest resolved record, for the new inputs, and asks itself for a rebuild of all keys: what was committed
        before that record is in the database that the rebuild reads, what comes after it signals (for no rebuild where
        the new ones signal nothing). So does who stood
        still for longer than the log keeps deletes, as no signal may tell of them any more, and who finds the
        documents' topic made anew. None: there is no such record yet; ask again later. May be called again after
        `Transient`. Raises `Terminal` when a declared table or column is not there.
        """
        self._encoders.prepare()
        self._publisher.ensure(self._definition.partitions)
        self._open()
        start: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in self._publisher.committed.items():
            start.setdefault(topic, {})[partition] = offset
        state = self._publisher.resolved.state if self._publisher.resolved else {}
        met = set(start) | set(state.get("inputs", ())) if start else set()
        heard = met - set(state.get(_COUNTED, ()))
        counted = self.inputs.unheard()
        new = [
            topic
            for topic in self.inputs.all()
            if topic not in (met if topic in counted else heard) and topic != self.inputs.requests
        ]
        why = self._publisher.why_incomplete() if start else ""
        if not new and not why:
            return start
        counted_only = bool(start) and not why and counted.keys() >= set(new)
        found = ResolvedTail(PortTail(self._reader, self.inputs.cut_at), self.inputs.cut_at).poll()
        if found is None:
            return None
        cut, ends = found.cut, found.ends
        for (topic, partition), offset in ends.items():
            if topic in new:
                start.setdefault(topic, {}).setdefault(partition, offset)
        if counted_only:
            return start
        request_id, now_us = f"{FIRST_START}-{cut.version}", self._clock.now_us()
        if why:
            LOGGER.warning("all documents are written anew: %s", why)
            request_id += f"-{now_us}"  # There may have been one at that version before.
        self._own_request = Request(request_id, "rebuild", self._publisher.application, now_us)
        return start

    @property
    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics that the committed offsets belong to, as far as they are known."""
        resolved = self._publisher.resolved
        known: dict[str, str] = dict(resolved.state.get("topic_ids", {})) if resolved else {}
        return {topic: each for topic, each in known.items() if topic in self.inputs.all()}

    @property
    def requests(self) -> int:
        """How many requests are open: rebuilds, repairs, keys that batches left out."""
        return len(self._rebuilds.open)

    def run(self, plan: BatchPlan, collect: Callable[[], Signals]) -> dict[str, float]:
        """Carry a batch out, exactly once, also when it is run again. `collect` reads its records' signals.

        Returns what was written and how long reading signals and writing took; nothing for a batch without work.

        A server that is away is tried again with growing pauses, for 30 seconds in all; then `Transient` is raised. One
        that answers and lacks what the signals speak of is waited for, for ever unless the application is to end.
        """
        moved = any(end > plan.start.get(at, 0) for at, end in plan.ends.items())
        signals: Signals | None = None if moved else Signals()
        began_s = self._clock.monotonic_s()
        until_s = began_s + _PATIENCE_S
        backoff, read_s = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), 0.0
        before = self._load.counts()
        opened = True
        while True:
            try:
                if not opened:
                    self._open()
                    opened = True
                counts: dict[str, int] = {}
                if not self._publisher.covers(plan):
                    if signals is None:
                        asked_s = self._clock.monotonic_s()
                        signals = collect()
                        read_s = self._clock.monotonic_s() - asked_s
                    counts = self._once(plan, signals)
                # By that record the next start sees no reason to ask for all documents once more.
                if plan.cut is not None and self._own_request is None:
                    source, cut = self._definition.source, plan.cut
                    state = {_COUNTED: sorted(self.inputs.unheard())}
                    self._publisher.resolve({source: cut}, plan.topic_ids, {source: self._uncovered(cut)}, state)
            except Transient as error:
                opened, pause_s = False, backoff.next_s()
                waits = isinstance(error, ReplicaBehind) and not self._stopping()
                if waits:
                    until_s = self._clock.monotonic_s() + _PATIENCE_S
                elif self._clock.monotonic_s() + pause_s > until_s:
                    raise
                self._tell(str(error))
                self._metrics.count("lyrebird_retries_total")
                self._clock.sleep(pause_s)
            else:
                read = self._count(signals, counts, before)
                took_s = self._clock.monotonic_s() - began_s
                spent = {"read_s": round(read_s, 3), "write_s": round(took_s - read_s, 3)}
                return {**counts, **read, **spent} if counts else {}

    def _open(self) -> None:
        self._publisher.open()
        self._rebuilds = Rebuilds(self._publisher.answers)
        if self._own_request is not None and self._rebuilds.knows(self._own_request.id):
            # Its commit took place, and the answer was lost.
            self._own_request = None

    def _uncovered(self, cut: Cut) -> list[str]:
        """Tables whose changes the documents may lack.

        Of those that capture does not cover, the ones that signal: all others are read from the database itself. All
        that signal, until the requests are done that documents lack changes without: those for signals that were too
        many for their batch, and the one for all documents of who starts empty or has missed something.
        """
        definition = self._definition
        tables = definition.fact.table, *definition.signals, *definition.corrected
        signalling = {f"{definition.database}.{table}" for table in tables}
        if any(each.owed for each in self._rebuilds.open.values()):
            return sorted(signalling)
        return sorted(signalling & set(cut.uncovered))

    def _once(self, plan: BatchPlan, signals: Signals) -> dict[str, int]:
        """One try at step 3 of `log.publishing.publisher`."""
        self._aside.begin()
        self._load.begin()
        accepted = self._accept(signals.requests)
        version = plan.cut.version if plan.cut is not None else 0
        work = self._rebuilds.due(version)
        news: dict[Partition, int] = {
            at: end for at, end in plan.ends.items() if self._publisher.committed.get(at, -1) != end
        }
        if not (news or work or accepted or signals.counts["read"]):
            return {}
        counts = {"documents": 0, "tombstones": 0, "skipped": 0, "set_aside": 0}
        lacking: set[DocumentKey] = set()
        below, more = self._keys.below(signals.floor) if signals.floor else ([], None)
        if more is not None:
            accepted.append(self._accept_sweep(signals.floor, more, version))
        chunk = self._keys.by_topic(work, version) if work is not None and work.swept is not None else None
        self._encoders.begin(altered=signals.altered)
        position = plan.cut.position if plan.cut is not None else None
        with self._metered.snapshot(position) as tables:
            found = self._keys.by_signals(tables, signals, below)
            keys = found.keys if found is not None else {}
            if found is None or found.reaches:
                accepted += self._accept_more(found, version)
            if work is not None:
                work = self._rebuilds.open[work.request.id]
                chunk = chunk or self._keys.by_request(tables, work, version, self._encoders)
                keys.update(dict.fromkeys(chunk.keys, version))
                if chunk.reach is not None:
                    accepted += self._accept_reach(chunk.reach, version, work.request.at_us)
            now = list(itertools.islice(keys, self._definition.batch_keys))
            assembled = self._assembler.assemble(tables, now[:CHUNK])
        accepted += self._accept_own(itertools.islice(keys, self._definition.batch_keys, None), version)
        self._publisher.begin()
        self._aside.records(signals)
        for made in itertools.chain([encoded(assembled, self._encoders.plain)], self._made(now[CHUNK:], position)):
            lacking |= self._write(made, keys, counts)
            self._tell("")
        self._aside.written()
        for request, reason in self._refused:
            self._publisher.answer(Answer(request.id, "refused", self._clock.now_us(), note=reason), ())
        for request in dict.fromkeys(accepted):
            answer = Answer(request.id, "accepted", self._clock.now_us())
            self._publisher.answer(answer, self._rebuilds.headers(self._rebuilds.open[request.id]))
        if chunk is not None:
            # What the walk of the table has set aside is older than the request: the look at the topic meets it again.
            again = work is not None and work.swept is not None and not work.request.id.startswith(f"{OWN}-")
            after = chunk.after if again else chunk.after.lacked(len(lacking & chunk.keys))
            self._rebuilds.record(after, version, finished=chunk.finished)
            state: Literal["done", "running"] = "done" if chunk.finished else "running"
            answer = Answer(after.request.id, state, self._clock.now_us(), after.done, note=after.note())
            self._publisher.answer(answer, self._rebuilds.headers(after))
        self._publisher.commit(plan.ends)
        self._own_request, self._refused = None, []
        unreadable, counts["missing"] = self._aside.end()
        counts["set_aside"] = unreadable + counts["missing"]
        return counts

    def _accept(self, requests: list[Request]) -> list[Request]:
        """Take requests in; those that are new and not refused."""
        self._refused = []
        accepted: list[Request] = []
        for request in [*([self._own_request] if self._own_request else []), *requests]:
            reason = self._rebuilds.accept(request, self._encoders.numbers)
            if reason:
                self._refused.append((request, reason))
            elif reason is not None:
                accepted.append(request)
        return accepted

    def _accept_own(self, keys: Iterable[DocumentKey] | None, version: int) -> list[Request]:
        """Requests for keys that this batch leaves out; None: for all documents. They stand in its transaction."""
        application, definition = self._publisher.application, self._definition
        requests = spread(
            keys, version, definition.rebuild_keys, application, self._clock.now_us(), self._rebuilds.knows
        )
        for request in requests:
            self._rebuilds.accept(request, self._encoders.numbers)
        return requests

    def _accept_more(self, found: AffectedKeys | None, version: int) -> list[Request]:
        """Requests for what signals ask for beyond the keys that were gathered."""
        relied = self._rebuilds.rely()
        if relied is not None:
            return [relied]
        if found is None:
            return self._accept_own(None, version)
        now_us = self._clock.now_us()
        return [request for reach in found.reaches for request in self._accept_reach(reach, version, now_us)]

    def _accept_reach(self, reach: Reach, version: int, at_us: int) -> list[Request]:
        """Requests for documents that are behind more rows than a batch gathers."""
        rebuilds, definition = self._rebuilds, self._definition
        application, most = self._publisher.application, definition.rebuild_keys
        requests = reached(definition.fact, reach, rebuilds.unasked, version, most, application, at_us, rebuilds.knows)
        for request in requests:
            rebuilds.accept(request, self._encoders.numbers)
        return requests

    def _accept_sweep(self, floor: int, swept: bytes, version: int) -> Request:
        """A request for what one batch leaves of a floor's documents."""
        application, now_us = self._publisher.application, self._clock.now_us()
        (request,) = spread(None, version, 1, application, now_us, self._rebuilds.knows)
        self._rebuilds.sweep(request, floor, swept)
        return request

    def _made(self, keys: Sequence[DocumentKey], position: SourcePosition | None) -> Iterator[ChunkResult]:
        if self._make is None or len(keys) <= CHUNK:
            for chunk in chunks_of(keys):
                with self._metered.snapshot(position) as tables:
                    assembled = self._assembler.assemble(tables, chunk)
                yield encoded(assembled, self._encoders.plain)
            return
        self._load.wait()
        for share in self._make(self._encoders.plan(), position, keys):
            for made in share:
                self._load.read(*made.load)
            yield from share
            self._load.wait()

    def _write(self, made: ChunkResult, keys: dict[DocumentKey, int], counts: dict[str, int]) -> set[DocumentKey]:
        """Those that lack a row."""
        encoders = self._encoders
        counts["skipped"] += made.skipped
        wrong: dict[DocumentKey, list[MissingRow] | str] = {**made.lacking, **made.failed}
        for key, body in made.unfit.items():
            try:
                made.documents[key] = encoders.body(body)
            except InvalidRecord as error:
                wrong[key] = str(error)
        for key, value in made.documents.items():
            self._publisher.write(encoders.key(key), value, keys[key])
            counts["tombstones" if value is None else "documents"] += 1
        self._aside.documents(
            [FailedDocument(encoders.named(key), encoders.key(key), keys[key], why) for key, why in wrong.items()],
            len(made.documents),
        )
        return set(made.lacking)

    def _count(
        self, signals: Signals | None, counts: dict[str, int], before: tuple[int, int, float]
    ) -> dict[str, float]:
        """Figures of a batch that is done; of one that had been done before, nothing."""
        metrics, load = self._metrics, self._load
        rows, statements, held_back_s = (now - then for now, then in zip(load.counts(), before, strict=True))
        metrics.count("lyrebird_source_rows_total", rows)
        metrics.count("lyrebird_source_statements_total", statements)
        metrics.set("lyrebird_source_snapshot_seconds", load.snapshot_s)
        metrics.count("lyrebird_source_held_back_seconds_total", held_back_s)
        if not counts or signals is None:
            return {}
        metrics.count("lyrebird_superseded_total", signals.counts["superseded"])
        metrics.count("lyrebird_filtered_total", signals.counts["filtered"])
        metrics.count("lyrebird_filtered_total", counts["skipped"], "transient in the snapshot")
        metrics.count("lyrebird_set_aside_total", counts["set_aside"] - counts["missing"])
        metrics.count("lyrebird_set_aside_total", counts["missing"], "a row is missing")
        metrics.count("lyrebird_documents_total", counts["documents"], "document")
        metrics.count("lyrebird_documents_total", counts["tombstones"], "tombstone")
        for table, count in signals.unheard.items():
            metrics.count("lyrebird_unheard_total", count, table)
        self.unheard.update(signals.unheard)
        return {
            "read": signals.counts["read"],
            "source_rows": rows,
            "source_statements": statements,
            "held_back_s": round(held_back_s, 3),
            "snapshot_s": round(load.snapshot_s, 3),
        }
