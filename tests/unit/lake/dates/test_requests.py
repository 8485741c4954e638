"""What a run over the dates of a topic asks of the store: what the hour brought, however long the topic's past is."""

from __future__ import annotations

import datetime as dt

import pytest

from include.clock import ManualClock
from include.lake.finalising.mark import acknowledge, finalise_groups
from include.lake.finalising.report import TopicReport, together
from include.lake.inspect.listing import Dates, list_topic
from tests.support.lake.simulated_topic import GROUP, HOUR_MS, SimulatedTopic

PARTITIONS = 3
MIDNIGHT_MS = 1_714_521_600_000  # 2024-05-01


def hour(topic: SimulatedTopic, cuts: int = 6) -> int:
    """Another hour of all partitions; gives its end."""
    begin = topic.ends_ms[-1]
    topic.ends_ms += [begin + (number + 1) * HOUR_MS // cuts for number in range(cuts)]
    return topic.ends_ms[-1]


def run(topic: SimulatedTopic, now_ms: int) -> TopicReport:
    (report,) = finalise_groups(topic, topic, {"dates": GROUP}, ManualClock(now_ms * 1000))
    assert report.error == ""
    acknowledge(topic, together([report]))
    return report


@pytest.mark.parametrize("past_days", [2, 40])
def test_an_hourly_run_costs_what_the_hour_brought_however_long_the_past_is(past_days: int) -> None:
    ends = [MIDNIGHT_MS + (number + 1) * HOUR_MS for number in range(past_days * 24)]
    topic = SimulatedTopic(PARTITIONS, ends)
    now_ms = ends[-1] + 700_000
    assert len(run(topic, now_ms).dates) == 25 * past_days
    run(topic, now_ms)
    topic.took()
    # Nothing came: that it is so is asked of each partition, and of the end of the listing of partitions.
    run(topic, now_ms)
    nothing = topic.took()
    assert nothing == {"GET": 2, "LIST": 2 * PARTITIONS + 5}
    for number in range(3):
        report = run(topic, hour(topic) + 700_000)
        assert [date.folder[-5:] for date in report.dates] == [f"hr={number:02d}"]
        took = topic.took()
        # Six cuts of each; the day's files of the index and the marks of its open folders; and two more to acknowledge.
        assert took["LIST"] == nothing["LIST"]
        assert took["GET"] <= 2 + 6 * PARTITIONS + (number + 1) + 2 + 2
        assert took["HEAD"] == PARTITIONS
        # A file of the index, its state, _SUCCESS twice, and once the dates that are settled.
        assert took["PUT"] <= 5


@pytest.mark.parametrize("past_days", [2, 40])
def test_files_of_a_date_cost_what_is_of_that_date(past_days: int) -> None:
    ends = [MIDNIGHT_MS + (number + 1) * HOUR_MS for number in range(past_days * 24)]
    topic = SimulatedTopic(PARTITIONS, ends)
    run(topic, ends[-1] + 700_000)
    hour(topic)
    topic.took()
    day = dt.date(2024, 5, 2)
    assert len(list_topic(topic, "dates", "events", Dates(day, day))) == 24 * PARTITIONS
    # Pointer, state, one file of the index; and the cuts of the hour that no run has seen yet.
    assert topic.took() == {"GET": 3 + 6 * PARTITIONS, "LIST": 2 * PARTITIONS + 3, "HEAD": PARTITIONS}
