"""Whatever the speeds of partitions, the batches and the crashes: one output. Ways that others went give several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from include.eventtime.algorithm.calls import Calls, Emitted, FailedCall
from include.eventtime.algorithm.kept import KeptState
from include.eventtime.algorithm.order import ArrivedElement, key_of
from include.eventtime.algorithm.watermark import NEVER, PartitionWatermark, TopicPartition
from tests.support.eventtime.histories import History, Item, Run, expected

pytestmark = pytest.mark.unit

INTERLEAVINGS = 4


def wrong(histories: int, way: Callable[[History, int], Run] = Run, interleavings: int = INTERLEAVINGS) -> list[int]:
    """The seeds of those histories that some interleaving gives other outputs or late elements for."""
    found = []
    for seed in range(histories):
        history = History(seed)
        outputs, late = expected(history)
        for order in range(interleavings):
            run = way(history, seed * interleavings + order)
            run.to_the_end()
            if (run.outputs, run.late) != (outputs, late):
                found.append(seed)
                break
    return found


@pytest.mark.timeout(60)
def test_every_interleaving_and_every_cut_gives_the_one_output() -> None:
    assert wrong(600) == []


def test_histories_have_late_elements_outputs_and_timers_left() -> None:
    late, outputs, timers = 0, 0, 0
    for seed in range(50):
        run = Run(History(seed), seed)
        for batch in run.batches():
            run.take(batch)
        timers += sum(len(kept.timers) for _, kept in run.kept())
        late += len(run.late)
        outputs += sum(map(len, run.outputs.values()))
    assert late > 50
    assert outputs > 1000
    assert timers > 20


def test_a_bucket_is_opened_for_elements_and_what_is_due_only() -> None:
    history = History(1, elements=200)
    run = Run(history, 1, buckets=8)
    batches = [*run.batches()]
    for batch in batches:
        run.take(batch)
    assert run.opened < len(batches) * 8 // 2


class TimersAfterRows(Run):
    """As Spark's own timers: the rows of a batch first, then the timers that have come due."""

    def __init__(self, history: History, seed: int) -> None:
        super().__init__(history, seed)
        self.calls = _RowsFirst(self.calls._process, history.topics)


class _RowsFirst(Calls):
    def advance(
        self, kept: KeptState, key: bytes, elements: Sequence[ArrivedElement], until: int
    ) -> tuple[list[Emitted], list[FailedCall]]:
        emitted: list[Emitted] = []
        failed: list[FailedCall] = []
        for element in elements:
            self._on_element(kept, key_of(key), element, emitted, failed)
        more, others = super().advance(kept, key, [], until)
        return emitted + more, failed + others


class Maximum(Run):
    """The watermark of the partition that is ahead."""

    def together(self) -> int:
        return max(self.lows.values(), default=NEVER)


class AfterTheMerge(Run):
    """One watermark over all partitions, taken behind the place where they come together."""

    def take(self, batch: Sequence[Item]) -> None:
        watermark = PartitionWatermark(self.watermark, self.history.bound)
        arrived = []
        for item in batch:
            if item.value is None:
                continue
            if watermark.late(item.offset, item.time):
                self.late.add((item.place, item.offset))
            else:
                arrived.append(self.arrived(item))
        self.advance(arrived, watermark.low)


class NoTieBreak(Run):
    """Elements of one time in the order of their arrival."""

    def __init__(self, history: History, seed: int) -> None:
        super().__init__(history, seed)
        self.calls = self.as_arrived = _AsArrived(self.calls._process, history.topics)

    def arrived(self, item: Item) -> ArrivedElement:
        found = super().arrived(item)
        self.as_arrived.numbers[found[1:4]] = len(self.as_arrived.numbers)
        return found


class _AsArrived(Calls):
    def __init__(self, *of: object) -> None:
        super().__init__(*of)  # type: ignore[arg-type]
        self.numbers: dict[tuple[int, ...], int] = {}

    def advance(
        self, kept: KeptState, key: bytes, elements: Sequence[ArrivedElement], until: int
    ) -> tuple[list[Emitted], list[FailedCall]]:
        arrived = sorted(elements, key=lambda each: (each.time, self.numbers[each[1:4]]))
        return super().advance(kept, key, arrived, until)


class WallClock(Run):
    """A partition that brought nothing for a while of the wall clock holds nobody up, and nobody wrote that down."""

    def take(self, batch: Sequence[Item]) -> None:
        self._active = {item.place for item in batch}
        super().take(batch)

    def together(self) -> int:
        return min((self.lows[place] for place in self._active), default=NEVER)


class ShortWindows(Run):
    """Elements wait in short windows of event time; timers are called when a window is over."""

    WINDOW = 4

    def __init__(self, history: History, seed: int) -> None:
        super().__init__(history, seed)
        self.calls = _RowsFirst(self.calls._process, history.topics)
        self._waiting: list[ArrivedElement] = []

    def advance(self, arrived: Sequence[ArrivedElement], until: int) -> None:
        self._waiting += arrived
        while self._waiting:
            window = min(each.time for each in self._waiting) // self.WINDOW
            end = (window + 1) * self.WINDOW - 1
            if end > until:
                break
            super().advance([each for each in self._waiting if each.time <= end], max(end, self.watermark))
            self._waiting = [each for each in self._waiting if each.time > end]
        super().advance([], max(until // self.WINDOW * self.WINDOW - 1, self.watermark))


class EveryWhile(Run):
    """A watermark is taken every while of reading: what comes in between is judged by the last one."""

    def read(self, place: TopicPartition, items: Sequence[Item]) -> list[ArrivedElement]:
        low, found = self.lows[place], []
        for item in items:
            if item.value is None:
                self.lows[place] = max(self.lows[place], item.time)
            elif item.time <= low:
                self.late.add((place, item.offset))
            else:
                found.append(self.arrived(item))
                self.lows[place] = max(self.lows[place], item.time - self.history.bound - 1)
        return found


@pytest.mark.parametrize(
    "way", [TimersAfterRows, Maximum, AfterTheMerge, NoTieBreak, WallClock, ShortWindows, EveryWhile]
)
def test_what_others_do_gives_wrong_outputs(way: Callable[[History, int], Run]) -> None:
    histories = 60
    assert len(wrong(histories, way)) > histories // 5
