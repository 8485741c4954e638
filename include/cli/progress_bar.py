"""Shows on stderr how far a long work is: a bar on a terminal, else a line now and then, nothing beside JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from typing_extensions import override

from include.cli.table import duration
from include.clock import Clock, SystemClock

__all__ = ["LogLines", "ProgressBar", "progress_bar"]

_LINE_EVERY_S: Final = 10.0


class ProgressBar(Protocol):
    """Hears how far it is."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Another part begins, of so many steps where that is known."""

    def advance(self, steps: int = 1) -> None:
        """So many steps more are done."""

    def reach(self, done: int, total: int | None = None, what: str = "") -> None:
        """So many steps of the part are done, of so many in all as is known by now; `what`: its new name."""


@contextmanager
def progress_bar(
    what: str, total: int | None = None, *, unit: str = "", quiet: bool = False, estimated: bool = False
) -> Iterator[ProgressBar]:
    """Show one work for as long as the context is open.

    Args:
        what: is done; stands in front.
        total: steps of its first part; None: not known.
        unit: of the steps, in the plural; `bytes` are shown as such.
        quiet: show nothing.
        estimated: totals are estimates.
    """
    if quiet:
        yield _Silent()
    elif not sys.stderr.isatty():
        lines = LogLines(SystemClock(), unit=unit, estimated=estimated)
        lines.begin(what, total)
        yield lines
    else:
        from rich import progress as bars
        from rich.console import Console

        size = (
            (bars.DownloadColumn(), bars.TransferSpeedColumn())
            if unit == "bytes"
            else (_steps(f" {unit}" if unit else ""),)
        )
        columns: tuple[Any, ...] = (bars.TextColumn("{task.description}"), bars.BarColumn(), *size)
        left = (bars.TimeRemainingColumn(), bars.TextColumn("left"))
        with bars.Progress(*columns, *left, console=Console(stderr=True), transient=True) as shown:
            yield _Bar(shown, what, total)


class _Silent(ProgressBar):
    @override
    def begin(self, what: str, total: int | None = None) -> None:
        pass

    @override
    def advance(self, steps: int = 1) -> None:
        pass

    @override
    def reach(self, done: int, total: int | None = None, what: str = "") -> None:
        pass


def _steps(unit: str) -> Any:
    """A column: how many steps of how many, and how many a second."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Steps(ProgressColumn):
        @override
        def render(self, task: Any) -> Text:
            of_all = f"/{int(task.total):,}" if task.total is not None else ""
            rate = f"{task.speed:,.0f}" if task.speed else "-"
            return Text(f"{int(task.completed):,}{of_all}{unit}, {rate}{unit}/s,")

    return Steps()


class _Bar(ProgressBar):
    def __init__(self, shown: Any, what: str, total: int | None) -> None:
        self._shown = shown
        self._task = shown.add_task(what, total=total)

    @override
    def begin(self, what: str, total: int | None = None) -> None:
        self._shown.reset(self._task, description=what, total=total)

    @override
    def advance(self, steps: int = 1) -> None:
        self._shown.advance(self._task, steps)

    @override
    def reach(self, done: int, total: int | None = None, what: str = "") -> None:
        named = {"description": what} if what else {}
        self._shown.update(self._task, completed=done, **({"total": max(total, done)} if total else {}), **named)


class LogLines(ProgressBar):
    """A plain line every ten seconds, as in a task's log."""

    def __init__(self, clock: Clock, *, unit: str = "", estimated: bool = False) -> None:
        self._clock, self._unit, self._about = clock, f" {unit}" if unit else "", "about " if estimated else ""
        self._next_s = clock.monotonic_s() + _LINE_EVERY_S
        self._last = clock.monotonic_s(), 0
        self._what, self._done = "", 0
        self._total: int | None = None

    @override
    def begin(self, what: str, total: int | None = None) -> None:
        self._what, self._done, self._total = what, 0, total
        self._last = self._clock.monotonic_s(), 0

    @override
    def advance(self, steps: int = 1) -> None:
        self.reach(self._done + steps)

    @override
    def reach(self, done: int, total: int | None = None, what: str = "") -> None:
        self._done, self._total, self._what = done, total or self._total, what or self._what
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _LINE_EVERY_S
        since_s, before = self._last
        self._last = now_s, done
        rate = (done - before) / max(now_s - since_s, 1e-9)
        of_all = f" of {self._about}{self._total:,}" if self._total else ""
        left = max(0, self._total - done) / rate if self._total and rate > 0 else None
        ends = f", about {duration(left)} left" if left is not None else ""
        sys.stderr.write(f"{self._what}: {done:,}{of_all}{self._unit}, {rate:,.0f}{self._unit}/s{ends}\n")
