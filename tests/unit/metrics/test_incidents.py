"""The ledger of open incidents: an id for as long as one lasts, over restarts too."""

from __future__ import annotations

import json
from typing import Any

from include.clock import ManualClock
from include.metrics.incidents import IncidentLedger


class Folder:
    """A run folder in memory that counts what is written."""

    def __init__(self) -> None:
        self.file: dict[str, Any] = {}
        self.written = 0

    def keep(self, name: str, value: dict[str, Any]) -> None:
        self.file, self.written = json.loads(json.dumps(value)), self.written + 1

    def kept(self, name: str) -> dict[str, Any]:
        return self.file


def test_an_incident_keeps_its_id_while_it_lasts_and_over_restarts() -> None:
    folder, clock = Folder(), ManualClock(1_000)
    ledger = IncidentLedger(folder, clock)
    ledger.note("lag:a", "lag", "a", "a is 5 s behind", "lyrebird status", count=1)
    ledger.save()
    clock.advance(10)
    again = IncidentLedger(folder, clock)
    again.note("lag:a", "lag", "a", "a is 9 s behind", "lyrebird status", count=2)
    (found,) = again.all()
    assert (found.id, found.at_us, found.text) == ("lag:a:1000", 1_000, "a is 9 s behind")
    assert found.to_json() == {
        "id": "lag:a:1000", "kind": "lag", "group": "a", "text": "a is 9 s behind", "fix": "lyrebird status",
    }  # fmt: skip
    assert (again.find("lag:a") or {})["count"] == 2


def test_one_that_ends_and_begins_again_has_another_id_also_in_one_moment() -> None:
    ledger = IncidentLedger(Folder(), ManualClock(1_000))
    ids = []
    for _ in range(3):
        ledger.note("lag:a", "lag", "", "text", "fix")
        ids += [each.id for each in ledger.all()]
        ledger.end("lag:a")
    assert len(set(ids)) == 3
    assert ledger.all() == []
    ledger.end("lag:a")


def test_all_are_told_the_oldest_first() -> None:
    ledger = IncidentLedger(Folder(), ManualClock(1_000))
    for name in ("c", "a", "b"):
        ledger.note(f"lag:{name}", "lag", name, "text", "fix")
    ledger.note("c:other", "other", "", "text", "fix")
    assert [each.group for each in ledger.all()] == ["c", "a", "b", ""]
    for key in ledger.keys("lag:"):
        ledger.end(key)
    assert [each.kind for each in ledger.all()] == ["other"]


def test_what_did_not_change_is_not_written_again() -> None:
    folder, clock = Folder(), ManualClock(1_000)
    ledger = IncidentLedger(folder, clock)
    ledger.save()
    assert folder.written == 0
    for _ in range(3):
        ledger.note("lag:a", "lag", "", "text", "fix")
        ledger.save()
        clock.advance(600)
    assert folder.written == 1
    ledger.save(whole=True)
    assert folder.written == 2


def test_how_far_was_listened_is_kept_with_new_places_and_once_a_minute() -> None:
    folder, clock = Folder(), ManualClock(0)
    ledger = IncidentLedger(folder, clock)
    ledger.heard["events/0"] = 5
    ledger.save()
    ledger.heard["events/0"] = 6
    ledger.save()
    assert folder.file["heard"] == {"events/0": 5}
    clock.advance(60)
    ledger.save()
    assert IncidentLedger(folder, clock).heard == {"events/0": 6}
