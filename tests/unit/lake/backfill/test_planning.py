"""Which cuts a backfill takes, and what it refuses before anything is written."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import SettingsError, Terminal, Transient
from include.lake.backfill.configuration import zones_of
from include.lake.backfill.plan import BackfillPlan
from include.lake.backfill.planning import missing_offsets
from include.lake.backfill.request import BackfillRequest
from include.lake.backfill.selection import BackfillSelection, Days, parse_offsets, span_ms
from include.lake.dates.event_hours import CalendarPeriod
from include.lake.parsing.zones import zone
from include.lake.protocol.cut import Commit, Gap
from include.store.memory import MemoryStore
from tests.support.lake.backfill_harness import DAY_MS, BackfillHarness, days, group, version

RIGHT = version(2, "made", from_offsets={0: 10**6})


def asked(first: str = "2024-05-01", last: str = "", **more: Any) -> BackfillSelection:
    return BackfillSelection("by_date", "events", **{"days": days(first, last), "version": 2, "raw": "raw", **more})


def by_offsets(offsets: dict[int, tuple[int, int]], **more: Any) -> BackfillSelection:
    return BackfillSelection("by_date", "events", **{"offsets": offsets, "version": 2, "raw": "raw", **more})


@pytest.fixture
def world(tmp_path: Path) -> BackfillHarness:
    """Cuts of 2024-05-01, -02 and -03, put under the day after; Kafka's timestamps are of 2024-05-11."""
    made = BackfillHarness(tmp_path, version(1, "at"), RIGHT)
    made.make("events")
    for day in range(3):
        made.events("events", 10, day)
        made.store_all()
    return made


def firsts(plan: BackfillPlan) -> list[int]:
    return [cut.first for cut in plan.cuts]


def test_cuts_of_the_days_are_taken_by_the_names_of_their_files_and_by_kafkas_timestamps(
    world: BackfillHarness,
) -> None:
    everything = firsts(world.plan(asked("2024-05-02", "2024-05-04")))
    assert len(everything) == 3
    assert firsts(world.plan(asked("2024-05-03"))) == everything[1:2]
    with pytest.raises(Terminal, match="no committed cut"):
        world.plan(asked("2024-05-06"))
    # The day of the records' Kafka timestamps: what a parser refused or misplaced is found by it.
    assert firsts(world.plan(asked("2024-05-11"))) == everything


def test_cuts_that_readers_find_under_a_day_are_taken_whatever_live_put_there(world: BackfillHarness) -> None:
    from include.lake.backfill.promotion import promote

    promote(world.store, world.backfilled(asked("2024-05-02", "2024-05-04")))
    found = world.plan(asked("2024-05-01"))
    assert (firsts(found), found.cuts[0].replaces, found.cuts[0].reads) == ([0], 1, 2)


def test_refused_records_without_any_time_are_taken_with_any_days(tmp_path: Path) -> None:
    world = BackfillHarness(tmp_path, version(1, "at"), RIGHT)
    world.make("events")
    world.clock.advance(-1.0 - world.clock.now_us() / 1e6)
    world.send("events", [b"no json"])
    world.clock.advance(1e9)
    world.store_all()
    assert len(world.plan(asked("2030-01-01")).cuts) == 1


def test_offsets_take_every_cut_that_they_touch(world: BackfillHarness) -> None:
    starts = firsts(world.plan(asked("2024-05-02", "2024-05-04")))
    assert firsts(world.plan(by_offsets({0: (starts[1] - 1, starts[1] + 1)}))) == starts[:2]
    assert firsts(world.plan(by_offsets({0: (starts[2], 10**6)}))) == starts[2:]
    with pytest.raises(Terminal, match="no committed cut"):
        world.plan(by_offsets({0: (10**6, 10**7)}))


def test_a_plan_names_the_objects_that_it_reads_and_is_the_same_when_read_back(world: BackfillHarness) -> None:
    plan = world.plan(asked("2024-05-03"))
    assert [source.key.startswith("raw/events/offset=0/1_0_") for source in plan.sources] == [True]
    assert plan.bytes_read == sum(source.bytes for source in plan.sources) > 0
    assert (plan.records, len(plan.to_json()["cuts"])) == (10, 1)
    assert BackfillPlan.parse(plan.to_bytes(), "k") == plan
    assert BackfillPlan.parse(plan.to_bytes(), "k").run == plan.run
    with pytest.raises(Terminal, match=r"cannot be read.*k"):
        BackfillPlan.parse(plan.to_bytes().replace(b"by_date", b'"'), "k")


def test_a_plan_writes_nothing(world: BackfillHarness) -> None:
    before = {info.key: info.etag for info in world.store.list("")}
    world.plan(asked("2024-05-03"))
    assert {info.key: info.etag for info in world.store.list("")} == before


def test_what_the_raw_copy_has_not_yet_is_refused_to_be_tried_again(world: BackfillHarness) -> None:
    world.events("events", 5, 3)
    world.store_all(world.by_date)
    with pytest.raises(Terminal, match=r"raw copy does not have all"):
        # Of this partition it has nothing of what was asked: perhaps it never will.
        world.plan(asked("2024-05-05"))
    with pytest.raises(Transient, match=r"raw copy does not have all.*'0: offsets \d+ to \d+'"):
        world.plan(asked("2024-05-02", "2024-05-05"))
    assert len(world.plan(asked("2024-05-02", "2024-05-04")).cuts) == 3
    world.store_all(world.driver)
    assert len(world.plan(asked("2024-05-05")).cuts) == 1


def test_what_the_raw_copy_lost_is_refused_unless_live_had_lost_it_too(tmp_path: Path) -> None:
    world = BackfillHarness(tmp_path, version(1, "at"), RIGHT)
    world.make("events")
    world.events("events", 10, 0)
    world.store_all(world.by_date)
    world.events("events", 10, 1)
    world.memory.truncate("events", 0, 15)
    world.store_all()
    with pytest.raises(Terminal, match=r"raw copy does not have all.*offsets 0 to 10"):
        world.plan(by_offsets({0: (0, 100)}))
    second = world.plan(by_offsets({0: (12, 100)}))
    run = world.backfilled(second.asked)
    from include.lake.backfill.comparison import compare

    found = compare(world.store, run)
    assert found.clean
    assert [commit.gaps for commit in found.commits.values()] == [(Gap(11, 15, "lost"),)]


def test_a_topic_without_a_raw_copy_says_how_to_go_on(world: BackfillHarness) -> None:
    from include.lake.backfill.planning import LakeStore, make_plan
    from tests.support.lake.backfill_harness import CONTEXT

    with pytest.raises(Terminal, match=r"no raw copy.*--source kafka"):
        make_plan(LakeStore(world.store), asked("2024-05-03"), world.group, CONTEXT, raw_prefix="elsewhere")


def test_kafka_is_refused_where_it_has_not_all_records_any_more(world: BackfillHarness) -> None:
    kafka = asked("2024-05-02", "2024-05-04", origin="kafka", raw="")
    assert len(world.plan(kafka, log=True).cuts) == 3
    world.memory.truncate("events", 0, 5)
    with pytest.raises(Terminal, match=r"Kafka does not have these records.*\(0, 5\)"):
        world.plan(kafka, log=True)
    world.memory.admin().delete("events")
    world.make("events")
    topic_id = next(world.store.list("by_date/_chain/")).key.split("~")[1].split("/")[0]
    assert topic_id
    with pytest.raises(Terminal, match="another topic of this name"):
        world.plan(kafka, log=True)


def test_a_topic_that_was_made_anew_has_to_be_told_by_its_id(world: BackfillHarness) -> None:
    first = world.topic_key().topic_id
    world.memory.admin().delete("events")
    world.make("events")
    world.events("events", 3, 0)
    world.store_all()
    from include.lake.backfill.planning import LakeStore, make_plan
    from tests.support.lake.backfill_harness import CONTEXT

    with pytest.raises(Terminal, match="which life of the topic"):
        world.plan(asked("2024-05-02", "2024-05-04"))
    found = make_plan(
        LakeStore(world.store),
        asked("2024-05-02", "2024-05-04"),
        world.group,
        CONTEXT,
        raw_prefix="raw",
        topic_id=first,
    )
    assert (found.topic.topic_id, len(found.cuts)) == (first, 3)
    with pytest.raises(Terminal, match="nothing of this topic"):
        make_plan(LakeStore(MemoryStore()), asked(), world.group, CONTEXT, raw_prefix="raw")


def test_a_version_that_begins_in_the_midst_of_a_cut_is_refused_and_named_alone_it_is_taken(
    world: BackfillHarness,
) -> None:
    world.partitioned(group(version(1, "at"), version(2, "made", from_offsets={0: 5})))
    with pytest.raises(Terminal, match=r"begins in the midst of a cut.*--version"):
        world.plan(asked("2024-05-02", version=None))
    assert len(world.plan(asked("2024-05-02")).cuts) == 1


def test_a_parser_is_taken_as_it_was_declared_at_a_time(world: BackfillHarness) -> None:
    then = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    only_first = world.plan(asked("2024-05-03", version=None, as_of=then))
    first = world.plan(asked("2024-05-03", version=1))
    both = world.plan(asked("2024-05-03", version=None))
    assert only_first.configuration == first.configuration != both.configuration
    with pytest.raises(Terminal, match="no parser was declared yet"):
        world.plan(asked("2024-05-03", version=None, as_of=dt.datetime(2025, 1, 1, tzinfo=dt.UTC)))


def test_days_are_those_of_the_zones_that_the_parsers_name() -> None:
    berlin = version(1, "at")
    berlin["parser"]["names"] = [{"by": "day", "zone": "Europe/Berlin"}]
    opaque = version(2, "made", from_offsets={0: 1})
    assert zones_of([group(berlin)], asked()) == {"Europe/Berlin"}
    assert zones_of([group(berlin, opaque)], asked()) == {"Europe/Berlin", "UTC"}
    begin, end = span_ms(days("2024-03-31"), ["Europe/Berlin"])
    assert end - begin == DAY_MS - 3_600_000
    begin, end = span_ms(days("2024-03-31"), ["Europe/Berlin", "UTC"])
    assert end - begin == DAY_MS + 3_600_000


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("day", [dt.date.min, dt.date.max])
def test_the_first_and_the_last_day_of_the_calendar_have_a_span(day: dt.date, name: str) -> None:
    begin, end = span_ms(Days(day, day), [name])
    # A zone's own midnight may lie beyond the calendar of UTC, where it is reckoned as UTC's.
    assert 0 < end - begin <= 2 * DAY_MS


@given(
    st.dates(dt.date(1990, 1, 1), dt.date(2030, 12, 31)),
    st.integers(0, 3),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Asia/Beirut"]),
)
def test_the_span_of_days_has_every_instant_of_them(first: dt.date, more: int, name: str) -> None:
    asked_days = Days(first, first + dt.timedelta(days=more))
    begin, end = span_ms(asked_days, [name])

    def day(ms: int) -> dt.date:
        return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)).astimezone(zone(name)).date()

    assert begin < end or CalendarPeriod(first).end_ms(name) is None
    if begin < end:
        assert day(begin - 1) < first
        assert day(end) > asked_days.last or CalendarPeriod(asked_days.last).end_ms(name) is None
        assert day(end - 1) <= asked_days.last


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=5),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=5),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_missing_offsets_are_those_of_the_gaps_that_the_cut_has_not(
    lost: list[tuple[int, int]], known: list[tuple[int, int]], first: int, length: int
) -> None:
    until = first + length
    inside = [(max(at, first), min(at + n, until)) for at, n in known]
    gaps = tuple(Gap(at, end, "lost") for at, end in inside if at < end)
    cut = Commit(first, until, "0" * 32, 0, 0, 0, None, None, gaps, None, "c", {}, ())
    found = missing_offsets(cut, [(at, at + n) for at, n in lost])
    offsets = {offset for at, end in found for offset in range(at, end)}
    expected = {offset for at, n in lost for offset in range(at, at + n) if first <= offset < until}
    assert offsets == expected - {offset for gap in gaps for offset in range(gap.first, gap.until)}


def test_offsets_are_read_as_they_are_written() -> None:
    assert parse_offsets(["0:5-10", "12:0-1"]) == {0: (5, 10), 12: (0, 1)}
    for wrong in (["0"], ["0:5"], ["a:1-2"], ["0:1-2", "0:3-4"], ["0:-1-2"]):
        with pytest.raises(SettingsError):
            parse_offsets(wrong)


@given(
    st.builds(
        BackfillRequest,
        topic=st.from_regex(r"[a-z.]{1,9}", fullmatch=True),
        since=st.sampled_from(["", "2024-05-01"]),
        until=st.sampled_from(["", "2024-05-02"]),
        offsets=st.sampled_from([(), ("0:5-10",), ("0:5-10", "1:0-3")]),
        version=st.none() | st.integers(1, 9),
        as_of=st.sampled_from(["", "2026-01-01T00:00Z"]),
        source=st.sampled_from(["raw", "kafka"]),
        group=st.sampled_from(["", "by_date"]),
        raw=st.sampled_from(["", "raw"]),
        topic_id=st.sampled_from(["", "q2mG_-A"]),
        run=st.sampled_from(["", "fix-7"]),
    )
)
def test_a_request_reaches_a_program_as_it_was_written(written: BackfillRequest) -> None:
    command = click.command(BackfillRequest.options()(lambda **asked: BackfillRequest(**asked)))
    assert command.main(written.words(), standalone_mode=False) == written


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"days": None}, "dates or of offsets"),
        ({"offsets": {0: (1, 2)}}, "dates or of offsets"),
        ({"as_of": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, "one version"),
        ({"version": None, "as_of": dt.datetime(2026, 1, 1)}, "without its zone"),
        ({"days": None, "offsets": {0: (5, 5)}}, "no range"),
    ],
)
def test_a_request_that_is_none_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        asked("2024-05-01", **more)


@given(st.sampled_from(["raw", "kafka"]), st.none() | st.integers(1, 9), st.booleans())
def test_what_is_asked_is_the_same_when_read_back(origin: Any, number: int | None, by_day: bool) -> None:
    what: dict[str, Any] = {"days": days("2024-05-01")} if by_day else {"offsets": {0: (5, 10), 3: (0, 1)}}
    one = BackfillSelection("g", "t", **what, version=number, origin=origin)
    assert BackfillSelection.from_json(json.loads(json.dumps(one.to_json()))) == one
