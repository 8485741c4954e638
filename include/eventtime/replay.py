"""A job over a file of elements, without topics, registry and Spark: users' own tests of their jobs.

One JSON object a line, in the order of arrival:

```
{"partition": 0, "offset": 7, "key": "a", "time": "2026-11-02T17:30:15Z", "value": {…}}
{"idle": {"partition": 1, "next_offset": 3, "time": "2026-11-02T17:31:00Z"}}
```
A time is ISO 8601 (without a zone UTC) or milliseconds since 1970. `source` names the topic where a job has several;
elements of one time come by the topics' names. The algorithm is the platform's own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import orjson
from pydantic import Field, ValidationError

from include.errors import SettingsError
from include.eventtime.algorithm.bucket import drain
from include.eventtime.algorithm.calls import Calls, Emitted, FailedCall
from include.eventtime.algorithm.order import ArrivedElement, key_text
from include.eventtime.algorithm.watermark import NEVER, PartitionWatermark, TopicPartition, least
from include.eventtime.model.process import Key, Process
from include.settings.deployment import Strict
from include.state.reading import MemoryRows

__all__ = [
    "EPOCH",
    "MICROSECOND",
    "ElementLine",
    "IdleNotice",
    "JobReplay",
    "LateElement",
    "ReplayLine",
    "interleaved",
    "read_lines",
    "replay",
    "require_keys",
    "require_rounds",
]

_SOURCE: Final = "input"
_ROUNDS: Final = 1_000
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND: Final = dt.timedelta(microseconds=1)


class ElementLine(Strict):
    """A line with an element."""

    source: str = Field(default=_SOURCE, min_length=1, description="the topic")
    partition: int = Field(ge=0, lt=1 << 31)
    offset: int = Field(ge=0)
    key: Key
    time: int | str = Field(description="ISO 8601, or milliseconds since 1970")
    value: dict[str, Any]


class IdleNotice(Strict):
    """What is said of a partition without a record: from `next_offset` on its watermark is at least `time`."""

    source: str = Field(default=_SOURCE, min_length=1, description="the topic")
    partition: int = Field(ge=0, lt=1 << 31)
    next_offset: int = Field(ge=0)
    time: int | str = Field(description="as that of an element")


class _IdleLine(Strict):
    idle: IdleNotice


@dataclass(frozen=True)
class ReplayLine:
    """A line: `said`, and its time in µs."""

    number: int
    said: ElementLine | IdleNotice
    time: int

    @property
    def place(self) -> TopicPartition:
        """The partition that it is of."""
        return self.said.source, self.said.partition

    @property
    def reaches(self) -> int:
        """The offset up to which its partition has been read, before an element."""
        return self.said.offset if isinstance(self.said, ElementLine) else self.said.next_offset


@dataclass(frozen=True)
class LateElement:
    """An element that came when the watermark of its partition had reached its time."""

    line: ReplayLine
    watermark: int


@dataclass
class JobReplay:
    """What a replay made: outputs in order, what was late or failed, and how far the watermark came (µs)."""

    emitted: list[Emitted] = field(default_factory=list)
    late: list[LateElement] = field(default_factory=list)
    failed: list[FailedCall] = field(default_factory=list)
    watermark: int = NEVER


def read_lines(file: Path) -> list[ReplayLine]:
    """The lines of a file.

    Raises:
        SettingsError: with file and line, for what is no such line, and offsets of a partition that do not rise.
    """
    try:
        texts = file.read_bytes().splitlines()
    except OSError as error:
        raise SettingsError("cannot read the elements", file=str(file), reason=str(error)) from error
    lines: list[ReplayLine] = []
    reached: dict[TopicPartition, int] = {}
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = _line(number, orjson.loads(text))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise SettingsError("not a line", file=str(file), line=number, path=where, reason=first["msg"]) from error
        except ValueError as error:
            raise SettingsError("not a line", file=str(file), line=number, reason=str(error)) from error
        if line.reaches < reached.get(line.place, 0):
            raise SettingsError(
                "offsets of a partition rise", file=str(file), line=number, got=line.reaches, partition=line.place[1]
            )
        reached[line.place] = line.reaches + isinstance(line.said, ElementLine)
        lines.append(line)
    return lines


def interleaved(lines: Sequence[ReplayLine], seed: int) -> list[ReplayLine]:
    """The same lines as they may arrive just as well: each partition's in its order; one seed gives one order."""
    mixed = Random(seed)  # noqa: S311 - an order, no secret
    waiting: dict[TopicPartition, list[ReplayLine]] = {}
    for line in reversed(lines):
        waiting.setdefault(line.place, []).append(line)
    arriving = []
    while waiting:
        place = mixed.choice(sorted(waiting))
        arriving.append(waiting[place].pop())
        if not waiting[place]:
            del waiting[place]
    return arriving


def replay(
    process: Process[Any],
    lines: Sequence[ReplayLine],
    *,
    bound_us: int,
    batch: int = 1,
    ideal: bool = False,
    open_end: bool = False,
    fire_all: bool = False,
) -> JobReplay:
    """Run a job over these lines.

    Args:
        process: the job.
        lines: in the order of arrival.
        bound_us: how much earlier than the greatest time before it in its partition an element may be.
        batch: lines of a batch.
        ideal: nothing is late, whatever the bound and verdicts say: all elements come in the order of time.
        open_end: the watermark stands where the lines brought it; else in the end it is at the greatest time.
        fire_all: timers after the end are called too.

    Raises:
        SettingsError: a key has not the process's type, or (`fire_all`) timers set others for ever.
    """
    require_keys(process, lines)
    sources = {name: rank for rank, name in enumerate(sorted({line.said.source for line in lines}))}
    if ideal:
        lines = [line for line in lines if isinstance(line.said, ElementLine)]
    bound = None if ideal else bound_us
    run = _Run(process, list(sources), {line.place: PartitionWatermark(NEVER, bound) for line in lines})
    for start in range(0, len(lines), batch):
        run.take([run.arrived(line, sources) for line in lines[start : start + batch]])
    if not open_end:
        run.advance([], max((line.time for line in lines), default=NEVER))
    if fire_all:
        run.fire_all()
    return run.done


def require_keys(process: Process[Any], lines: Iterable[ReplayLine]) -> None:
    """Raises `SettingsError` for the first line whose key has another type than the process's."""
    for line in lines:
        if isinstance(line.said, ElementLine) and type(line.said.key) is not process.key:
            allowed = process.key.__name__
            raise SettingsError("a key is not of the job's type", line=line.number, got=line.said.key, allowed=allowed)


def require_rounds(rounds: int) -> int:
    """One round of timers more; raises `SettingsError` where they never end."""
    if rounds == _ROUNDS:
        raise SettingsError(
            "the job's timers set timers for ever", rounds=_ROUNDS, fix="Leave `--drain` out for this job."
        )
    return rounds + 1


class _Run:
    def __init__(
        self, process: Process[Any], topics: Sequence[str], watermarks: Mapping[TopicPartition, PartitionWatermark]
    ) -> None:
        self._process, self._watermarks = process, watermarks
        self._calls, self._rows = Calls(process, topics), MemoryRows()
        self._due: int | None = None
        self.done = JobReplay()

    def arrived(self, line: ReplayLine, sources: Mapping[str, int]) -> ArrivedElement | None:
        """The element of a line, in the order of arrival; None for what is late, and for verdicts."""
        watermark, said = self._watermarks[line.place], line.said
        if isinstance(said, IdleNotice):
            watermark.low = max(watermark.low, line.time)
            return None
        low = watermark.low
        if watermark.late(said.offset, line.time):
            self.done.late.append(LateElement(line, low))
            return None
        value = orjson.dumps(said.value)
        return ArrivedElement(line.time, sources[said.source], said.partition, said.offset, key_text(said.key), value)

    def take(self, arrived: Iterable[ArrivedElement | None]) -> None:
        """A batch."""
        elements = [each for each in arrived if each is not None]
        self.advance(elements, least(each.low for each in self._watermarks.values()))

    def advance(self, elements: list[ArrivedElement], until: int) -> None:
        """Bring all keys to a watermark; one that is behind what was reached changes nothing."""
        until = self.done.watermark = max(until, self.done.watermark)
        made = drain(self._calls, self._rows, elements, until)
        self._rows.take(made.rows)
        self._due = made.due
        self.done.emitted += sorted(made.emitted, key=lambda each: (each.moment, each.version))
        self.done.failed += sorted(made.failed, key=lambda each: each.moment)

    def fire_all(self) -> None:
        """Go on to each time at which something is due, until nothing is."""
        rounds = 0
        while self._due is not None:
            rounds = require_rounds(rounds)
            self.advance([], self._due)


def _line(number: int, said: Any) -> ReplayLine:
    if isinstance(said, dict) and "idle" in said:
        parsed: ElementLine | IdleNotice = _IdleLine.model_validate(said).idle
    else:
        parsed = ElementLine.model_validate(said)
    return ReplayLine(number, parsed, _time(parsed.time))


def _time(said: int | str) -> int:
    if isinstance(said, int):
        return said * 1_000
    moment = dt.datetime.fromisoformat(said)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - EPOCH) // MICROSECOND
