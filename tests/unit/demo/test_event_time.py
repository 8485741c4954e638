"""What the demo says of the offline detector: right only when it is what the fleet knows of itself."""

from __future__ import annotations

import pytest

from demo.event_time import told_of
from demo.scooters.fleet import FleetTruth
from demo.scooters.truth import Known

pytestmark = pytest.mark.unit
GONE, BACK = Known("s1-a", 100, "offline", 10), Known("s1-a", 120, "online", 10)
TRUTH = FleetTruth(runs=1, until=200, late={("s1-b", 50)})


def test_the_same_once_each_with_the_planted_tracks_late_is_good() -> None:
    told = told_of(TRUTH, 200, {GONE, BACK}, [GONE, BACK, Known("s1-a", 201, "offline", 150)], [("s1-b", 50)])
    assert told.good
    assert told.values["scooters"] | {"until": None} == {
        "known": 2, "missing": 0, "extra": 0, "doubled": 0, "late": 1, "planted": 1, "until": None,
    }  # fmt: skip
    assert told.lines[0].startswith("scooters: 1 went offline, 1 came back, by the fleet's own word up to 1970-01-01")


@pytest.mark.parametrize(
    ("told", "late", "until", "says"),
    [
        ([GONE], [("s1-b", 50)], 200, "missing: s1-a online"),
        ([GONE, BACK, BACK], [("s1-b", 50)], 200, "1 twice"),
        ([GONE, BACK, Known("s1-b", 60, "offline", 5)], [("s1-b", 50)], 200, "besides: s1-b offline"),
        ([GONE, BACK], [], 200, "late or planted, not both: s1-b"),
        ([GONE, BACK], [("s1-b", 50), ("s1-c", 51)], 200, "late or planted, not both: s1-c"),
        ([GONE, BACK], [("s1-b", 50)], 199, "has not come to the fleet's end"),
    ],
)
def test_what_differs_is_named(told: list[Known], late: list[tuple[str, int]], until: int, says: str) -> None:
    found = told_of(TRUTH, until, {GONE, BACK}, told, late)
    assert not found.good
    assert any(says in line for line in found.lines)


def test_scooters_of_a_fleet_that_was_killed_are_not_judged() -> None:
    truth = FleetTruth(runs=2, until=200, late={("s1-b", 50), ("s2-b", 55)}, cut_short={"s2-"})
    strange = Known("s2-a", 130, "offline", 90)
    assert told_of(truth, 200, {GONE, BACK}, [GONE, BACK, strange], [("s1-b", 50), ("s2-b", 55), ("s2-c", 1)]).good


def test_a_fleet_that_knows_nothing_proves_nothing() -> None:
    assert not told_of(FleetTruth(), -1, set(), [], []).good
