"""The log's ports: the double in memory and Kafka give the same answers."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, OffsetSpec

from include.clock import SystemClock
from include.errors import Fenced, Terminal, Transient
from include.log.kafka import admin
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.memory import MemoryLog
from include.log.planning.survey import KafkaSurvey, PortSurvey, Survey
from include.log.ports import LogReader, LogWriter, Record, TopicAdmin, TopicSpec, Versioned
from include.log.publishing.placement import require_ungrown
from include.log.publishing.retention import require_kept
from include.log.topics import document_spec, policy
from include.record.key import partition_of
from include.record.version import from_headers, to_header

COMPACTED = {"cleanup.policy": "compact"}


@dataclass
class Log:
    """One log, real or not, and what a test opened on it."""

    kind: str
    admin: TopicAdmin
    reader: LogReader
    open_writer: Callable[[str], LogWriter]
    prefix: str
    opened: list[LogWriter] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    open_survey: Callable[[], Survey] | None = None
    grow: Callable[[str, int], None] = lambda _topic, _partitions: None
    configure: Callable[[str, dict[str, str]], None] = lambda _topic, _config: None
    written: Callable[[str], dict[int, int]] = lambda _topic: {}
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"{self.prefix}.{next(self.numbers)}"
        self.admin.ensure(TopicSpec(name, partitions, config or {}))
        self.made.append(name)
        return name

    def writer(self, name: str = "writer") -> LogWriter:
        writer = self.open_writer(f"{self.prefix}-{name}")
        self.opened.append(writer)
        return writer

    def settle(self, topic: str) -> None:
        """Wait for the ends of transactions: a broker writes them soon after it has answered the commit."""
        clock = SystemClock()
        until_s = clock.monotonic_s() + 20
        while self.kind == "kafka" and self.reader.end_offsets(topic) != self.written(topic):
            assert clock.monotonic_s() < until_s, "a transaction is open"
            clock.sleep(0.01)

    def survey(self) -> Survey:
        return self.open_survey() if self.open_survey else PortSurvey(self.reader, self.admin)

    def all(self, topic: str, partition: int = 0, *, open_: bool = False) -> list[Record]:
        """The committed records; `open_`: while a transaction is open."""
        if not open_:
            self.settle(topic)
        end = self.reader.end_offsets(topic)[partition]
        return list(self.reader.read(topic, partition, self.reader.begin_offsets(topic)[partition], end))


def write(writer: LogWriter, topic: str, *values: bytes | None, key: bytes = b"k", commit: bool = True) -> int:
    """One transaction; returns the next offset of the one partition that it wrote to."""
    writer.begin()
    for value in values:
        writer.append(topic, key, value)
    (end,) = writer.next_offsets().values()
    if commit:
        writer.commit()
    else:
        writer.abort()
    return end


def append_and_flush(writer: LogWriter, topic: str, key: bytes | None, value: bytes) -> None:
    """A refusal may come with either call."""
    writer.append(topic, key, value, partition=0)
    writer.next_offsets()


@pytest.fixture(params=["memory", "kafka"])
def log(request: pytest.FixtureRequest, unique: str) -> Iterator[Log]:
    if request.param == "memory":
        memory = MemoryLog()
        found = Log("memory", memory.admin(), memory.reader(), memory.writer, unique)
        found.configure, found.grow = memory.configure, memory.grow
        yield found
        return
    bootstrap = request.getfixturevalue("kafka")
    reader = KafkaReader(bootstrap, timeout_s=10)
    client = AdminClient({"bootstrap.servers": bootstrap})

    def written(topic: str) -> dict[int, int]:
        partitions = client.list_topics(topic, timeout=10).topics[topic].partitions
        found = client.list_offsets({TopicPartition(topic, p): OffsetSpec.latest() for p in partitions})
        return {at.partition: future.result(10).offset for at, future in found.items()}

    def configure(topic: str, config: dict[str, str]) -> None:
        entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in config.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        client.incremental_alter_configs([resource])[resource].result(10)
        # The controller answers before its broker knows.
        clock, until_s = SystemClock(), SystemClock().monotonic_s() + 20
        while not config.items() <= (found.admin.settings(topic) or {}).items():
            assert clock.monotonic_s() < until_s, "settings are not altered"
            clock.sleep(0.02)

    found = Log("kafka", KafkaAdmin(bootstrap), reader, lambda name: KafkaWriter(bootstrap, name), unique)

    def grow(topic: str, partitions: int) -> None:
        client.create_partitions([NewPartitions(topic, partitions)])[topic].result(10)
        clock, until_s = SystemClock(), SystemClock().monotonic_s() + 20
        while len(found.reader.end_offsets(topic)) < partitions:
            assert clock.monotonic_s() < until_s, "the topic does not grow"
            clock.sleep(0.02)

    found.written, found.configure, found.grow = written, configure, grow
    found.open_survey = lambda: KafkaSurvey(bootstrap)
    yield found
    for writer in found.opened:
        writer.close()
    reader.close()
    for topic in found.made:
        found.admin.delete(topic)


def test_records_come_back_as_they_were_written(log: Log) -> None:
    topic, writer = log.topic(), log.writer()
    writer.begin()
    headers = [("version", b"7"), ("none", None), ("version", b"8"), ("empty", b"")]
    writer.append(topic, b"key", b"value", headers=headers, timestamp_ms=1_700_000_000_123)
    writer.commit()
    (record,) = log.all(topic)
    assert (record.topic, record.partition, record.offset) == (topic, 0, 0)
    assert (record.key, record.value, record.timestamp_ms) == (b"key", b"value", 1_700_000_000_123)
    assert list(record.headers) == headers
    assert record.next_offset == 1


def test_an_edge_in_time_is_the_first_record_of_that_time_or_the_end(log: Log) -> None:
    topic, writer, survey = log.topic(2), log.writer(), log.survey()
    begin = SystemClock().now_us() // 1_000
    writer.begin()
    for step in (0, 10, 5, 20):
        writer.append(topic, b"k", b"v", partition=0, timestamp_ms=begin + step)
    writer.commit()
    log.settle(topic)
    places = [(topic, 0), (topic, 1)]
    assert survey.offsets(places, begin) == {(topic, 0): 0, (topic, 1): 0}
    assert survey.offsets(places, begin + 6) == {(topic, 0): 1, (topic, 1): 0}
    assert survey.offsets(places, begin + 11)[topic, 0] == 3
    # The end of a transaction has a time of its own.
    assert survey.offsets(places, begin + 86_400_000) == survey.offsets(places, "end")


def test_a_row_of_many_megabytes_passes_where_the_topic_has_our_policy(log: Log) -> None:
    topic, value = log.topic(config=policy("cdc.s.d.pictures")), random.Random(1).randbytes(12 << 20)
    write(log.writer(), topic, value)
    assert [record.value == value for record in log.all(topic)] == [True]


def test_a_tombstone_is_not_an_empty_value(log: Log) -> None:
    topic = log.topic(config=COMPACTED)
    write(log.writer(), topic, None, b"")
    assert [record.value for record in log.all(topic)] == [None, b""]


def test_nothing_of_a_transaction_is_seen_before_its_commit_and_all_of_it_after(log: Log) -> None:
    first, second, writer = log.topic(), log.topic(), log.writer()
    writer.begin()
    writer.append(first, b"k", b"1")
    writer.append(second, b"k", b"2")
    assert writer.next_offsets() == {(first, 0): 1, (second, 0): 1}
    assert log.reader.end_offsets(first) == {0: 0}
    assert (log.all(first, open_=True), log.all(second, open_=True)) == ([], [])
    writer.commit()
    assert [r.value for t in (first, second) for r in log.all(t)] == [b"1", b"2"]


def test_partitions_with_a_transaction_under_way_are_told_with_the_offset_that_readers_wait_at(log: Log) -> None:
    first, second, writer = log.topic(), log.topic(), log.writer()
    write(writer, first, b"a")
    assert log.reader.unended([first, second, "no.such.topic"]) == {}
    writer.begin()
    writer.append(first, b"k", b"b")
    writer.next_offsets()
    assert log.reader.unended([first, second]) == {(first, 0): 2}
    assert log.reader.unended([second]) == {}
    writer.abort()
    for _ in range(100):
        if not log.reader.unended([first, second]):
            break
        time.sleep(0.05)
    assert log.reader.unended([first, second]) == {}


def test_aborted_records_are_gaps(log: Log) -> None:
    topic, writer = log.topic(), log.writer()
    write(writer, topic, b"a")
    write(writer, topic, b"lost", b"lost too", commit=False)
    write(writer, topic, b"b")
    records = log.all(topic)
    assert [r.value for r in records] == [b"a", b"b"]
    # Offsets 1, 4 and 6 hold the ends of the transactions, 2 and 3 what was aborted.
    assert [r.offset for r in records] == [0, 5]
    assert log.reader.end_offsets(topic) == {0: 7}


def test_a_range_that_holds_only_aborted_records_and_markers_ends_empty(log: Log) -> None:
    topic, writer = log.topic(), log.writer()
    end = write(writer, topic, b"a")
    write(writer, topic, b"lost", commit=False)
    log.settle(topic)
    assert list(log.reader.read(topic, 0, end, log.reader.end_offsets(topic)[0])) == []


def test_a_range_is_half_open(log: Log) -> None:
    topic = log.topic()
    write(log.writer(), topic, *(b"%d" % n for n in range(10)))
    assert [r.offset for r in log.reader.read(topic, 0, 3, 7)] == [3, 4, 5, 6]
    assert list(log.reader.read(topic, 0, 5, 5)) == []


def test_a_reader_waits_at_most_its_time_for_what_is_not_committed(log: Log, request: pytest.FixtureRequest) -> None:
    topic, writer = log.topic(), log.writer()
    writer.begin()
    writer.append(topic, b"k", b"open")
    (end,) = writer.next_offsets().values()
    reader = log.reader
    if log.kind == "kafka":
        reader = KafkaReader(request.getfixturevalue("kafka"), timeout_s=1)
    with pytest.raises(Transient, match=topic):
        list(reader.read(topic, 0, 0, end))
    reader.close()


def test_several_ranges_may_be_read_in_turns(log: Log) -> None:
    topic = log.topic(2)
    writer = log.writer()
    writer.begin()
    for n in range(6):
        writer.append(topic, None, b"%d" % n, partition=n % 2)
    writer.commit()
    even, odd = log.reader.read(topic, 0, 0, 3), log.reader.read(topic, 1, 0, 3)
    assert [next(each).value for each in (even, odd, even, odd)] == [b"0", b"1", b"2", b"3"]
    assert [r.value for r in (*odd, *even)] == [b"5", b"4"]


def test_a_newer_writer_fences_the_older_and_aborts_what_it_had_open(log: Log) -> None:
    topic, old = log.topic(), log.writer("one")
    old.begin()
    old.append(topic, b"k", b"old")
    old.next_offsets()
    new = log.writer("one")
    write(new, topic, b"new")
    with pytest.raises(Fenced, match="another process"):
        old.commit()
    with pytest.raises(Fenced):
        old.abort()
    old.close()
    assert [r.value for r in log.all(topic)] == [b"new"]


def test_a_fenced_writer_learns_of_it_with_the_first_records_that_it_writes(log: Log) -> None:
    topic, old = log.topic(), log.writer("one")
    write(old, topic, b"a")
    log.writer("one")
    with pytest.raises(Fenced):
        write(old, topic, b"zombie")
    assert [r.value for r in log.all(topic)] == [b"a"]


def test_a_new_writer_is_open_only_when_all_of_the_older_ones_commits_can_be_seen(log: Log) -> None:
    topic, writer = log.topic(), log.writer("one")
    for number in range(10):
        write(writer, topic, b"%d" % number)
        writer = log.writer("one")
        assert log.reader.end_offsets(topic) == {0: 2 * number + 2}


def test_writers_of_other_ids_do_not_fence_each_other(log: Log) -> None:
    topic, one, two = log.topic(), log.writer("one"), log.writer("two")
    write(one, topic, b"1")
    write(two, topic, b"2")
    write(one, topic, b"3")
    assert [r.value for r in log.all(topic)] == [b"1", b"2", b"3"]


def test_an_open_transaction_of_one_writer_holds_back_the_end_for_all(log: Log) -> None:
    topic, slow, fast = log.topic(), log.writer("slow"), log.writer("fast")
    slow.begin()
    slow.append(topic, b"k", b"slow")
    slow.next_offsets()
    write(fast, topic, b"fast")
    assert log.reader.end_offsets(topic) == {0: 0}
    slow.abort()
    assert [r.value for r in log.all(topic)] == [b"fast"]


def test_input_offsets_are_committed_with_the_transaction_or_not_at_all(log: Log, unique: str) -> None:
    source, target, writer = log.topic(2), log.topic(), log.writer()
    assert log.reader.committed(unique, source) == {}
    writer.begin()
    writer.append(target, b"k", b"v")
    writer.commit(unique, {(source, 0): 4, (source, 1): 0})
    assert log.reader.committed(unique, source) == {0: 4, 1: 0}
    assert log.reader.committed(unique + "x", source) == {}
    writer.begin()
    writer.commit(unique, {(source, 0): 9})
    assert log.reader.committed(unique, source) == {0: 9, 1: 0}


def test_offsets_of_a_fenced_writer_are_refused(log: Log, unique: str) -> None:
    topic, old = log.topic(), log.writer("one")
    old.begin()
    old.append(topic, b"k", b"v")
    log.writer("one")
    with pytest.raises(Fenced):
        old.commit(unique, {(topic, 0): 3})
    assert log.reader.committed(unique, topic) == {}


def test_keys_go_where_the_java_client_sends_them(log: Log) -> None:
    topic, writer = log.topic(5), log.writer()
    keys = [b"%d" % n for n in range(40)]
    writer.begin()
    for key in keys:
        writer.append(topic, key, key)
    ends = writer.next_offsets()
    writer.commit()
    found = {r.key: p for p in range(5) for r in log.all(topic, p)}
    assert found == {key: partition_of(key, 5) for key in keys}
    assert sum(ends.values()) == len(keys)


def test_records_appended_together_stand_as_those_appended_one_by_one(log: Log) -> None:
    topic, other, writer = log.topic(3), log.topic(), log.writer()
    records: list[Versioned] = [(topic, b"%d" % n, b"v" if n % 3 else None, n, n % 3 % 2) for n in range(450)]
    records.insert(7, (other, b"o", b"1", 1000, 0))
    by_key: list[Versioned] = [(topic, b"key", b"a", 2000, None), (topic, b"0", b"b", 2001, 0)]
    writer.begin()
    writer.append(topic, b"first", b"", headers=(to_header(5000),), partition=1)
    for batch in (records, [], by_key, records[:1]):
        writer.append_all(batch)
    writer.append(topic, b"last", b"", headers=(to_header(6000),), partition=1)
    ends = writer.next_offsets()
    writer.commit()
    wanted: dict[tuple[str, int], list[tuple[bytes | None, bytes | None, int]]] = {(topic, 1): [(b"first", b"", 5000)]}
    for at, key, value, version, partition in [*records, *by_key, records[0]]:
        place = at, partition_of(b"key", 3) if partition is None else partition
        wanted.setdefault(place, []).append((key, value, version))
    wanted[topic, 1].append((b"last", b"", 6000))
    found = {place: [(r.key, r.value, from_headers(r.headers)) for r in log.all(*place)] for place in wanted}
    assert found == wanted
    assert ends == {place: len(each) for place, each in wanted.items()}


def test_records_together_need_an_open_transaction(log: Log) -> None:
    topic, writer = log.topic(), log.writer()
    with pytest.raises(Terminal, match="no transaction is open"):
        writer.append_all([(topic, b"k", b"v", 1, 0)])


def test_a_declared_partition_wins_over_the_key(log: Log) -> None:
    topic, writer = log.topic(3), log.writer()
    writer.begin()
    for partition in range(3):
        writer.append(topic, b"k", b"v", partition=partition)
    assert writer.next_offsets() == {(topic, p): 1 for p in range(3)}
    writer.commit()


def test_next_offsets_speak_of_the_open_transaction_alone(log: Log) -> None:
    topic, other, writer = log.topic(), log.topic(), log.writer()
    write(writer, other, b"x")
    writer.begin()
    assert writer.next_offsets() == {}
    writer.append(topic, b"k", b"v")
    assert writer.next_offsets() == {(topic, 0): 1}
    writer.abort()


def test_calls_outside_a_transaction_are_refused_and_abort_is_harmless(log: Log) -> None:
    topic, writer = log.topic(), log.writer()
    writer.abort()
    for call in (lambda: writer.append(topic, b"k", b"v"), writer.commit, writer.next_offsets):
        with pytest.raises(Terminal, match="no transaction"):
            cast("Callable[[], Any]", call)()
    writer.begin()
    with pytest.raises(Terminal, match="cannot begin"):
        writer.begin()
    writer.abort()
    writer.close()
    writer.close()


def test_closing_drops_what_is_open(log: Log) -> None:
    topic, writer = log.topic(), log.writer()
    writer.begin()
    writer.append(topic, b"k", b"v")
    writer.close()
    write(log.writer(), topic, b"after")
    assert [r.value for r in log.all(topic)] == [b"after"]


def test_a_record_without_a_key_needs_a_partition_and_a_topic_that_is_not_compacted(log: Log) -> None:
    plain, compacted, writer = log.topic(), log.topic(config=COMPACTED), log.writer()
    writer.begin()
    with pytest.raises(Terminal, match="needs a partition"):
        writer.append(plain, None, b"v")
    writer.append(plain, None, b"v", partition=0)
    writer.commit()
    assert [r.key for r in log.all(plain)] == [None]
    writer.begin()
    with pytest.raises(Terminal):
        append_and_flush(writer, compacted, None, b"v")
    writer.abort()
    write(writer, plain, b"goes on")
    assert len(log.all(plain)) == 2


def test_a_topic_is_made_once_and_keeps_its_id(log: Log) -> None:
    topic = log.topic(3)
    info = log.admin.ensure(TopicSpec(topic, 3, {}))
    assert (info.name, info.partitions) == (topic, 3)
    assert log.admin.describe(topic) == info
    assert topic in log.admin.names()


def test_what_is_hidden_begins_at_the_last_stable_offset_and_goes_on_to_the_high_watermark(log: Log) -> None:
    topic, other, writer = log.topic(2), log.topic(), log.writer()
    places = {(topic, 0), (topic, 1), (other, 0), ("no.such.topic", 0)}
    write(log.writer("before"), other, b"v")
    log.settle(other)
    assert log.survey().hidden(places) == {}
    writer.begin()
    writer.append(topic, b"k", b"1", partition=1)
    writer.next_offsets()
    committed = log.writer("behind")
    committed.begin()
    committed.append(topic, b"k", b"2", partition=1)
    committed.commit()
    (hidden,) = log.survey().hidden(places).items()
    assert (hidden[0], hidden[1].stable) == ((topic, 1), 0)
    assert hidden[1].written == (3 if log.kind == "kafka" else 1)
    writer.abort()
    log.settle(topic)
    assert log.survey().hidden(places) == {}


def test_a_topic_tells_what_it_takes_at_most(log: Log, unique: str) -> None:
    for name, config, most in (("own", {"max.message.bytes": "2000"}, 2000), ("default", {}, 1_048_588)):
        log.admin.ensure(TopicSpec(f"{unique}-{name}", 1, config))
        assert log.admin.largest(f"{unique}-{name}") == most
        log.admin.delete(f"{unique}-{name}")
    with pytest.raises(Terminal, match=f"does not exist.*{unique}-gone"):
        log.admin.largest(f"{unique}-gone")


def test_a_topic_tells_how_long_it_keeps_deletions(log: Log, unique: str) -> None:
    compacted = {"cleanup.policy": "compact"}
    for name, config, kept in (
        ("own", {**compacted, "delete.retention.ms": "5000"}, 5000),
        ("compacted", compacted, 86_400_000),
        ("other", {}, None),
    ):
        log.admin.ensure(TopicSpec(f"{unique}-{name}", 1, config))
        assert log.admin.deletions_kept_ms(f"{unique}-{name}") == kept
        log.admin.delete(f"{unique}-{name}")
    with pytest.raises(Terminal, match=f"does not exist.*{unique}-gone"):
        log.admin.deletions_kept_ms(f"{unique}-gone")


def test_a_topic_tells_its_settings_own_and_by_default(log: Log) -> None:
    topic = log.topic(config=COMPACTED | {"delete.retention.ms": "5000"})
    told = log.admin.settings(topic)
    assert told is not None
    wanted = {**COMPACTED, "delete.retention.ms": "5000", "retention.ms": "604800000", "retention.bytes": "-1"}
    assert {name: told[name] for name in wanted} == wanted
    with pytest.raises(Terminal, match=f"does not exist.*{topic}-gone"):
        log.admin.settings(f"{topic}-gone")


def test_a_documents_topic_that_somebody_made_is_refused_until_it_keeps_all(log: Log) -> None:
    # As a broker makes it that makes topics by itself.
    topic = log.topic()
    spec = document_spec(topic, 1)
    log.admin.ensure(spec)
    with pytest.raises(Terminal, match="forgets what it has to keep") as caught:
        require_kept(spec, log.admin)
    command = caught.value.fix
    added = command.partition("--add-config ")[2].partition("`")[0]
    log.configure(topic, dict(each.split("=") for each in added.split(",")))
    require_kept(spec, log.admin)


def test_a_topic_made_anew_has_another_id_and_starts_at_zero(log: Log) -> None:
    topic = log.topic()
    before = log.admin.ensure(TopicSpec(topic, 1))
    write(log.writer(), topic, b"v")
    log.admin.delete(topic)
    assert log.admin.describe(topic) is None
    assert topic not in log.admin.names()
    after = log.admin.ensure(TopicSpec(topic, 1))
    assert after.topic_id != before.topic_id
    assert log.reader.end_offsets(topic) == {0: 0}


def test_deleting_a_topic_that_is_not_there_is_harmless(log: Log) -> None:
    log.admin.delete(log.prefix + ".none")
    assert log.admin.describe(log.prefix + ".none") is None


def test_very_many_topics_are_described_in_portions_and_those_that_are_not_there_are_left_out(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "_DESCRIBED_TOGETHER", 2)
    made = {topic: log.admin.ensure(TopicSpec(topic, 1)) for topic in [log.topic() for _ in range(5)]}
    asked = {*made, log.prefix + ".none", log.prefix + ".neither"}
    assert log.admin.describe_all(asked) == made
    assert log.admin.describe_all([]) == {}


def test_another_number_of_partitions_is_refused_with_advice(log: Log) -> None:
    topic = log.topic(2)
    with pytest.raises(Terminal, match="Declare the number that it was made with") as refused:
        log.admin.ensure(TopicSpec(topic, 3))
    assert (refused.value.details["has"], refused.value.details["declared"]) == (2, 3)


def test_a_topic_that_has_grown_is_known_by_its_keys(log: Log) -> None:
    topic = log.topic(2)

    def put(numbers: range, partitions: int) -> None:
        # One that begins after the growth knows of it.
        writer = log.writer(f"of-{partitions}")
        writer.begin()
        for number in numbers:
            key = b"%d" % number
            writer.append(topic, key, b"v", partition=partition_of(key, partitions))
        writer.commit()
        log.settle(topic)

    put(range(50), 2)
    require_ungrown(topic, log.reader)
    log.grow(topic, 3)
    put(range(50, 60), 3)
    with pytest.raises(Terminal) as refused:
        require_ungrown(topic, log.reader)
    assert (refused.value.details["partitions"], refused.value.details["before"]) == (3, 2)


def test_a_topic_that_does_not_exist_is_named(log: Log) -> None:
    name = log.prefix + ".none"
    for call in (log.reader.end_offsets, log.reader.begin_offsets, lambda t: log.reader.committed("g", t)):
        with pytest.raises(Terminal, match=name):
            call(name)
    writer = log.writer()
    writer.begin()
    with pytest.raises(Terminal, match=name):
        writer.append(name, b"k", b"v")
    writer.abort()


def test_an_offset_beyond_the_log_is_refused(log: Log) -> None:
    topic = log.topic()
    write(log.writer(), topic, b"v")
    with pytest.raises(Terminal, match="does not hold"):
        list(log.reader.read(topic, 0, 500, 501))


def test_a_large_transaction_is_read_whole_and_in_order(log: Log) -> None:
    topic, writer = log.topic(), log.writer()
    values = [b"%06d" % n + b"x" * 1000 for n in range(20_000)]
    write(writer, topic, *values)
    assert [r.value for r in log.all(topic)] == values
