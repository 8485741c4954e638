"""Shows the demo: one live screen on a terminal, plain lines elsewhere.

Both take the same calls, so that the demo does not know where it is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from include.clock import Clock

__all__ = ["Figures", "LiveScreen", "PlainScreen", "Screen", "ScreenStage", "screen"]

_PLAIN_EVERY_S = 5.0


@dataclass(frozen=True)
class ScreenStage:
    """A row: a running application, where it stands, how far behind (None: unknown), what it has done."""

    name: str
    state: str
    position: str
    lag_s: float | None
    lag_records: float | None
    done: str


@dataclass(frozen=True)
class Figures:
    """One look at the platform; latencies in seconds from commit in MySQL to being found by a search."""

    placed: int
    orders: int
    documents: int | None
    waiting: int
    p50_s: float | None
    p99_s: float | None
    stages: tuple[ScreenStage, ...] = field(default=())


class Screen(Protocol):
    """The port through which the demo shows itself."""

    def step(self, text: str) -> None:
        """A new step begins; the one before has ended."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def figures(self, figures: Figures) -> None:
        """The newest figures; may be shown less often than called."""

    def close(self) -> None:
        """End the last step and give the terminal back."""


class PlainScreen:
    """Lines for pipes and logs: each step with the time since the start, figures every few seconds."""

    def __init__(self, clock: Clock, write: Callable[[str], None]) -> None:
        self._clock, self._write = clock, write
        self._start_s = clock.monotonic_s()
        self._shown_s = float("-inf")

    def step(self, text: str) -> None:
        """One line."""
        self._line(text)

    def say(self, text: str) -> None:
        """One line."""
        self._line(text)

    def figures(self, figures: Figures) -> None:
        """One line every few seconds."""
        if self._clock.monotonic_s() - self._shown_s < _PLAIN_EVERY_S:
            return
        self._shown_s = self._clock.monotonic_s()
        lags = ", ".join(map(_lag, figures.stages))
        self._line(
            f"orders {figures.placed}/{figures.orders}, documents {_number(figures.documents)}, "
            f"rows not searchable yet {figures.waiting}, p50 {_seconds(figures.p50_s)}, "
            f"p99 {_seconds(figures.p99_s)}" + (f"; {lags}" if lags else "")
        )

    def close(self) -> None:
        """Nothing to give back."""

    def _line(self, text: str) -> None:
        self._write(f"[{self._clock.monotonic_s() - self._start_s:6.1f} s] {text}")


class LiveScreen:
    """The steps so far above a table of the stages, redrawn in place."""

    def __init__(self, clock: Clock, console: Console) -> None:
        self._clock = clock
        self._start_s = clock.monotonic_s()
        self._steps: list[tuple[str, float, float | None]] = []
        self._figures: Figures | None = None
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=4, transient=False)
        self._live.start()

    def step(self, text: str) -> None:
        """A line with its own time, ticking until the next step."""
        self._end_step()
        self._steps.append((text, self._clock.monotonic_s(), None))

    def say(self, text: str) -> None:
        """Above the live part."""
        self._live.console.print(text, highlight=False)

    def figures(self, figures: Figures) -> None:
        """Drawn at the next refresh."""
        self._figures = figures

    def close(self) -> None:
        """Leave the last picture standing."""
        self._end_step()
        self._live.stop()

    def _end_step(self) -> None:
        if self._steps and self._steps[-1][2] is None:
            text, start_s, _ = self._steps[-1]
            self._steps[-1] = (text, start_s, self._clock.monotonic_s())

    def _draw(self) -> Group:
        now_s = self._clock.monotonic_s()
        lines: list[Text | Table | ProgressBar] = []
        for text, start_s, end_s in self._steps:
            line = Text("  ✓ " if end_s is not None else "  … ", style="green" if end_s is not None else "yellow")
            line.append(text, style="default")
            line.append(f"  {(end_s or now_s) - start_s:.1f} s", style="dim")
            lines.append(line)
        if self._figures is not None:
            lines += [Text(""), _table(self._figures), _summary(self._figures)]
            lines.append(ProgressBar(total=max(1, self._figures.orders), completed=self._figures.placed, width=60))
        return Group(*lines)


def screen(clock: Clock, write: Callable[[str], None]) -> Screen:
    """A live screen where there is a terminal with colours, else plain lines."""
    console = Console()
    if console.is_terminal and console.color_system is not None and not console.is_dumb_terminal:
        return LiveScreen(clock, console)
    return PlainScreen(clock, write)


def _table(figures: Figures) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for name, justify in (
        ("stage", "left"),
        ("state", "left"),
        ("position", "left"),
        ("behind", "right"),
        ("waiting", "right"),
        ("done", "left"),
    ):
        table.add_column(name, justify=justify, style="default", header_style="bold")  # type: ignore[arg-type]  # a literal of rich's own
    for stage in figures.stages:
        table.add_row(
            stage.name, stage.state, stage.position, _seconds(stage.lag_s), _number(stage.lag_records), stage.done
        )
    return table


def _summary(figures: Figures) -> Text:
    return Text(
        f"\n  orders {figures.placed}/{figures.orders}   documents {_number(figures.documents)}   "
        f"not searchable yet {figures.waiting}   commit to searchable: p50 {_seconds(figures.p50_s)}, "
        f"p99 {_seconds(figures.p99_s)}",
        style="bold",
    )


def _lag(stage: ScreenStage) -> str:
    return f"{stage.name} {stage.state if stage.lag_s is None else f'{_seconds(stage.lag_s)} behind'}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
