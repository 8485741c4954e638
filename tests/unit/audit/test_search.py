from __future__ import annotations

from collections.abc import Callable

import pytest

from include.audit.definition import SearchAuditSpec
from include.audit.expected import fold, records_below
from include.audit.memory import MemoryView
from include.audit.range_count import IndexView, Window
from include.audit.report import SearchReport, together
from include.audit.search import audit_search
from include.clock import ManualClock
from include.errors import Terminal
from include.index.batch import Settlement
from include.index.definition import IndexDefinition
from include.index.delivery import Delivery
from include.index.mapping import creation
from include.index.memory import MemoryIndex
from include.index.metadata import Origin
from include.index.progress import ProgressKeeper
from include.index.task import IndexTask
from include.log import topics
from include.log.dead_letter import DeadLetterLimit
from include.log.memory import MemoryLog, MemoryRegistry
from include.record.codec import Decoder
from tests.document_topic import MAPPING, DocumentTopic

NAME = "orders-v1"
DEFINITION = IndexDefinition(application="index_orders", topic="docs", entity="order", mapping="m.json")
SPEC = SearchAuditSpec(name="docs", alias="orders", index=DEFINITION)


class World:
    """A topic, an index, the indexer between them, and the audit of both."""

    def __init__(self) -> None:
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryIndex()
        self.decode = Decoder(self.registry.schema)
        self.index.create(NAME, creation("orders", DEFINITION, MAPPING))
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)
        self.log.admin().ensure(topics.document_spec(topics.dead("docs", "index_orders"), 1))

    def catch_up(self) -> None:
        """Index all that is there."""
        info = self.index.describe(NAME)
        assert info is not None
        keeper = ProgressKeeper(self.index, info, "docs", "me", ManualClock())
        reader = self.log.reader()
        settlement = Settlement(
            application="index_orders",
            info=info,
            index=self.index,
            keeper=keeper,
            progress=keeper.claim(),
            writer=self.log.writer("dead"),
            reader=reader,
            limit=DeadLetterLimit(1.0, 100),
            clock=ManualClock(),
        )
        task = IndexTask(
            origin=Origin("c", "t", "docs", 1),
            entity="order",
            decode=self.decode,
            delivery=Delivery(
                lambda data: self.index.bulk(NAME, data), ManualClock(), index=NAME, bulk_bytes=10**6, patience_s=5
            ),
            window_bytes=10**6,
        )
        window = {
            (topic, p): end for topic in ("docs", "docs.resolved") for p, end in reader.end_offsets(topic).items()
        }
        records = [r for (topic, p), end in window.items() for r in reader.read(topic, p, 0, end)]
        described = self.log.admin().describe("docs")
        assert described is not None
        settlement.settle(task.run(records), window, {"docs": described.topic_id})

    def audit(self, between: Callable[[], None] = lambda: None) -> SearchReport:
        """`between` happens after the view was opened, as live writes do."""

        def view(name: str, window: Window) -> IndexView:
            found = MemoryView(self.index, name, "docs", window)
            between()
            return found

        return audit_search(
            SPEC,
            index=self.index,
            view=view,
            expected=lambda window: fold(records_below(self.log.reader(), "docs", window), self.decode),
            admin=self.log.admin(),
            reader=self.log.reader(),
            clock=ManualClock(),
        )


@pytest.fixture
def world() -> World:
    found = World()
    found.topic.write([(n, {"state": "completed"}) for n in range(1, 101)])
    found.topic.delete(50)
    found.topic.resolve()
    found.catch_up()
    return found


def test_a_whole_copy_is_clean_and_says_up_to_where(world: World) -> None:
    report = world.audit()
    assert report.clean
    assert (report.expected, report.indexed, report.behind) == (99, 99, 0)
    assert report.position is not None
    assert report.position["gtids"] == "0-1-1"
    assert report.next_command == ""
    assert report.lines()[0] == "audit docs: clean"


def test_documents_that_went_missing_are_named_by_key(world: World) -> None:
    for key in ("7", "77", "99"):
        world.index.remove(NAME, key)
    report = world.audit()
    assert set(report.missing) == {"7", "77", "99"}
    assert report.extra == ()
    assert "missing: 77" in report.lines()
    assert report.lines()[-1] == "next: lyrebird documents rebuild --topic docs --key 7 --key 77 --key 99"


def test_many_findings_ask_for_the_whole_topic_and_the_report_stays_short(world: World) -> None:
    for n in range(1, 40):
        world.index.remove(NAME, str(n))
    report = world.audit()
    assert report.next_command == "lyrebird documents rebuild --topic docs"
    assert len([line for line in report.lines() if line.startswith("missing: ")]) == 21
    assert len(report.to_json()["missing"]) == 39


def test_a_document_that_should_be_deleted_is_extra(world: World) -> None:
    # A copy of the index from before the delete, as a restored snapshot would bring it.
    there = world.index.get(NAME, "50")
    assert there is not None
    world.index.remove(NAME, "50")
    world.topic.version -= 1
    line = (
        b'{"index":{"_id":"50","version":50,"version_type":"external"}}\n'
        b'{"order":{},"metadata":{"doc_id":"50","topic":"docs","partition":0,"offset":0,"version":50,"deleted":false}}\n'
    )
    world.index.bulk(NAME, line)
    assert world.audit().extra == ("50",)


def test_writes_above_the_cut_are_no_findings(world: World) -> None:
    def live() -> None:
        world.topic.put(1, state="cancelled")
        world.topic.delete(2)
        world.topic.put(50)
        world.topic.put(1000)
        world.catch_up()

    report = world.audit(between=live)
    assert report.clean
    assert report.behind == 4 + 4  # each transaction ends with a marker


def test_documents_that_were_updated_just_before_the_view_are_in_flight_and_no_findings(world: World) -> None:
    # The index is ahead of its progress document: bulks were acknowledged, the document not yet written.
    info = world.index.describe(NAME)
    assert info is not None
    note = world.index.note("lyrebird-progress", f"{info.uuid}.docs")
    assert note is not None
    world.topic.put(1, state="cancelled")
    world.topic.delete(2)
    world.topic.put(50)
    world.catch_up()
    now = world.index.note("lyrebird-progress", f"{info.uuid}.docs")
    world.index.write_note("lyrebird-progress", f"{info.uuid}.docs", note.source, now)
    report = world.audit()
    assert report.clean
    assert report.in_flight == 2


def test_records_without_a_readable_key_are_counted_and_not_judged(world: World) -> None:
    world.topic.spoil(1, b"\x01", versioned=False)
    world.catch_up()
    report = world.audit()
    assert report.clean
    assert report.unreadable == 1
    assert any("1 records without a readable key" in line for line in report.lines())


def test_a_document_that_was_set_aside_is_missing(world: World) -> None:
    world.topic.put(200, note="no number")
    world.catch_up()
    assert world.audit().missing == ("200",)


def test_what_cannot_be_audited_says_why_and_what_to_do() -> None:
    world = World()
    with pytest.raises(Terminal, match=r"nothing was indexed yet.*index_orders"):
        world.audit()
    world.topic.put(1)
    world.catch_up()
    world.log.admin().delete("docs")
    with pytest.raises(Terminal, match="not the one that the index was filled from"):
        world.audit()
    world.index.drop(NAME)
    with pytest.raises(Terminal, match="lyrebird index create orders"):
        world.audit()


def test_reports_together_tell_the_findings_of_each_audit(world: World) -> None:
    world.index.remove(NAME, "7")
    found = together([world.audit()])
    assert found["audits"]["docs"]["findings"] == 1
    assert found["audits"]["docs"]["missing"] == ("7",)
