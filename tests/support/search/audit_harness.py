"""A topic, an index that is filled from it, and the search audit of both; the index is a double or a real one."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from include.audit.definition import SearchAuditSpec
from include.audit.search.audit import AuditMode, audit_and_repair, audit_search
from include.audit.search.bounds import AuditBounds, Window
from include.audit.search.cut import AuditCut
from include.audit.search.expected import ExpectedDocuments, ExpectedSide
from include.audit.search.repair import Writing
from include.audit.search.report import SearchReport
from include.audit.search.scrub import StoredDocuments
from include.audit.search.views.memory import MemoryDocuments, MemoryStates, MemoryView
from include.audit.search.views.range_count import IndexView
from include.audit.search.views.state_view import IndexState, StateView
from include.clock import Clock, ManualClock
from include.errors import InvalidRecord
from include.index.definition import IndexDefinition
from include.index.identity import identify
from include.index.mapping.declared import creation
from include.index.metadata import Metadata, TopicOrigin
from include.index.progress.document import IndexProgress, ProgressKeeper, read_progress
from include.index.progress.steps import resumed
from include.index.server.memory import MemoryIndex
from include.index.server.port import SearchIndex
from include.index.states import States, feed_of
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import LogReader, Record, TopicAdmin
from include.record.codec import Decoder
from include.record.json.body import body_json
from include.settings.connections import Cluster
from tests.support.documents.topic import MAPPING, DocumentTopic, position

TOPIC = "docs"
DEFINITION = IndexDefinition.model_validate(
    {"application": "index_orders", "topic": TOPIC, "entity": "order", "mapping": "m.json"}
)


class AuditHarness:
    """`alias` leads to `<alias>-v1`.

    `between` is called once a view is open, as live writes go on then. Documents of `swallowed` ids never arrive.
    """

    def __init__(self, index: SearchIndex | None = None, alias: str = "orders", partitions: int = 2) -> None:
        self.index = index or MemoryIndex()
        self.alias, self.name = alias, f"{alias}-v1"
        self.log, self.registry = MemoryLog(), MemoryRegistry()
        self.admin: TopicAdmin = self.log.admin()
        self.reader: LogReader = self.log.reader()
        self.clock: Clock = ManualClock()
        self.decode = Decoder(self.registry.schema)
        self.spec = SearchAuditSpec(TOPIC, alias, DEFINITION, TOPIC)
        self.topic = DocumentTopic(TOPIC, self.admin, self.log.writer("w"), self.registry, partitions)
        self.info = self.index.create(self.name, creation(alias, DEFINITION, MAPPING))
        self.between: Callable[[], None] = lambda: None
        self.mapping = MAPPING
        self.swallowed: set[str] = set()
        self._metadata = Metadata(TopicOrigin("c", "t", TOPIC, 1))
        self._resolved = 0
        self._following = ExpectedDocuments(self.reader)

    # The indexer's part

    def catch_up(self, *, note: bool = True, generation: int = 0, acked: Window | None = None) -> None:
        """Index all that is new, as the application does; without `note` it dies before its progress document.

        A `generation` is taken up as the topic's, from the beginning if it was raised; `acked` is said to be settled.
        """
        keeper = ProgressKeeper(self.index, self.info, TOPIC, "me", ManualClock())
        progress = keeper.claim(lambda found: resumed(found, generation, None) if generation else found)
        ends = self.reader.end_offsets(TOPIC)
        records = [r for p, end in ends.items() for r in self.reader.read(TOPIC, p, progress.acked.get(p, 0), end)]
        self.write([line for line in map(self.line, records) if line])
        described = self.admin.describe(TOPIC)
        assert described is not None
        if note:
            self._resolved += 1
            ids = {TOPIC: described.topic_id}
            keeper.save(replace(progress, topic_ids=ids, acked=acked or ends, complete=position(self._resolved)))

    def line(self, record: Record) -> bytes:
        """Action and document of a record; nothing for one that is set aside."""
        try:
            found = identify(record, self.decode)
            body = None if record.value is None else body_json(self.decode(record.value))
        except InvalidRecord:
            return b""
        if found.doc_id in self.swallowed:
            return b""
        at = (record.partition, record.offset, found.doc_id, found.version)
        metadata = self._metadata.deleted(*at) if body is None else self._metadata.living(*at, body)
        action = {"index": {"_id": found.doc_id, "version": found.version, "version_type": "external"}}
        document = b"{" + (b'"order":' + body + b"," if body else b"") + b'"metadata":' + metadata + b"}"
        return orjson.dumps(action) + b"\n" + document + b"\n"

    def write(self, lines: list[bytes]) -> None:
        """Send lines, 5,000 at a time; what is refused stays out."""
        for start in range(0, len(lines), 5000):
            answer = self.index.bulk(self.name, b"".join(lines[start : start + 5000]))
            assert answer.status == 200, answer

    def progress(self) -> IndexProgress:
        found = read_progress(self.index, self.info, TOPIC)
        assert found is not None
        return found

    # Faults

    def lose(self, doc_id: str) -> None:
        assert isinstance(self.index, MemoryIndex)
        self.index.remove(self.name, doc_id)

    def put(self, doc_id: str, version: int, **changes: Any) -> None:
        """Write a document as nobody should: of a body, and with what `changes` in its metadata."""
        body = orjson.dumps(changes.pop("body", {"state": "completed"}), option=orjson.OPT_SORT_KEYS)
        metadata = orjson.loads(self._metadata.living(0, 0, doc_id, version, body)) | changes
        action = {"index": {"_id": doc_id, "version": version, "version_type": "external_gte"}}
        document = {"order": orjson.loads(body), "metadata": metadata}
        self.write([orjson.dumps(action) + b"\n" + orjson.dumps(document) + b"\n"])

    # The audit's sides

    def states(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> StateView:
        assert isinstance(self.index, MemoryIndex)
        found = MemoryStates(self.index, name, spec.topic, bounds)
        self.between()
        return found

    def ranges(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> IndexView:
        assert isinstance(self.index, MemoryIndex)
        found = MemoryView(self.index, name, spec.topic, bounds)
        self.between()
        return found

    def documents(self, name: str, spec: SearchAuditSpec) -> StoredDocuments:
        assert isinstance(self.index, MemoryIndex)
        return MemoryDocuments(self.index, name, spec.topic, spec.entity)

    def writing(self, name: str, spec: SearchAuditSpec, at: AuditCut) -> Writing:
        return Writing(self.index, self.reader, self.clock, self.reading(at.progress), self.forget)

    @contextlib.contextmanager
    def forget(self, copies: Sequence[IndexState]) -> Iterator[None]:
        for copy in copies:
            found = self.index.get(self.name, copy.doc_id)
            if found is not None and found.version == copy.stored_version:
                self.lose(copy.doc_id)
        yield

    def expected(self, spec: SearchAuditSpec, at: AuditCut) -> ExpectedSide:
        return self._following.upto(at.window, self.reading(at.progress))

    def declared(self, spec: SearchAuditSpec) -> dict[str, Any]:
        return self.mapping

    def undeclared(self, name: str, spec: SearchAuditSpec) -> dict[str, int]:
        assert isinstance(self.index, MemoryIndex)
        said = [
            found.source["metadata"].get("topic", "")
            for found in self.index.visible(name).values()
            if not found.deleted
        ]
        return dict(Counter(topic for topic in said if topic not in spec.index.topics))

    def reading(self, progress: IndexProgress) -> States:
        return States(feed_of(Cluster(name="c", type="t"), self.spec.index, self.spec.topic, progress), self.registry)

    def repair(self, **more: Any) -> SearchReport:
        return audit_and_repair(self.spec, self, **more)

    def audit(self, mode: AuditMode = "digest", **more: Any) -> SearchReport:
        return audit_search(self.spec, self, mode=mode, **more)
