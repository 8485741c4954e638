"""The ledger of open incidents: an id for as long as one lasts, over restarts too."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.incidents.kind import IncidentKind, advised
from include.incidents.ledger import IncidentLedger
from tests.support.run_folder import MemoryRunFolder

LAG = IncidentKind(
    "lag",
    "tests",
    "warning",
    "x.md",
    "it is slow",
    "it is not",
    "{name} is {count} s behind",
    "`lyrebird status {name}`",
)
OTHER = IncidentKind("other", "tests", "error", "x.md", "", "", "text", "`lyrebird`")


def test_an_incident_keeps_its_id_while_it_lasts_and_over_restarts() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(1_000)
    ledger = IncidentLedger(folder, clock)
    ledger.note(LAG, "a", group="a", adds=5, name="a")
    ledger.save()
    clock.advance(10)
    again = IncidentLedger(folder, clock)
    again.note(LAG, "a", group="a", adds=4, name="a")
    (found,) = again.all()
    assert found.to_json() == {
        "id": "lag:a:1000", "kind": "lag", "group": "a", "text": "a is 9 s behind", "fix": "lyrebird status a",
        "severity": "warning", "page": "x.md",
    }  # fmt: skip
    assert (again.find(LAG, "a")["count"], again.find(LAG, "a")["at_us"]) == (9, 1_000)


def test_one_that_an_earlier_release_opened_has_no_severity_until_it_is_noted_again() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(1_000)
    entry = {"at_us": 1, "kind": "other", "group": "", "text": "text", "fix": "lyrebird"}
    folder.keep("incidents.json", {"open": {"other": entry}, "heard": {}})
    ledger = IncidentLedger(folder, clock)
    assert [(each.id, each.severity, each.page) for each in ledger.all()] == [("other:1", "", "")]
    ledger.note(OTHER)
    assert ledger.all() == [OTHER.incident("other:1")]
    assert (ledger.all()[0].severity, ledger.all()[0].page) == ("error", "x.md")


def test_one_that_ends_and_begins_again_has_another_id_also_in_one_moment() -> None:
    ledger = IncidentLedger(MemoryRunFolder(), ManualClock(1_000))
    ids = []
    for _ in range(3):
        ids.append(ledger.note(OTHER, "a").id)
        ledger.end(OTHER, "a")
    assert len(set(ids)) == 3
    assert ledger.all() == []
    ledger.end(OTHER, "a")


def test_all_are_told_the_oldest_first() -> None:
    ledger = IncidentLedger(MemoryRunFolder(), ManualClock(1_000))
    for name in ("c", "a", "b"):
        ledger.note(OTHER, name, group=name)
    ledger.note(LAG, name="a", count=1)
    assert [each.group for each in ledger.all()] == ["c", "a", "b", ""]
    ledger.only(OTHER, ["a"])
    assert (ledger.subjects(OTHER), [each.id for each in ledger.all()]) == (["a"], ["other:a:1001", "lag:1003"])


def test_what_did_not_change_is_not_written_again() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(1_000)
    ledger = IncidentLedger(folder, clock)
    ledger.save()
    assert folder.written == []
    for _ in range(3):
        ledger.note(OTHER, "a")
        ledger.save()
        clock.advance(600)
    assert len(folder.written) == 1
    ledger.save(whole=True)
    assert len(folder.written) == 2


def test_one_that_is_not_to_be_told_yet_is_kept_with_its_begin() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(0)
    ledger = IncidentLedger(folder, clock)
    for second in (0, 4):
        clock.advance(second)
        ledger.note(OTHER, "a", opens_us=5_000_000)
        assert ledger.open() == []
    clock.advance(1)
    (told,) = ledger.open()
    assert told["id"] == "other:a:1"
    assert IncidentLedger(folder, clock).open() == []
    ledger.note(OTHER, "a", opens_us=5_000_000)
    assert ledger.open() == [told]
    assert IncidentLedger(folder, clock).open() == [told]


def test_one_that_lasts_for_a_time_ends_by_itself_unless_it_is_noted_again() -> None:
    clock = ManualClock(0)
    ledger = IncidentLedger(MemoryRunFolder(), clock)
    for _ in range(2):
        ledger.note(OTHER, "a", lasts_us=9_000_000)
        clock.advance(8)
    assert len(ledger.open()) == 1
    clock.advance(1)
    assert ledger.open() == []


def test_what_is_read_again_after_a_restart_is_not_kept_and_has_its_subject_for_an_id() -> None:
    folder = MemoryRunFolder()
    ledger = IncidentLedger(folder, ManualClock(0))
    assert ledger.note(OTHER, "table:bin.1:7", kept=False).id == "other:table:bin.1:7"
    assert len(ledger.open()) == 1
    assert IncidentLedger(folder, ManualClock(0)).all() == []


def test_those_that_have_opened_are_counted_once_and_not_again_after_a_restart() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(0)
    ledger = IncidentLedger(folder, clock)
    ledger.note(OTHER)
    ledger.save()
    assert (ledger.fresh(), ledger.fresh()) == (["other"], [])
    assert IncidentLedger(folder, clock).fresh() == []


def test_how_far_was_listened_is_kept_with_new_places_and_once_a_minute() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(0)
    ledger = IncidentLedger(folder, clock)
    ledger.heard["events/0"] = 5
    ledger.save()
    ledger.heard["events/0"] = 6
    ledger.save()
    assert folder.files["incidents.json"]["heard"] == {"events/0": 5}
    clock.advance(60)
    ledger.save()
    assert IncidentLedger(folder, clock).heard == {"events/0": 6}


def test_a_name_is_one_word_of_the_command() -> None:
    assert LAG.words(name="a b", count=1) == ("a b is 1 s behind", "lyrebird status 'a b'")
    with pytest.raises(KeyError):
        LAG.words(name="a")


def test_commands_are_taken_from_an_advice() -> None:
    assert advised("`SET x`, `lyrebird status`, `lyrebird lake cat …`.") == [
        "lyrebird status",
        "lyrebird lake cat …",
    ]
