"""A file of elements goes through topics, buckets and transactions and gives what it gives without them."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from include.clock import ManualClock
from include.errors import SettingsError
from include.eventtime.algorithm.calls import Calls
from include.eventtime.algorithm.order import key_text
from include.eventtime.config.definition import DeployedJob
from include.eventtime.model.process import Context, Element, Process
from include.eventtime.opening import OpenedJob
from include.eventtime.outputs import OutputWriter
from include.eventtime.reading import ElementReader
from include.eventtime.replay import ElementLine, IdleNotice, JobReplay, ReplayLine, replay
from include.eventtime.rerun.file import file_job, replayed_file, written
from include.eventtime.work import CarryOutBuckets
from include.log.memory import MemoryLog
from include.log.planning.survey import PortSurvey
from include.log.registry.memory import MemoryRegistry
from tests.support.eventtime.histories import Everything, History, Told
from tests.support.log.memory_access import memory_access
from tests.unit.eventtime.driver_harness import States, work_done

pytestmark = pytest.mark.unit


class Platform:
    """A log, a registry and states in memory, which a file goes through."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log, self.registry = MemoryLog(self.clock), MemoryRegistry()
        self.access = memory_access(self.log, self.registry, self.clock)

    def replay(
        self, process: Process[Any], lines: Sequence[ReplayLine], *, bound_us: int, batch: int = 7, **how: bool
    ) -> JobReplay:
        job = file_job(process, lines, bound_us=bound_us, batch=batch, ideal=how.get("ideal", False))
        elsewhere, states = written(lines, self.access), States()

        def equip(again: DeployedJob, opened: OpenedJob) -> CarryOutBuckets:
            read = elsewhere.declared(job)
            ranked = [(rank, topic, *read[topic]) for rank, topic in enumerate(opened.runner.topics)]
            return functools.partial(
                work_done,
                self.log,
                states,
                again.entry.buckets,
                {each[1]: ElementReader(each[0], each[2], process.key, self.registry, each[3]) for each in ranked},
                {topic: source.bound_us for _, topic, source, _ in ranked},
                Calls(process, [source.topic for _, _, source, _ in ranked]),
                OutputWriter(process, "key", opened.ids),
            )

        survey = PortSurvey(self.log.reader(), self.log.admin())
        return replayed_file(job, lines, elsewhere, self.access, survey, equip, lambda _: None, **how)


def lines_of(history: History) -> list[ReplayLine]:
    """A history as a file has it, partitions as they come."""
    draw, waiting = random.Random(1), {place: list(items) for place, items in history.partitions.items() if items}
    lines: list[ReplayLine] = []
    while waiting:
        place = draw.choice(sorted(waiting))
        item = waiting[place].pop(0)
        if not waiting[place]:
            del waiting[place]
        if item.value is None:
            said: ElementLine | IdleNotice = IdleNotice(
                source=place[0], partition=place[1], next_offset=item.offset, time=0
            )
        else:
            said = ElementLine(
                source=place[0], partition=place[1], offset=item.offset, key=item.key, time=0, value=item.value
            )
        lines.append(ReplayLine(len(lines) + 1, said, item.time))
    return lines


def shown(made: JobReplay) -> dict[str, Any]:
    return {
        "outputs": sorted(
            (each.moment.time, key_text(each.key), each.version, each.output, repr(each.value)) for each in made.emitted
        ),
        "late": sorted((each.line.number, each.watermark) for each in made.late),
        "failed": sorted(
            (each.moment, each.key, each.element and each.element[:5], each.reason) for each in made.failed
        ),
        "watermark": made.watermark,
    }


@pytest.mark.parametrize("how", [{}, {"open_end": True}, {"ideal": True}, {"fire_all": True}], ids=str)
def test_a_file_gives_the_same_through_topics_and_transactions(how: dict[str, bool]) -> None:
    outputs = late = failed = 0
    for seed in range(12):
        history = History(seed)
        lines = lines_of(history)
        plain = replay(Everything(None), lines, bound_us=history.bound, **how)
        made = Platform().replay(Everything(None), lines, bound_us=history.bound, batch=1 + seed, **how)
        found, expected = shown(made), shown(plain)
        if "fire_all" in how:
            # The last rounds look for timers that are not set any more, each engine for others.
            del found["watermark"], expected["watermark"]
        assert found == expected, seed
        outputs, late, failed = outputs + len(plain.emitted), late + len(plain.late), failed + len(plain.failed)
    assert outputs > 300
    assert failed > 5
    assert (late > 10) != bool(how.get("ideal"))


class Ticks(Process[Any]):
    """Timers that never end."""

    outputs: ClassVar = {"told": Told}

    def on_element(self, element: Element, ctx: Context[Any]) -> None:
        ctx.set_timer("tick", element.time)

    def on_timer(self, name: str, time: int, ctx: Context[Any]) -> None:
        ctx.set_timer("tick", time + 1)


def test_timers_that_set_others_for_ever_and_keys_of_another_type_are_refused() -> None:
    line = ReplayLine(1, ElementLine(partition=0, offset=0, key="a", time=0, value={}), 5)
    with pytest.raises(SettingsError, match="timers for ever"):
        Platform().replay(Ticks(None), [line], bound_us=0, fire_all=True)
    number = ReplayLine(1, ElementLine(partition=0, offset=0, key=7, time=0, value={}), 5)
    with pytest.raises(SettingsError, match="not of the job's type"):
        Platform().replay(Everything(None), [number], bound_us=0)


def test_a_partition_of_which_there_is_but_a_verdict_counts() -> None:
    value = {"timer": "x", "after": 1, "fails": ""}
    lines = [
        ReplayLine(1, ElementLine(partition=0, offset=4, key="a", time=0, value=value), 5),
        ReplayLine(2, ElementLine(partition=0, offset=9, key="a", time=0, value=value), 30),
        ReplayLine(3, IdleNotice(partition=2, next_offset=7, time=0), 10),
    ]
    plain = replay(Everything(None), lines, bound_us=2, open_end=True)
    assert shown(Platform().replay(Everything(None), lines, bound_us=2, open_end=True)) == shown(plain)
    assert (len(plain.emitted), plain.watermark) == (2, 10)
    alone = Platform().replay(Everything(None), lines[2:], bound_us=2)
    assert (alone.emitted, alone.watermark) == ([], 10)
