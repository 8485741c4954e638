"""What the demo's summary says of the lake's chains."""

from __future__ import annotations

from pathlib import Path

from demo.chain_audit import audited, told_of
from demo.lake import CLOSINGS
from include.audit.chain.audit import ChainAuditOptions
from tests.support.lake.chain_harness import ChainHarness

DEEP = ChainAuditOptions(depth="bytes")


def test_one_line_is_enough_when_all_is_clean(tmp_path: Path) -> None:
    world = ChainHarness(tmp_path)
    world.fill(2)
    told = told_of([world.audit(DEEP)])
    assert told.good
    assert told.lines == ("lake chain audit: clean (1 topic in 2 groups, 8 commits, 16 objects)",)
    assert told.values == {"chain_audit": {"topics": 1, "findings": []}}


def test_what_is_found_is_shown_and_not_good(tmp_path: Path) -> None:
    world = ChainHarness(tmp_path)
    world.fill(2)
    key = world.commits("raw")[0].files[0].key
    world.store.delete(key)
    told = told_of([world.audit(DEEP)])
    assert not told.good
    assert told.lines[0] == (
        "lake chain audit: 1 finding (1 topic in 2 groups, 8 commits, 15 objects); next: lyrebird audit chain e"
    )
    assert any(key in line for line in told.lines)
    assert told.values["chain_audit"]["findings"][0]["key"] == key


def test_nothing_stored_is_not_good() -> None:
    told = told_of([])
    assert not told.good
    assert told.lines == ("lake chain audit: nothing to judge, as nothing is stored yet",)


def test_the_audit_follows_what_was_committed() -> None:
    assert CLOSINGS[-1] is audited
