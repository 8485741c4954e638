"""A day is replayed from its savepoint: the same outputs come of it, and what is not the same is found."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest

from include.errors import SettingsError, Terminal, Transient
from include.eventtime.outputs import EVENT_TIME, JobOutput
from include.eventtime.reading import ElementReader
from include.eventtime.rerun.comparison import compared
from include.eventtime.rerun.day import day_to_replay, patient, remove_replay, replayed_day
from include.eventtime.rerun.report import ReplayReport
from include.eventtime.restored import CopiedSpan, MovedSources, RestoredSource
from include.log.access import LogAccess
from include.log.planning.survey import PortSurvey
from include.log.ports import TopicSpec
from include.record import version as versions
from tests.support.log.memory_access import memory_access
from tests.unit.eventtime.driver_harness import APPLICATION, ODD, TOLD, JobDriverHarness, Process

pytestmark = pytest.mark.unit

DAY_US = 15


def day(number: int) -> str:
    return (dt.date(2026, 1, 1) + dt.timedelta(days=number)).isoformat()


@pytest.fixture(autouse=True)
def short_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day has fifteen microseconds."""
    for module in ("runner", "rerun.day"):
        monkeypatch.setattr(f"include.eventtime.{module}.day_of", lambda us: day(max(0, us) // DAY_US))


def lived(seed: int, elements: int = 120) -> tuple[JobDriverHarness, Process]:
    world = JobDriverHarness(seed, elements=elements)
    process = Process(world, total_limit=10)
    while any(world.waiting.values()):
        world.write(world.draw.choice((1, 5, 20)))
        process.to_the_end()
    return world, process


def again(
    world: JobDriverHarness,
    process: Process,
    which: str,
    name: str = "x",
    elsewhere: MovedSources | None = None,
    patience_us: int = 0,
) -> ReplayReport:
    reader, admin = world.log.reader(), world.log.admin()
    access = memory_access(world.log, world.registry, world.clock)
    elsewhere = elsewhere or MovedSources({})
    found = day_to_replay(world.job, reader, which, elsewhere)
    return replayed_day(
        patient(world.job, patience_us),
        found,
        name,
        access,
        PortSurvey(reader, admin),
        lambda _job, _opened: process.carry_out,
        lambda _watermark: None,
        elsewhere,
        patience_us,
    )


def test_each_day_comes_out_as_it_was_and_all_days_together_are_all_outputs() -> None:
    days = outputs = 0
    for seed in range(12):
        world, process = lived(seed)
        savepoints = process.runner.committed.savepoints
        reports = [again(world, process, each, f"{number}") for number, each in enumerate(sorted(savepoints))]
        assert all(report.clean for report in reports), seed
        assert all(before.until == report.after for before, report in itertools.pairwise(reports))
        days, outputs = days + len(reports), outputs + sum(report.comparison.live for report in reports)
    assert days > 30
    assert outputs > 500


def test_a_day_without_a_savepoint_is_replayed_from_the_beginning() -> None:
    world, process = lived(1)
    report = again(world, process, day(0))
    assert report.clean
    assert report.comparison.live > 10
    world.log.truncate(world.history.topics[0], 0, 3)
    with pytest.raises(Terminal, match="a source's beginning is gone"):
        day_to_replay(world.job, world.log.reader(), day(0))


def test_sources_that_are_declared_in_another_order_now_keep_the_one_that_they_had_live() -> None:
    several = 0
    for seed in range(12):
        world, process = lived(seed)
        entry = world.job.entry
        several += len(entry.sources) > 1
        object.__setattr__(world.job, "entry", entry.model_copy(update={"sources": entry.sources[::-1]}))
        assert again(world, process, day(0)).clean, seed
    assert several > 3


def restored(world: JobDriverHarness, process: Process, topic: str) -> RestoredSource:
    """A copy of a topic with other offsets, which `process` can read."""
    target, reader, writer = f"again.{topic}", world.log.reader(), world.log.writer("restore")
    ends = reader.end_offsets(topic)
    world.admin.ensure(TopicSpec(target, len(ends)))
    spans: dict[int, list[CopiedSpan]] = {partition: [] for partition in ends}
    writer.begin()
    for partition, end in ends.items():
        for number, record in enumerate(reader.read(topic, partition, 0, end)):
            spans[partition].append((record.offset, number, 1))
            writer.append(target, record.key, record.value, headers=record.headers, partition=partition)
    writer.commit()
    made = RestoredSource(target, spans)
    rank = world.history.topics.index(topic)
    process.readers[target] = ElementReader(rank, world.job.entry.sources[rank], str, world.registry, made)
    process.bounds[target] = process.bounds[topic]
    return made


def test_offsets_are_taken_to_where_the_records_are_and_back() -> None:
    made = RestoredSource("t", {0: [(5, 0, 3), (10, 3, 2), (12, 8, 1)], 1: []})
    assert [made.now(0, old) for old in range(4, 15)] == [0, 0, 1, 2, 3, 3, 3, 4, 8, 9, 9]
    assert [made.was(0, new) for new in (0, 1, 2, 3, 4, 8)] == [5, 6, 7, 10, 11, 12]
    assert made.now(1, 7) == made.now(2, 7) == 0


def test_days_are_the_same_over_topics_that_were_restored_with_other_offsets() -> None:
    outputs = 0
    for seed in range(6):
        world, process = lived(seed)
        first, *others = world.history.topics
        elsewhere = MovedSources({topic: restored(world, process, topic) for topic in (others or [first])})
        days = [day(0), *sorted(process.runner.committed.savepoints)]
        reports = [again(world, process, each, f"{number}", elsewhere) for number, each in enumerate(days)]
        assert all(report.clean for report in reports), seed
        outputs += sum(report.comparison.live for report in reports)
        plain = [again(world, process, each, f"plain{number}") for number, each in enumerate(days)]
        assert [report.read for report in reports] == [report.read for report in plain]
        # With a verdict at another place than it was decided for, they would be others.
        assert [report.late for report in reports] == [report.late for report in plain]
    assert outputs > 250


def test_who_waits_longer_sees_what_came_too_late_and_how_much_of_the_outputs_that_has_changed() -> None:
    late = fewer = changed = 0
    for seed in range(12):
        world, process = lived(seed)
        live = again(world, process, day(0))
        process.bounds = {topic: (bound or 0) + 20 for topic, bound in process.bounds.items()}
        found = again(world, process, day(0), "patient", patience_us=20)
        assert found.late <= live.late
        assert found.comparison.equal or live.late
        late, fewer = late + live.late, fewer + found.late
        changed += sum(found.comparison.found.values())
    assert fewer < late * 2 / 3
    assert changed > 0


def plant(world: JobDriverHarness, topic: str, number: int) -> int:
    """One output once more under another number; the event time that it says."""
    record = list(world.records(topic))[-5]
    headers = ((versions.HEADER, b"%d" % versions.pack(1, number)), *record.headers[1:])
    writer = world.log.writer("somebody else")
    writer.begin()
    writer.append(topic, record.key, record.value, headers=headers)
    writer.commit()
    return int(dict(record.headers)[EVENT_TIME] or b"")


def test_what_is_not_the_same_is_found_with_its_place() -> None:
    world, process = lived(2)
    time = plant(world, TOLD, 1 << 30)
    savepoints = process.runner.committed.savepoints
    which = max(each for each, savepoint in savepoints.items() if savepoint.watermark < time)
    report = again(world, process, which, "y")
    assert (report.comparison.found, report.clean) == ({"missing": 1}, False)
    first = report.to_json(lambda value: None if value is None else value.hex())["first"]
    assert (first["kind"], first["output"], first["version"]) == ("missing", "told", 1 << 30)
    assert first["replayed"] is None


def test_an_output_that_is_missing_or_another_in_one_of_both_is_told_apart() -> None:
    one, two = JobOutput("told", b"k", b"a", 1, 5), JobOutput("told", b"k", b"b", 2, 4)
    assert compared([one, two], [one, two]).equal
    found = compared([one, two], [one._replace(value=b"z")])
    assert (found.found, found.live, found.replayed) == ({"missing": 1, "altered": 1}, 2, 1)
    assert found.first is not None
    assert (found.first.kind, found.first.version) == ("missing", 2)
    assert compared([], [one]).found == {"extra": 1}


def test_outputs_that_the_broker_does_not_show_yet_are_waited_for_and_are_no_difference() -> None:
    world, process = lived(3)
    world.log.forget((f"{TOLD}.replay-held", 0))
    with pytest.raises(Transient, match="cannot be read yet"):
        again(world, process, day(0), "held")


def test_days_that_nobody_has_come_to_are_refused() -> None:
    world, process = lived(4)
    with pytest.raises(SettingsError, match="has not come to this day"):
        again(world, process, "2027-01-01")
    for text in ("yesterday", "9999-12-31"):
        with pytest.raises(SettingsError, match="not a day"):
            again(world, process, text)


def test_savepoints_are_kept_for_as_long_as_is_declared() -> None:
    world = JobDriverHarness(5, elements=200)
    object.__setattr__(world.job, "entry", world.job.entry.model_copy(update={"savepoints_days": 2}))
    process = Process(world, total_limit=10)
    while any(world.waiting.values()):
        world.write(10)
        process.to_the_end()
    days = sorted(process.runner.committed.savepoints)
    assert len(days) == 2
    assert sorted(Process(world).runner.committed.savepoints) == days


def test_nothing_is_left_of_a_replay_that_is_removed() -> None:
    world, process = lived(6)
    before = set(world.admin.names())
    again(world, process, sorted(process.runner.committed.savepoints)[0], "gone")
    made = set(world.admin.names()) - before
    assert {f"{TOLD}.replay-gone", f"{ODD}.replay-gone"} < made

    class NoStore:
        def list(self, prefix: str) -> list[str]:
            return []

    class Place:
        prefix = "state/x/"

    access = LogAccess(world.registry, world.log.reader(), world.admin, None, None, world.clock)  # type: ignore[arg-type]
    remove_replay(world.job, "gone", access, NoStore(), Place())  # type: ignore[arg-type]
    assert set(world.admin.names()) == before
    assert any(APPLICATION in name for name in before)
