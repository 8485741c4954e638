"""Dark launch over two stores in memory, the new one behind the old by what it has not applied."""

from __future__ import annotations

import dataclasses
import json
import random
import threading
from typing import Any

import pytest

from include.clock import ManualClock, SystemClock, iso
from include.errors import SettingsError, Transient
from include.metrics.exporter import Metrics
from include.record.position import SourcePosition
from include.search.dark_launch.compare import AnswerDifference, ComparisonRules, Listing
from include.search.dark_launch.launch import DarkLaunch, Limits, Question, Stores
from include.search.dark_launch.page import dark_page
from include.search.dark_launch.report import DarkReport
from tests.unit.search.test_fresh import position

ALL = Limits(sample=1.0, queued=10, deadline_s=5)
ASK = Question("user", "7", 20)


class Clock(ManualClock):
    """Lets things happen while somebody sleeps."""

    def __init__(self) -> None:
        super().__init__(1_000_000)
        self.events: list[tuple[float, Any]] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        due = [event for event in self.events if event[0] <= self.monotonic_s()]
        self.events = [event for event in self.events if event not in due]
        for _, act in due:
            act()


class Harness:
    """The old store has all commits (id, price), the new one those up to `applied`; `planted` changes what it shows."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.commits: list[tuple[str, str | None]] = [(str(n), "1.00") for n in range(1, 6)]
        self.applied = 5
        self.planted: dict[str, str | None] = {}
        self.shuffled = False
        self.tells = True
        self.old_down = False
        self.down = False
        self.asked_new = 0

    def dark(self, limits: Limits = ALL, metrics: Metrics | None = None) -> DarkLaunch:
        stores = Stores(self.old, self.new, self.old_position, lambda: position(self.applied))
        return DarkLaunch(stores, ComparisonRules("at"), self.clock, limits, metrics, random.Random(1))

    def old(self, question: Question) -> Listing:
        return self._listing(dict(self.commits), question)

    def new(self, question: Question) -> Listing:
        self.asked_new += 1
        if self.down:
            raise Transient("away", system="elasticsearch")
        found = self._listing({**dict(self.commits[: self.applied]), **self.planted}, question)
        return Listing(tuple(reversed(found.documents)), found.size) if self.shuffled else found

    def old_position(self) -> SourcePosition | None:
        if self.old_down:
            raise Transient("away", system="mysql")
        return position(len(self.commits)) if self.tells else None

    def catch_up(self) -> None:
        self.applied = len(self.commits)

    def _listing(self, state: dict[str, str | None], question: Question) -> Listing:
        living = sorted(((i, p) for i, p in state.items() if p is not None), key=lambda each: -int(each[0]))
        return Listing(
            tuple((i, {"at": iso(int(i) * 1_000_000), "price": p}) for i, p in living[: question.size]), question.size
        )

    def run(self, dark: DarkLaunch) -> DarkReport:
        answer = dark.ask(ASK)
        assert answer == self.old(ASK)
        assert self.asked_new == 0, "the new store is never asked on the caller's path"
        return dark.close()


@pytest.fixture
def world() -> Harness:
    return Harness()


def test_equal_answers_are_told_by_one_question(world: Harness) -> None:
    report = world.run(world.dark())
    assert (dict(report.outcomes), world.asked_new) == ({"equal": 1}, 1)


def test_what_comes_equal_once_the_position_is_reached_is_lag(world: Harness) -> None:
    world.commits.append(("6", "1.00"))
    world.clock.events.append((2.0, world.catch_up))
    report = world.run(world.dark())
    assert dict(report.outcomes) == {"lag": 1}
    assert 2.0 <= report.longest_lag_s < 2.5
    assert not report.found


@pytest.mark.parametrize(
    ("plant", "name"),
    [({"3": None}, "missing"), ({"9": "1.00"}, "extra"), ({"3": "1.01"}, "field price")],
)
def test_planted_differences_are_found_and_named_although_the_store_lags_too(
    world: Harness, plant: dict[str, str | None], name: str
) -> None:
    world.commits.append(("6", "1.00"))
    world.clock.events.append((1.0, world.catch_up))
    world.planted = plant
    report = world.run(world.dark())
    assert (dict(report.outcomes), dict(report.found)) == ({"differs": 1}, {name: 1})
    assert [each.doc_id for each in report.examples] == list(plant)


def test_another_order_is_found(world: Harness) -> None:
    world.shuffled = True
    assert dict(world.run(world.dark()).found) == {"order": 1}


def test_an_order_that_changes_while_it_is_compared_gives_no_false_difference(world: Harness) -> None:
    world.commits.append(("6", "1.00"))

    def changed() -> None:
        # The new store has the first change and not this one; the old answer is no longer what the old store says.
        world.catch_up()
        world.commits.append(("6", "2.00"))

    world.clock.events += [(1.0, changed), (2.0, world.catch_up)]
    assert dict(world.run(world.dark()).outcomes) == {"lag": 1}


def test_a_store_that_never_catches_up_is_unsettled_at_the_deadline(world: Harness) -> None:
    world.commits.append(("6", "1.00"))
    report = world.run(world.dark())
    assert dict(report.outcomes) == {"unsettled": 1}
    assert 5 <= world.clock.monotonic_s() < 5.5


def test_without_positions_a_rest_must_do(world: Harness) -> None:
    world.tells = False
    world.commits.append(("6", "1.00"))
    world.clock.events.append((0.4, world.catch_up))
    assert dict(world.run(world.dark()).outcomes) == {"lag": 1}


def test_a_new_store_that_fails_never_hurts_the_caller(world: Harness) -> None:
    world.down = True
    report = world.run(world.dark())
    assert dict(report.outcomes) == {"failed": 1}
    assert "away" in report.examples[0].old + report.examples[0].new


def test_a_fault_of_the_new_store_is_a_finding_too(world: Harness) -> None:
    dark = world.dark()
    dark.ask(ASK)
    dark._stores = dataclasses.replace(dark._stores, new=lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    report = dark.close()
    assert dict(report.outcomes) == {"failed": 1}
    assert "division by zero" in "\n".join(report.lines(0.1))


def test_an_old_store_that_does_not_answer_again_decides_nothing(world: Harness) -> None:
    world.old_down = True
    world.commits.append(("6", "1.00"))
    report = world.run(world.dark())
    assert (report.samples, dict(report.dropped)) == (0, {"old store": 1})
    assert "did not answer again" in dark_page("orders", report, 0.1, 1)


def test_overload_drops_samples_and_counts_them(world: Harness) -> None:
    metrics = Metrics("shop")
    dark = world.dark(Limits(sample=1.0, queued=3), metrics)
    for _ in range(10):
        dark.ask(ASK)
    report = dark.close()
    assert (report.samples, dict(report.dropped)) == (3, {"overload": 7})
    text = metrics.text()
    assert 'lyrebird_samples_dropped_total{application="shop",kind="overload"} 7.0' in text
    assert 'lyrebird_compared_total{application="shop",kind="equal"} 3.0' in text


def test_a_sample_that_waited_too_long_is_dropped(world: Harness) -> None:
    dark = world.dark()
    dark.ask(ASK)
    world.clock.advance(5)
    assert dict(dark.close().dropped) == {"late": 1}
    assert world.asked_new == 0


def test_only_a_share_of_the_questions_is_compared(world: Harness) -> None:
    dark = world.dark(Limits(sample=0.1, queued=10_000))
    for _ in range(2_000):
        dark.ask(ASK)
    assert 150 < dark.close().samples < 250


def test_threads_decide_what_is_asked_meanwhile(world: Harness) -> None:
    dark = world.dark(Limits(sample=1.0, queued=1_000))
    dark.start(2)
    for _ in range(100):
        dark.ask(ASK)
    assert dict(dark.close().outcomes) == {"equal": 100}


def test_many_that_lag_are_decided_together_by_one_thread() -> None:
    world = Harness()
    world.clock = SystemClock()  # type: ignore[assignment]
    world.commits.append(("6", "1.00"))
    dark = world.dark(Limits(sample=1.0, queued=1_000, deadline_s=30))
    dark.start(1)
    for _ in range(200):
        dark.ask(ASK)
    later = threading.Timer(0.5, world.catch_up)
    later.start()
    report = dark.close()
    later.join()
    assert dict(report.outcomes) == {"lag": 200}
    assert report.longest_lag_s < 10, "one after the other would take a lag each"


def test_a_position_that_cannot_be_asked_for_is_a_failure_at_the_deadline_and_not_before(world: Harness) -> None:
    world.commits.append(("6", "1.00"))
    dark, away = world.dark(), True

    def covers() -> SourcePosition | None:
        if away:
            raise Transient("away", system="elasticsearch")
        return position(world.applied)

    dark._stores = dataclasses.replace(dark._stores, new_covers=covers)
    dark.ask(ASK)
    dark.ask(ASK)

    def back() -> None:
        nonlocal away
        away = False
        world.catch_up()

    world.clock.events.append((2.0, back))
    assert dict(dark.close().outcomes) == {"lag": 2}
    away = True
    world.commits.append(("7", "1.00"))
    dark.ask(ASK)
    report = dark.close()
    assert dict(report.outcomes) == {"lag": 2, "failed": 1}
    assert "away" in "\n".join(report.lines(0.1))


def filled(outcomes: dict[str, int], difference: AnswerDifference | None = None) -> DarkReport:
    report = DarkReport.begin(0)
    for outcome, number in outcomes.items():
        for _ in range(number):
            report.compared("user 7", outcome, [difference] if difference and outcome == "differs" else [])
    return report


def test_the_advice_is_to_switch_when_all_but_lag_is_within_the_bound() -> None:
    assert filled({"equal": 900, "lag": 99, "differs": 1}).advice(0.001).switch
    for bad in ("differs", "unsettled", "failed"):
        advice = filled({"equal": 997, bad: 3}).advice(0.001)
        assert not advice.switch
        assert "3 of 1,000" in advice.reason


def test_few_samples_and_many_dropped_ones_are_no_proof() -> None:
    assert "100 are needed" in filled({"equal": 99}).advice(0.5).reason
    report = filled({"equal": 100})
    report.dropped["overload"] = 101
    assert "dropped" in report.advice(0.5).reason


def test_reports_of_several_processes_add_up_and_travel_as_json() -> None:
    one = filled({"equal": 3, "differs": 7}, AnswerDifference("field", "1", "price", 1, 2))
    for doc_id in range(2, 9):
        one.compared("user 8", "differs", [AnswerDifference("field", str(doc_id), "price", 1, 2)])
    other = filled({"lag": 2, "differs": 1}, AnswerDifference("missing", "2"))
    one.add(DarkReport.from_json(json.loads(json.dumps(other.to_json()))))
    assert (one.samples, dict(one.found)) == (20, {"field price": 14, "missing": 1})
    examples = [each.doc_id for each in one.examples if each.name == "field price"]
    assert examples == ["1", "2", "3", "4", "5"], "a few, each of another document"
    with pytest.raises(SettingsError, match="not a report"):
        DarkReport.from_json({"began": 1})


def test_a_report_reads_as_lines_and_as_a_page_that_shows_values_as_text() -> None:
    report = filled({"equal": 120, "differs": 1}, AnswerDifference("field", "1", "note", "<b>", "x" * 500))
    text = "\n".join(report.lines(0.001))
    assert "field note: 1 sample\n" in text
    assert "do not switch" in text
    page = dark_page("orders", report, 0.001, 100)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "Do not switch" in page
    assert "x" * 201 not in page
