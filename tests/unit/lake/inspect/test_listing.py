"""The objects of dates, and what Spark and DuckDB are told to read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import SettingsError, Terminal
from include.lake.definition import LakeGroup
from include.lake.inspect.listing import Dates, ListedObject, list_topic
from include.lake.inspect.object_reader import open_contents
from include.lake.inspect.readers import ReadSet, duckdb_sql, read_set, read_set_of, spark_line, spark_paths
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.pointer import change_pointer
from tests.support.lake.stored_topic import StoredTopic, backup_group, event, parsing_group

TODAY = dt.date(2026, 11, 21)
YESTERDAY = TODAY - dt.timedelta(days=1)
JSON = {"json_lines": {"content": "payload"}}


def listed(world: StoredTopic, group: LakeGroup, dates: Dates, *, refused: bool = False) -> list[ListedObject]:
    return list_topic(world.store, group.prefix, "events", dates, refused=refused)


def keys(world: StoredTopic, group: LakeGroup, dates: Dates, *, refused: bool = False) -> list[str]:
    return [each.key for each in listed(world, group, dates, refused=refused)]


def test_objects_are_chosen_by_the_dates_of_their_names(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group()
    world.append([event(0), event(1, days_ago=1), event(2, days_ago=2), b"no json"])
    world.store_all(group)
    name = "1_0_00000000000000000000"
    assert keys(world, group, Dates(TODAY, TODAY)) == [f"dates/events/dt=2026-11-21/{name}"]
    assert keys(world, group, Dates(YESTERDAY, TODAY)) == [
        f"dates/events/dt=2026-11-20/{name}",
        f"dates/events/dt=2026-11-21/{name}",
    ]
    assert keys(world, group, Dates(TODAY, TODAY), refused=True) == [f"dates/events/_quarantine/{name}"]
    assert keys(world, group, Dates(dt.date(2026, 1, 1), dt.date(2026, 1, 2))) == []


def test_a_backup_is_chosen_by_the_timestamps_of_its_records_in_a_zone(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), backup_group()
    world.append([event(0)])
    world.store_all(group)
    world.clock.advance(86_400)
    world.append([event(1)])
    world.store_all(group)
    first, second = listed(world, group, Dates(TODAY, TODAY + dt.timedelta(days=1)))
    assert (first.chosen, first.next, second.first) == ("timestamps", second.first, first.next)
    assert keys(world, group, Dates(TODAY, TODAY)) == [first.key]
    # 10:00 of UTC is the next day in Auckland, when it has summer time: 23:00, and not yet.
    assert keys(world, group, Dates(TODAY, TODAY, "Pacific/Auckland")) == [first.key]
    assert keys(world, group, Dates(TODAY, TODAY, "Pacific/Kiritimati")) == []


def test_a_day_of_a_zone_begins_at_its_own_midnight() -> None:
    hour = 3_600_000
    spring, autumn = Dates(dt.date(2026, 3, 29), dt.date(2026, 3, 29), "Europe/Berlin"), dt.date(2026, 10, 25)
    assert spring.span_ms[1] - spring.span_ms[0] == 23 * hour
    back = Dates(autumn, autumn, "Europe/Berlin").span_ms
    assert back[1] - back[0] == 25 * hour
    utc = Dates(TODAY, TODAY).span_ms
    assert utc == (1_795_219_200_000, 1_795_305_600_000)


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_dates_may_begin_and_end_with_the_calendar(name: str) -> None:
    for day in (dt.date.min, dt.date.max):
        dates = Dates(day, day, name)
        assert dates.span_ms[1] - dates.span_ms[0] == 86_400_000
        assert day.isoformat() in dates.days
    last_two = Dates(dt.date(9999, 12, 30), dt.date.max, name)
    assert last_two.span_ms[1] - last_two.span_ms[0] == 2 * 86_400_000


def test_a_replaced_generation_is_not_listed(tmp_path: Path) -> None:
    world = StoredTopic(tmp_path)
    world.append([event(0)])
    world.store_all(parsing_group())
    world.append([event(1)])
    world.store_all(parsing_group(revision=2))
    group = parsing_group(revision=2)
    assert [each.generation for each in listed(world, group, Dates(TODAY, TODAY))] == [1, 2]
    key = world.key(group)
    change_pointer(world.store, key, lambda now: now.reserve("me", "backfill"))
    before = keys(world, group, Dates(TODAY, TODAY))
    change_pointer(world.store, key, lambda now: now.promote(3, {0: ((0, 2),)}, replaces=1))
    # Promoted, and its objects are not there: readers must not take the old ones in silence.
    with pytest.raises(Terminal, match="cuts that readers should find are missing"):
        listed(world, group, Dates(TODAY, TODAY))
    assert len(before) == 2


def test_all_partitions_and_lives_are_listed_and_their_progress_is_told(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group()
    world.make("events", 3)
    for partition in range(3):
        world.append([event(partition)], partition=partition)
    world.store_all(group)
    world.memory.admin().delete("events")
    world.append([event(9)])
    world.store_all(group)
    told: list[tuple[int, int]] = []
    found = list_topic(
        world.store, "dates", "events", Dates(TODAY, TODAY), progress=lambda done, of: told.append((done, of))
    )
    assert sorted((each.partition, each.generation) for each in found) == [(0, 1), (0, 2), (1, 1), (2, 1)]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [each.key for each in found] == sorted(each.key for each in found)


def test_dates_that_are_none_are_refused() -> None:
    with pytest.raises(SettingsError, match="end before they begin"):
        Dates(TODAY, YESTERDAY)
    with pytest.raises(SettingsError, match="no time zone"):
        Dates(TODAY, TODAY, "Nowhere/Land")


def test_readers_get_each_format_apart_and_nothing_refused(tmp_path: Path) -> None:
    world = StoredTopic(tmp_path)
    world.append([event(0), b"no json"])
    world.store_all(parsing_group(JSON))
    text = {"text": {"compression": {"codec": "gzip"}}}
    world.append([event(3)])
    world.store_all(parsing_group(text, revision=2))
    found = read_set(world.store, "lake", "dates", "events", Dates(TODAY, TODAY))
    assert found.folder == "dates/events"
    assert found.keys == {
        "json_lines": ("dates/events/dt=2026-11-21/1_0_00000000000000000000.jsonl",),
        "text": ("dates/events/dt=2026-11-21/2_0_00000000000000000003.txt.gz",),
    }
    assert duckdb_sql(found).splitlines() == [
        (
            "SELECT * FROM read_json(['s3://lake/dates/events/dt=2026-11-21/1_0_00000000000000000000.jsonl'], "
            "format = 'newline_delimited', union_by_name = true, sample_size = -1, hive_partitioning = true);"
        ),
        (
            "SELECT * FROM read_csv(['s3://lake/dates/events/dt=2026-11-21/2_0_00000000000000000003.txt.gz'], "
            "columns = {'line': 'VARCHAR'}, auto_detect = false, header = false, delim = '', quote = '', escape = '', "
            "force_not_null = ['line'], hive_partitioning = true);"
        ),
    ]
    assert spark_line(found).splitlines()[0] == (
        'spark.read.format("json").option("basePath", \'s3a://lake/dates/events\').load('
        "['s3a://lake/dates/events/dt=2026-11-21/1_0_00000000000000000000.jsonl'])"
    )


def test_sequence_files_are_for_spark_alone(tmp_path: Path) -> None:
    world = StoredTopic(tmp_path)
    world.append([event(0)])
    world.store_all(parsing_group())
    found = read_set(world.store, "lake", "dates", "events", Dates(TODAY, TODAY))
    assert spark_paths(found, "sequence") == ["s3a://lake/dates/events/dt=2026-11-21/1_0_00000000000000000000"]
    assert "sequenceFile('s3a://" in spark_line(found)
    with pytest.raises(SettingsError, match=r"no SequenceFiles.*--as spark"):
        duckdb_sql(found)


def test_a_sequence_file_is_one_by_its_declared_ending() -> None:
    form = parsing_group({"sequence": {"layout": "verbatim", "extension": ".txt"}}).rules[0].format
    one = ListedObject("d/e/dt=2026-11-21/1_0_00000000000000000000.txt", 0, 1, 0, 1, 1, 1, "", None, None, "name")
    assert list(read_set_of("b", "d", "e", [one], form).keys) == ["sequence"]
    assert list(read_set_of("b", "d", "e", [one]).keys) == ["text"]


def test_each_schema_of_avro_is_a_table_and_parquet_is_one_with_all_columns() -> None:
    keys = ("d/e/dt=1/schema=1/a.avro", "d/e/dt=1/schema=2/b.avro", "d/e/dt=2/schema=1/c.avro")
    parquet = ("d/e/dt=1/schema=1/a.parquet", "d/e/dt=1/schema=2/b.parquet")
    found = ReadSet("b", "d/e", {"avro": keys, "parquet": parquet})
    first, second, third = duckdb_sql(found).splitlines()
    assert first == f"SELECT * FROM read_avro(['s3://b/{keys[0]}', 's3://b/{keys[2]}']);"
    assert second == f"SELECT * FROM read_avro(['s3://b/{keys[1]}']);"
    assert third.startswith("SELECT * FROM read_parquet([")
    assert "union_by_name = true" in third
    assert [line.count("load(") for line in spark_line(found).splitlines()] == [1, 1, 1]
    assert '.option("mergeSchema", "true").load(' in spark_line(found).splitlines()[2]
    assert spark_paths(found, "avro", "s3") == [f"s3://b/{key}" for key in keys]


def test_signs_that_a_reader_takes_for_a_pattern_are_refused_and_quotes_are_doubled() -> None:
    odd = ReadSet("b", "d/e", {"parquet": ("d/e/c=it's/1.parquet",)})
    assert "'s3://b/d/e/c=it''s/1.parquet'" in duckdb_sql(odd)
    for key in ("d/e/a*b/1.parquet", "d/e/a{b/1.parquet", "d/e/a?/1.parquet"):
        with pytest.raises(Terminal, match="pattern"):
            duckdb_sql(ReadSet("b", "d/e", {"parquet": (key,)}))
    with pytest.raises(Terminal, match="comma"):
        spark_paths(ReadSet("b", "d/e", {"sequence": ("d/e/a,b/1",)}), "sequence")
    with pytest.raises(SettingsError, match="no object is of these dates"):
        spark_line(ReadSet("b", "d/e", {}))


def read_all(world: StoredTopic, group: LakeGroup) -> list[bytes]:
    """The values that readers of all dates find."""
    found = listed(world, group, Dates(dt.date(2026, 1, 1), dt.date(2026, 12, 31)))
    bodies = [(each.key, world.store.get(each.key)) for each in found]
    return [
        record.value or b""
        for key, stored in bodies
        if stored is not None
        for record in open_contents(stored.body, key).messages
    ]


@settings(max_examples=25, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=5),
    upgrades=st.sets(st.integers(1, 4)),
)
def test_readers_find_each_record_once_though_older_revisions_write_on(
    batches: list[list[int]], upgrades: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    world, revision = StoredTopic(tmp_path_factory.mktemp("lake")), 1
    group = parsing_group()
    writers = [world.begin(group)]
    values: list[bytes] = []
    for number, batch in enumerate(batches):
        if number in upgrades:
            revision += 1
            group = parsing_group(revision=revision)
            writers.append(world.begin(group))
        made = [event(len(values) + place, days_ago=days) for place, days in enumerate(batch)]
        values += made
        world.append(list(made))
        # The newest one first, so that those before it still write what it has written, too, between two of the looks
        # that tell them that they were overtaken.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("include.lake.writing.driver.require_current", lambda *_: None)
            for writer in reversed(writers):
                for _ in range(20):
                    writer.step("flush")
                    world.clock.advance(0.5)
    assert sorted(read_all(world, group)) == sorted(values)
    heads = {Chain(world.store, ChainKey(world.key(group), n, 0)).head().next for n in range(1, revision + 1)}
    assert heads == {world.edge()[1]}
