"""The core and its writer on the log in memory: versions, moves, control records, crashes at every durable step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.log.control import ControlRecord
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import LogWriter, Record, Versioned
from include.log.resolved import ResolvedRecord, ResolvedView
from include.log.topics import change, control, source_resolved
from include.record.codec import Decoder
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.version import from_headers, number_of, to_header
from include.source.binlog.events import RowOp
from include.source.binlog.transaction import RowsEvent, SourceTransaction
from include.source.catalog.catalog import TableCatalog
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition
from include.source.log.direct_log import DirectLog, ensure_topics, memory_log, transactional_id
from include.source.log.ports import LogPorts
from include.source.ports import Group, ResumePoint
from include.source.replicator import Replicator
from include.source.rows.encode import TableEncoders
from include.source.state.capture_state import CaptureState
from tests.support.binlog.recorded_mariadb import MAP, SCHEMA, rows, transaction

TOPIC = change("s", "shop", "t")
START = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000001", 4), 0)


class Failing:
    """A writer whose n-th call fails; `after`: the call has had its effect, only its answer is lost."""

    def __init__(self, inner: LogWriter, fail_at: int, after: bool) -> None:
        self._inner, self._left, self._after = inner, fail_at, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        def call(*values: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Transient("broken", system="kafka")
            answer = found(*values, **named)
            if self._left == 0:
                raise Transient("answer lost", system="kafka")
            return answer

        return found if name == "close" else call

    def append_all(self, records: Sequence[Versioned]) -> None:
        """Each record is a call that may fail."""
        for topic, key, value, version, partition in records:
            self.append(topic, key, value, headers=(to_header(version),), partition=partition)


SERVER = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)


class Harness:
    """A log, and captures on it that may be cut off and begun again."""

    def __init__(self, **more: Any) -> None:
        settings_ = {"partitions": 4} | more
        self.source = SourceDefinition(
            host="db",
            port=1,
            user="u",
            password=SecretStr("p"),
            databases=["shop"],
            **settings_,
        )
        self.log, self.registry, self.clock = MemoryLog(), MemoryRegistry(), ManualClock()
        self.cascades: set[tuple[str, str]] = set()
        self.changing: set[tuple[str, str]] = set()
        self.untraced: set[tuple[str, str]] = set()
        self.groups: list[Group] = []
        self.server_us = 0
        self.columns = SCHEMA.columns
        ensure_topics("s", self.log.admin())

    def replicate(
        self, transactions: Sequence[SourceTransaction], group: int = 1, fail_at: int = 0, after: bool = False
    ) -> None:
        """One session: from the checkpoint to the end of `transactions`, or to the failure."""

        def writer() -> Any:
            return Failing(self.log.writer(transactional_id("s")), fail_at, after)

        def finish(places: Any, commit: bool) -> None:
            self.log.finish(transactional_id("s"), places, commit=commit)

        ports = LogPorts(writer, self.log.reader(), self.log.admin(), self.registry, finish)
        log = DirectLog("s", ports, self.clock)
        resume = log.open() or ResumePoint(START, CaptureState(tables={"shop.t": 0}, snapshot="done"))
        table = TableInfo("shop", "t")
        table.columns, table.key = list(self.columns), SCHEMA.key
        catalog = TableCatalog(
            lambda: {("shop", "t"): table},
            SERVER,
            self.source.policy,
            lambda *name: name in self.cascades,
            changes_others=lambda *name: name in self.changing,
            untraced=lambda *name: name in self.untraced,
        )
        encoders = TableEncoders("s", self.source, log)
        point, state = resume.position, resume.state
        core = Replicator(
            "s", self.source, catalog, encoders, self.clock, point, state, log.write, lambda: self.server_us
        )
        waiting = 0
        for each in transactions:
            if core.position.gtids.contains(MariadbGtidSet.parse(each.gtid)):  # type: ignore[arg-type]
                continue
            core.on_transaction(each)
            waiting += 1
            if waiting == group:
                self.groups.append(core.flush())
                log.commit(self.groups[-1])
                waiting = 0
        if waiting:
            log.commit(core.flush())

    def records(self, topic: str) -> list[Record]:
        reader = self.log.reader()
        return [
            record
            for partition, end in sorted(reader.end_offsets(topic).items())
            for record in reader.read(topic, partition, 0, end)
        ]

    def value(self, record: Record) -> dict[str, Any]:
        assert record.value is not None
        found: dict[str, Any] = Decoder(self.registry.schema)(record.value)
        return found

    def everything(self) -> dict[str, list[tuple[bytes | None, int, Any]]]:
        """Per topic and partition what readers of committed records see, without times and offsets."""
        return {
            topic: sorted(
                (record.key or b"", from_headers(record.headers), _without_time(self, record))
                for record in self.records(topic)
            )
            for topic in (TOPIC, control("s"))
        }


def _without_time(world: Harness, record: Record) -> str:
    if record.value is None:
        return "tombstone"
    if record.topic != TOPIC:
        return record.value.decode()
    value = world.value(record)
    return repr({name: value[name] for name in ("op", "before", "after", "source", "transaction")})


def resolved(world: Harness) -> list[ResolvedRecord]:
    view = ResolvedView()
    return [found for record in world.records(source_resolved("s")) if (found := view.on_record(record.value))]


def test_versions_are_dense_over_rows_and_resolved_records() -> None:
    world = Harness()
    world.replicate([transaction(1, rows("c", (1, 1, "a"), (2, 1, "b"))), transaction(2, rows("d", (1, 1, "a")))])
    seen = [from_headers(r.headers) for topic in (TOPIC, source_resolved("s")) for r in world.records(topic)]
    assert sorted(set(seen)) == [1, 2, 3, 4, 5]


def test_a_delete_is_an_envelope_and_a_tombstone_of_one_version() -> None:
    world = Harness()
    world.replicate([transaction(1, rows("d", (1, 1, "a")))])
    first, second = world.records(TOPIC)
    assert world.value(first)["op"] == "d"
    assert second.value is None
    assert first.key == second.key
    assert from_headers(first.headers) == from_headers(second.headers)


@pytest.mark.parametrize("partition_by", [{}, {"t": ["part"]}])
def test_a_changed_key_is_a_delete_and_an_insert(partition_by: dict[str, list[str]]) -> None:
    world = Harness(partition_by=partition_by)
    world.replicate([transaction(1, rows("u", (1, 1, "a"), (9, 1, "a")))])
    found = sorted(world.records(TOPIC), key=lambda r: (from_headers(r.headers), r.value is None))
    assert [r.value and world.value(r)["op"] for r in found] == ["d", None, "c"]


def test_a_changed_partition_column_is_a_delete_and_an_insert_of_one_key() -> None:
    world = Harness(partition_by={"shop.t": ["part"]})
    world.replicate(
        [transaction(1, rows("u", (1, 1, "a"), (1, 2, "a"))), transaction(2, rows("u", (1, 2, "a"), (1, 2, "b")))]
    )
    found = sorted(world.records(TOPIC), key=lambda r: (from_headers(r.headers), r.value is None))
    assert [r.value and world.value(r)["op"] for r in found] == ["d", None, "c", "u"]
    assert len({r.key for r in found}) == 1
    assert found[2].partition == found[3].partition


def test_rows_of_one_thing_share_a_partition() -> None:
    world = Harness(partition_by={"t": ["part"]})
    world.replicate([transaction(1, rows("c", *[(n, n % 5, "x") for n in range(40)]))])
    places: dict[int, set[int]] = {}
    for record in world.records(TOPIC):
        places.setdefault(world.value(record)["after"]["part"], set()).add(record.partition)
    assert {len(found) for found in places.values()} == {1}
    assert len(set().union(*places.values())) > 1


def test_the_source_block_says_where_a_row_was() -> None:
    world = Harness()
    world.replicate([transaction(3, rows("c", (1, 1, "a")), rows("c", (2, 1, "b")))])
    blocks = sorted(
        ((v["source"], v["transaction"]) for v in map(world.value, world.records(TOPIC))), key=lambda x: x[0]["row"]
    )
    assert [(s["gtid"], s["file"], s["pos"], s["row"], s["ts_us"]) for s, _ in blocks] == [
        ("0-1-3", "bin.000001", 300, 0, 3_000_000),
        ("0-1-3", "bin.000001", 300, 1, 3_000_000),
    ]
    assert [t["total_order"] for _, t in blocks] == [1, 2]


def test_a_resolved_record_names_the_end_of_every_partition_below_it() -> None:
    world = Harness()
    world.replicate([transaction(1, rows("c", *[(n, 1, "x") for n in range(20)]))])
    (last,) = resolved(world)
    assert last.full
    ends: dict[tuple[str, int], int] = {}
    for record in world.records(TOPIC):
        ends[record.topic, record.partition] = max(ends.get((record.topic, record.partition), 0), record.next_offset)
    assert dict(last.next_offsets) == ends
    assert str(last.position.gtids) == "0-1-1"


def test_truncate_writes_the_floor_in_the_same_transaction() -> None:
    world = Harness()
    world.replicate([transaction(1, rows("c", (1, 1, "a")), "TRUNCATE TABLE t", rows("c", (2, 1, "b")))], group=9)
    (record,) = world.records(control("s"))
    floor = ControlRecord.parse(record.value or b"").floor
    assert ControlRecord.parse(record.value or b"").kind == "truncate"
    versions = {world.value(r)["after"]["id"]: from_headers(r.headers) for r in world.records(TOPIC)}
    assert versions[1] < floor < versions[2]
    assert len(resolved(world)) == 1


def test_a_dropped_table_gets_a_floor_and_is_forgotten() -> None:
    world = Harness()
    world.replicate([transaction(1, "DROP TABLE t")])
    assert [ControlRecord.parse(r.value or b"").kind for r in world.records(control("s"))] == ["drop"]
    assert resolved(world)[-1].state["tables"] == {}


def test_a_swap_of_names_owes_a_snapshot_and_drops_nothing() -> None:
    world = Harness()
    world.replicate([transaction(1, "RENAME TABLE t TO x.old, x.fresh TO t")])
    assert world.records(control("s")) == []
    assert resolved(world)[-1].uncovered == ("shop.t",)


def test_a_table_that_nobody_saw_come_is_owed_a_snapshot() -> None:
    world = Harness()
    world.replicate([transaction(1, "DROP TABLE t"), transaction(2, rows("c", (1, 1, "a")))])
    assert resolved(world)[-1].uncovered == ("shop.t",)


def owed(world: Harness) -> list[tuple[str, ...]]:
    return [tuple(job["tables"]) for job in resolved(world)[-1].state["jobs"]]


def test_rows_of_a_captured_table_that_change_by_text_are_owed_a_snapshot_with_a_floor() -> None:
    world = Harness()
    world.replicate(
        [transaction(1, rows("c", (1, 1, "a")), "INSERT INTO t VALUES (2, 1, 'b')", rows("c", (3, 1, "c")))]
    )
    assert len(world.records(TOPIC)) == 2
    assert resolved(world)[-1].uncovered == ("shop.t",)
    assert [job["gap"] for job in resolved(world)[-1].state["jobs"]] == [True]


def test_many_texts_owe_a_table_one_snapshot() -> None:
    world = Harness()
    world.replicate([transaction(n, "UPDATE t SET v = 'x'", "DELETE FROM t WHERE id = 7") for n in range(1, 9)])
    assert owed(world) == [("shop.t",)]


def test_rows_of_tables_that_nobody_captures_change_by_text_as_they_like(caplog: pytest.LogCaptureFixture) -> None:
    world = Harness()
    texts = ["INSERT INTO mysql.rds_heartbeat2 VALUES (1, 2)", "REPLACE INTO percona.checksums SELECT 1 FROM t"]
    world.replicate([transaction(1, *texts), transaction(2, *texts, rows("c", (1, 1, "a")))], group=2)
    assert resolved(world)[-1].uncovered == ()
    assert world.groups[-1].texts == 4
    assert caplog.text.count("rds_heartbeat2") == caplog.text.count("percona.checksums") == 1


def test_a_temporary_table_that_a_text_fills_is_owed_nothing() -> None:
    world = Harness()
    world.replicate([transaction(1, "CREATE TEMPORARY TABLE hold (id int)", "INSERT INTO hold SELECT id FROM t")])
    assert owed(world) == []
    assert set(resolved(world)[-1].state["tables"]) == {"shop.t"}


def test_a_text_that_changes_others_by_a_view_or_trigger_owes_all_captured_tables() -> None:
    world = Harness()
    world.changing.add(("elsewhere", "v"))
    world.replicate([transaction(1, "UPDATE elsewhere.w SET a = 1")])
    assert owed(world) == []
    world.replicate([transaction(1), transaction(2, "UPDATE elsewhere.v SET a = 1")])
    assert owed(world) == [("shop.t",)]


@pytest.mark.parametrize("text", ["SELECT `shop`.`f`(1)", "FROBNICATE THE TABLES"])
def test_a_text_that_does_not_say_its_tables_owes_all_captured_ones(text: str) -> None:
    world = Harness()
    world.replicate([transaction(1, text)])
    assert owed(world) == [("shop.t",)]


def test_a_table_made_of_a_query_as_text_is_owed_its_rows() -> None:
    world = Harness()
    world.replicate([transaction(1, "CREATE TABLE u SELECT * FROM t", "CREATE TABLE other.u SELECT * FROM t")])
    assert owed(world) == [("shop.u",)]


def test_a_truncate_with_settings_of_its_own_writes_the_floor() -> None:
    world = Harness()
    world.replicate([transaction(1, rows("c", (1, 1, "a")), "SET STATEMENT max_statement_time=100 FOR TRUNCATE t")])
    assert [ControlRecord.parse(r.value or b"").kind for r in world.records(control("s"))] == ["truncate"]


def nameless(op: RowOp, *images: Any) -> RowsEvent:
    """Rows under a map as servers write it that say no more than types."""
    said = replace(MAP, names=(), key=(), unsigned=frozenset(), charsets={})
    return RowsEvent(said, op, rows(op, *images).body)


@pytest.mark.parametrize(("described_us", "again"), [(2_000_000, ("shop.t",)), (500_000, ()), (9_000_000, ("shop.t",))])
def test_rows_read_as_the_table_was_after_its_alter_are_read_again(described_us: int, again: tuple[str, ...]) -> None:
    world = Harness()
    world.server_us = described_us
    world.replicate([transaction(1, nameless("c", (1, 1, "a"))), transaction(2, "GRANT SELECT ON *.* TO somebody")])
    # In another session, in which no row of it came before.
    world.replicate([transaction(1), transaction(2), transaction(3, "ALTER TABLE t MODIFY part int FIRST")])
    assert resolved(world)[-1].uncovered == again
    assert resolved(world)[-1].state["nameless"] == {}


def test_a_table_made_again_whose_rows_were_read_by_its_names_is_read_again() -> None:
    world = Harness()
    world.server_us = 2_000_000
    world.replicate(
        [transaction(1, nameless("c", (1, 1, "a")), "DROP TABLE t"), transaction(2, "CREATE TABLE t (x int)")]
    )
    assert resolved(world)[-1].uncovered == ("shop.t",)


@pytest.mark.parametrize("text", ["ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES u (id)", "RENAME TABLE x.n TO t"])
def test_a_key_that_cascades_without_a_trace_is_noted_when_it_comes(text: str) -> None:
    world = Harness()
    world.replicate([transaction(1, "ALTER TABLE t ADD c int"), transaction(2, "GRANT ALL ON x TO y")])
    assert resolved(world)[-1].state["orphans"] == {}
    world.untraced.add(("shop", "t"))
    world.replicate([transaction(1), transaction(2), transaction(3, text), transaction(4, text)], group=2)
    noted = resolved(world)[-1].state["orphans"]
    assert [(table, each["gtid"]) for table, each in noted.items()] == [("shop.t", "0-1-3")]
    assert resolved(world)[-1].uncovered == ("shop.t",)


def test_a_key_that_cascades_is_noted_though_it_is_gone_when_its_statement_is_read() -> None:
    """Capture was away, a start refused the key, and somebody followed its advice before the next start."""
    world = Harness()
    key = "ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES {} (id) ON UPDATE RESTRICT ON DELETE {}"
    texts = [key.format("u", "CASCADE"), key.format("t", "RESTRICT"), key.format("x.t", "CASCADE")]
    world.replicate([transaction(n, text) for n, text in enumerate(texts, 1)])
    assert resolved(world)[-1].uncovered == ()
    more = [*texts, key.format("`t`", "SET NULL")]
    world.replicate([transaction(n, text) for n, text in enumerate(more, 1)])
    noted = resolved(world)[-1].state["orphans"]
    assert [(table, each["gtid"]) for table, each in noted.items()] == [("shop.t", "0-1-4")]
    assert resolved(world)[-1].uncovered == ("shop.t",)


def test_a_table_that_is_there_gets_no_key_by_a_create() -> None:
    """Of an application that runs it at each start."""
    world = Harness()
    key = "CREATE TABLE IF NOT EXISTS t (p int, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE)"
    world.replicate([transaction(1, key)])
    assert resolved(world)[-1].uncovered == ()
    world.replicate([transaction(1, key), transaction(2, key.replace("TABLE IF NOT EXISTS", "OR REPLACE TABLE"))])
    assert resolved(world)[-1].uncovered == ("shop.t",)


def test_a_database_that_is_replaced_loses_its_tables() -> None:
    """MariaDB logs the statement alone."""
    world = Harness()
    texts = ["CREATE OR REPLACE DATABASE shop", "CREATE TABLE t (id int)"]
    world.replicate([transaction(1, rows("c", (1, 1, "a"))), transaction(2, texts[0]), transaction(3, texts[1])])
    assert [ControlRecord.parse(r.value or b"").kind for r in world.records(control("s"))] == ["drop"]


def test_a_table_that_is_made_again_with_rows_as_text_is_described_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[Any] = []
    monkeypatch.setattr(TableCatalog, "forget", lambda _, names=None: forgotten.append(names))
    world = Harness()
    world.replicate([transaction(1, "CREATE OR REPLACE TABLE t SELECT * FROM u")])
    assert forgotten[-1] == {("shop", "t")}


def test_statements_that_concern_no_captured_table_leave_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop with temporary tables logs one at the end of each connection."""
    forgotten: list[Any] = []
    monkeypatch.setattr(TableCatalog, "forget", lambda _, names=None: forgotten.append(names))
    world = Harness()
    texts = ["DROP TEMPORARY TABLE IF EXISTS `h` /* generated by server */", "GRANT ALL ON x TO y", "ANALYZE TABLE t"]
    texts += [
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "CREATE INDEX i ON other.t (a)",
        "FLUSH TABLES",
        "OPTIMIZE TABLE t",
    ]
    world.replicate([transaction(1, *texts)])
    assert {each for each in forgotten if each is not None} == {frozenset()}
    assert None not in forgotten
    world.replicate([transaction(1), transaction(2, "CREATE UNIQUE INDEX i ON t (part)")])
    assert forgotten[-1] == {("shop", "t")}


def test_maps_that_name_their_columns_need_no_second_look() -> None:
    world = Harness()
    world.server_us = 9_000_000
    world.replicate([transaction(1, rows("c", (1, 1, "a"))), transaction(3, "ALTER TABLE t MODIFY part int FIRST")])
    assert resolved(world)[-1].uncovered == ()


def test_a_transaction_that_was_had_already_stops_the_source() -> None:
    world = Harness()
    core = Replicator(
        "s",
        world.source,
        TableCatalog(dict, SERVER, world.source.policy),
        TableEncoders("s", world.source, memory_log("s", world.log, world.registry, world.clock)),
        world.clock,
        START,
        CaptureState(),
    )
    core.on_transaction(transaction(5))
    with pytest.raises(Terminal, match="has already"):
        core.on_transaction(transaction(5))


def test_an_idle_server_moves_time_but_never_back() -> None:
    world = Harness()
    core = Replicator(
        "s",
        world.source,
        TableCatalog(dict, SERVER, world.source.policy),
        TableEncoders("s", world.source, memory_log("s", world.log, world.registry, world.clock)),
        world.clock,
        START,
        CaptureState(),
    )
    core.on_transaction(transaction(5))
    core.on_idle(BinlogPosition("bin.000001", 500), 9_000_000)
    core.on_idle(BinlogPosition("bin.000001", 500), 8_000_000)
    core.on_idle(BinlogPosition("bin.000001", 400), 99_000_000)
    assert core.position.commit_us == 9_000_000
    assert str(core.position.gtids) == "0-1-5"


STORY = [
    transaction(1, rows("c", (1, 1, "a"), (2, 1, "b"), (3, 2, "c"))),
    transaction(2, rows("u", (1, 1, "a"), (1, 1, "A"))),
    transaction(3, rows("d", (2, 1, "b")), "TRUNCATE TABLE t"),
    transaction(4),
    transaction(5, rows("c", (4, 1, None)), rows("u", (4, 1, None), (5, 3, "moved"))),
    transaction(6, rows("d", (5, 3, "moved"))),
]


@pytest.mark.parametrize("after", [False, True], ids=["call fails", "answer is lost"])
@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize("group_bytes", [1, 1_000_000], ids=["in parts", "whole"])
def test_a_crash_at_any_durable_step_changes_nothing(group_bytes: int, group: int, after: bool) -> None:
    undisturbed = Harness(group_bytes=group_bytes)
    undisturbed.replicate(STORY, group)
    expected, crashes = undisturbed.everything(), 0
    while True:
        world = Harness(group_bytes=group_bytes)
        try:
            world.replicate(STORY, group, crashes + 1, after)
        except Transient:
            crashes += 1
            world.replicate(STORY, group)
        else:
            break
        assert world.everything() == expected
        assert max(record.sequence for record in resolved(world)) == len(STORY) // group
    assert crashes >= 15


changes = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from(["put", "delete"])), max_size=4),
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(
    changes=changes,
    group=st.integers(1, 3),
    failures=st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=4),
)
def test_any_story_with_any_crashes_ends_as_the_table(
    changes: list[list[tuple[int, int, str]]], group: int, failures: list[tuple[int, bool]]
) -> None:
    table: dict[int, tuple[int, int, str | None]] = {}
    story = []
    for number, steps in enumerate(changes, 1):
        made = []
        for id_, part, what in steps:
            old, new = table.get(id_), (id_, part, f"v{number}")
            if what == "put":
                made.append(rows("c", new) if old is None else rows("u", old, new))
                table[id_] = new
            elif old is not None:
                made.append(rows("d", old))
                del table[id_]
        story.append(transaction(number, *made))
    world = Harness(partition_by={"t": ["part"]})
    for fail_at, after in failures:
        try:
            world.replicate(story, group, fail_at, after)
        except Transient:
            continue
    world.replicate(story, group)
    if not any(each.steps for each in story):
        return
    newest: dict[bytes | None, tuple[int, Record]] = {}
    seen = set()
    for record in world.records(TOPIC):
        version = from_headers(record.headers)
        assert (record.key, version, record.value is None) not in seen
        seen.add((record.key, version, record.value is None))
        if version >= newest.get(record.key, (-1, record))[0]:
            newest[record.key] = version, record
    alive = [world.value(record)["after"] for _, record in newest.values() if record.value is not None]
    assert {(row["id"], row["part"], row["v"]) for row in alive} == set(table.values())
    assert number_of(resolved(world)[-1].version) > 0


def test_a_table_whose_rows_cannot_be_read_is_set_aside_and_the_others_go_on() -> None:
    world = Harness()
    broken = RowsEvent(MAP, "c", rows("c", (2, 1, "b")).body[:-1])
    world.replicate(
        [transaction(1, rows("c", (1, 1, "a"))), transaction(2, broken), transaction(3, rows("c", (3, 1, "c")))]
    )
    assert [world.value(record)["after"]["id"] for record in world.records(TOPIC)] == [1]
    last = resolved(world)[-1]
    assert last.uncovered == ("shop.t",)
    assert str(last.position.gtids) == "0-1-3"
    aside = CaptureState.from_json(last.state).aside["shop.t"]
    assert aside.gtid == "0-1-2"
    assert aside.position == "bin.000001:200"
    assert "column='v'" in aside.cause


def test_rows_are_counted_by_op_and_those_passed_over_apart() -> None:
    world = Harness()
    broken = RowsEvent(MAP, "d", rows("d", (2, 1, "b")).body[:-1])
    first = transaction(1, rows("c", (1, 1, "a"), (2, 1, "b")), rows("u", (1, 1, "a"), (9, 1, "a")))
    world.replicate([first, transaction(2, broken), transaction(3, rows("c", (3, 1, "c")))])
    assert [(group.ops, group.rows) for group in world.groups] == [({"c": 2, "u": 1}, 3), ({}, 0), ({}, 0)]
    assert [group.skipped for group in world.groups] == [{}, {"d": 1}, {"c": 1}]


def orphaned(number: int) -> SourceTransaction:
    return replace(transaction(number), orphans=(("shop", "t"), ("shop", "unknown")))


def test_a_map_without_rows_is_noted_once_where_a_key_cascades() -> None:
    world = Harness()
    world.cascades = {("shop", "t"), ("shop", "unknown")}
    world.replicate([transaction(1, rows("c", (1, 1, "a"))), orphaned(2), orphaned(3)])
    last = resolved(world)[-1]
    assert last.uncovered == ("shop.t",)
    noted = CaptureState.from_json(last.state).orphans
    assert {table: note.gtid for table, note in noted.items()} == {"shop.t": "0-1-2"}


def test_a_map_without_rows_of_a_trigger_that_did_nothing_says_nothing() -> None:
    world = Harness()
    world.replicate([orphaned(1)])
    assert resolved(world)[-1].uncovered == ()


def test_a_table_that_is_to_be_read_over_a_gap_lacks_nothing_more() -> None:
    world = Harness()
    world.cascades = {("shop", "t")}
    world.replicate([transaction(1, "RENAME TABLE t TO x.old, x.fresh TO t"), orphaned(2)])
    assert CaptureState.from_json(resolved(world)[-1].state).orphans == {}


def test_a_source_that_is_told_to_stops_at_rows_that_cannot_be_read() -> None:
    world = Harness(unreadable="source")
    broken = RowsEvent(MAP, "c", rows("c", (2, 1, "b")).body[:-1])
    with pytest.raises(Terminal, match="cannot be read") as refused:
        world.replicate([transaction(1, rows("c", (1, 1, "a"))), transaction(2, broken)])
    assert (refused.value.details["table"], refused.value.details["column"], refused.value.details["position"]) == (
        "shop.t",
        "v",
        "bin.000001:200",
    )
    assert str(resolved(world)[-1].position.gtids) == "0-1-1"


def test_columns_that_are_ignored_or_masked_do_not_leave() -> None:
    world = Harness(filter={"t": {"ignored_columns": ["part"], "masks": {"v": {"keep_last": 1}}}})
    world.replicate([transaction(1, rows("c", (1, 1, "abc"), (2, 1, None)))])
    found = sorted((world.value(record)["after"] for record in world.records(TOPIC)), key=lambda row: row["id"])
    assert found == [{"id": 1, "v": "**c"}, {"id": 2, "v": None}]


def test_a_huge_transaction_goes_to_the_log_in_parts_and_is_seen_whole() -> None:
    world = Harness(group_bytes=500)
    whole = Harness()
    huge = [transaction(1, *[rows("c", *[(n * 10 + i, 1, "x" * 40) for i in range(10)]) for n in range(20)])]
    world.replicate(huge)
    whole.replicate(huge)
    assert world.everything() == whole.everything()
    assert len(resolved(world)) == 1
    assert max(len(group.outputs) for group in world.groups) < 10 < max(len(group.outputs) for group in whole.groups)
