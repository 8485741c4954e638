"""`python -m tests.bench.lake.year`: what the dates of a topic with 1,000 partitions and a year's past cost each hour.

The store is in memory and counts requests; its commits are made up as they are asked for. First everything is read,
as it is where nothing is kept; then hours of six cuts in each partition come, and a run after each. Ends with 1 when a
bound is missed: a run asks for what its hour brought, and for no more than a few objects besides.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from include.clock import ManualClock
from include.lake.finalising.mark import acknowledge, finalise_groups
from include.lake.finalising.report import together
from include.lake.inspect.listing import Dates, list_topic
from tests.support.lake.simulated_topic import GROUP, HOUR_MS, SimulatedTopic

__all__ = ["main"]

_BEGIN_MS = 1_704_067_200_000  # 2024-01-01
_CUTS_AN_HOUR = 6
_LATE_MS = 700_000
# Files of a day's index, marks, pointer, state.
_BESIDES = 80


def main() -> int:
    """Measure; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--cuts", type=int, default=1, help="of a partition in each past day")
    parser.add_argument("--hours", type=int, default=24, help="that come then")
    told = parser.parse_args()
    partitions: int = told.partitions
    step = 24 * HOUR_MS // told.cuts
    topic = SimulatedTopic(partitions, [_BEGIN_MS + (number + 1) * step for number in range(told.days * told.cuts)])
    _measured(topic, "everything is read, as nothing is kept", lambda: _run(topic))
    _measured(topic, "a run behind that", lambda: _run(topic))
    held = True
    for hour in range(told.hours):
        begin = topic.ends_ms[-1]
        topic.ends_ms += [begin + (number + 1) * HOUR_MS // _CUTS_AN_HOUR for number in range(_CUTS_AN_HOUR)]
        took = _measured(topic, f"hour {hour + 1}: {_CUTS_AN_HOUR * partitions:,} cuts", lambda: _run(topic))
        held &= took.get("GET", 0) <= _CUTS_AN_HOUR * partitions + _BESIDES
        held &= took.get("LIST", 0) <= 2 * partitions + _BESIDES
        held &= took.get("HEAD", 0) <= partitions
        held &= took.get("PUT", 0) <= _BESIDES
    day = dt.date(2024, 1, 1) + dt.timedelta(days=told.days // 2)
    took = _measured(topic, f"lake files of {day}", lambda: list_topic(topic, "dates", "events", Dates(day, day)))
    held &= took["GET"] <= _BESIDES
    print("held" if held else "a bound is missed")
    return 0 if held else 1


def _run(topic: SimulatedTopic) -> None:
    clock = ManualClock((topic.ends_ms[-1] + _LATE_MS) * 1000)
    log: Any = topic
    reports = list(finalise_groups(topic, log, {"dates": GROUP}, clock))
    if any(each.error for each in reports):
        raise RuntimeError(reports[0].error)
    acknowledge(topic, together(reports))


def _measured(topic: SimulatedTopic, what: str, do: Callable[[], Any]) -> Mapping[str, int]:
    topic.took()
    begin = time.perf_counter()
    do()
    seconds, took = time.perf_counter() - begin, topic.took()
    print(f"{what}: {', '.join(f'{number:,} {kind}' for kind, number in took.items())}; {seconds:.1f} s", flush=True)
    return took


if __name__ == "__main__":
    sys.exit(main())
