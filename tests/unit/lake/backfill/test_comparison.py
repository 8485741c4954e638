"""What speaks against a promotion, told from two commits of a cut."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

from include.lake.backfill.comparison import BackfillComparison, compare
from include.lake.backfill.plan import BackfillPlan, PlannedCut
from include.lake.backfill.run_registry import Run
from include.lake.backfill.selection import BackfillSelection, Days
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit, CutObject, Gap
from include.store.memory import MemoryStore

TOPIC = TopicKey("by_date", "events", "id")
FILES = {"dt=2024-05-01": 4, "dt=2024-05-02": 6}


def commit(generation: int, files: Mapping[str, int] = FILES, **more: Any) -> Commit:
    """Of the cut [0, 20) with so many records in each folder."""
    key = ChainKey(TOPIC, generation, 0)
    stored = tuple(
        CutObject(str(key.data((name,), 0, ".jsonl")), 100, f"{count:064x}", count, 0, 9, None, None)
        for name, count in sorted(files.items())
    )
    filtered = more.pop("filtered", 0)
    made: dict[str, Any] = {
        "first": 0,
        "next": 20,
        "intent": "0" * 32,
        "n_records": filtered + sum(files.values()),
        "filtered": filtered,
        "quarantined": files.get("_quarantine", 0),
        "min_ts": None,
        "max_ts": None,
        "gaps": (),
        "leader_epoch": None,
        "config": "c",
        "versions": {"zlib": "1"},
        "files": stored,
    }
    return Commit(**made | more)


def compared(new: Commit | None, old: Commit | None = None) -> BackfillComparison:
    """With the cut as it is read in generation 1."""
    store = MemoryStore()
    for generation, made in ((1, old or commit(1)), (2, new)):
        if made is not None:
            store.put(ChainKey(TOPIC, generation, 0).commit(0), made.to_bytes())
    day = dt.date(2024, 5, 1)
    cuts = (PlannedCut(0, 0, 20, 1, 1, 10, 200),)
    plan = BackfillPlan(BackfillSelection("by_date", "events", days=Days(day, day)), TOPIC, "", cuts)
    return compare(store, Run("mine", plan, {1: 2}))


def kinds(found: BackfillComparison) -> list[str]:
    return [each.kind for each in found.differences]


def test_the_same_objects_are_equal() -> None:
    found = compared(commit(2))
    assert (found.clean, found.whole, found.equal) == (True, True, 1)
    assert found.lines()[-1] == "clean"
    assert found.lines()[0] == "backfill mine: 1 of 1 cuts made, 1 with equal bytes"


def test_a_cut_that_is_not_made_is_missing() -> None:
    found = compared(None)
    assert (kinds(found), found.whole) == (["missing"], False)


def test_the_same_parser_with_other_bytes_is_told_by_its_folder() -> None:
    files = list(commit(2).files)
    files[1] = files[1]._replace(sha256="f" * 64)
    found = compared(dataclasses.replace(commit(2), files=tuple(files)))
    assert kinds(found) == ["bytes"]
    assert "other bytes: dt=2024-05-02 .jsonl" in found.differences[0].text


def test_by_records_are_compared_by_records() -> None:
    files = tuple(file._replace(sha256="f" * 64, bytes=1) for file in commit(2).files)
    found = compared(dataclasses.replace(commit(2), files=files, versions={"zlib": "2"}))
    assert (found.clean, found.equal, found.by_records) == (True, 0, 1)
    moved = compared(dataclasses.replace(commit(2, {"dt=2024-05-01": 5, "dt=2024-05-02": 5}), versions={"zlib": "2"}))
    assert kinds(moved) == ["bytes"]
    assert "other records" in moved.differences[0].text


def test_objects_that_another_attempt_made_are_compared_by_records() -> None:
    files = tuple(file._replace(sha256="f" * 64, adopted=True) for file in commit(1).files)
    found = compared(commit(2), dataclasses.replace(commit(1), files=files))
    assert (found.clean, found.by_records) == (True, 1)
    assert "1 cuts by other versions of libraries, or several attempts" in found.lines()[1]


def test_another_parser_may_move_records_to_other_dates() -> None:
    found = compared(commit(2, {"dt=2024-04-30": 10}, config="d"))
    assert (found.clean, found.equal) == (True, 0)
    assert found.to_json()["dates"] == {"2024-04-30": [0, 10], "2024-05-01": [4, 0], "2024-05-02": [6, 0]}
    assert "  2024-04-30: 0 -> 10 records" in found.lines()


def test_another_parser_may_filter_more_and_refuse_less() -> None:
    before = commit(1, {"dt=2024-05-01": 4, "_quarantine": 6})
    found = compared(commit(2, {"dt=2024-05-01": 8}, filtered=2, config="d"), before)
    assert found.clean
    assert (found.before["refused"], found.now["refused"], found.now["filtered"]) == (6, 0, 2)


def test_more_refused_records_and_other_counts_of_reading_are_differences() -> None:
    refused = commit(2, {"dt=2024-05-01": 4, "_quarantine": 6}, config="d")
    assert kinds(compared(refused)) == ["refused"]
    assert kinds(compared(commit(2, {"dt=2024-05-01": 4}, config="d"))) == ["read"]


def test_offsets_that_the_source_had_lost_are_a_difference_unless_live_had_lost_them() -> None:
    gap = (Gap(3, 5, "lost"),)
    assert kinds(compared(commit(2, gaps=gap))) == ["lost"]
    assert compared(commit(2, gaps=gap), commit(1, gaps=gap)).clean


def test_many_differences_are_counted_and_not_all_shown() -> None:
    found = compared(None)
    found.differences *= 50
    assert "and 30 more differences" in " ".join(found.lines())
    assert found.lines()[-1] == "not clean: 50 differences"
    assert len(found.to_json()["differences"]) == 50
