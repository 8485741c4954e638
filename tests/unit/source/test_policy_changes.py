"""A table that the policy drops, and lets pass again: what changed meanwhile is named as missing, then read."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from include.source.definition import SourceDefinition
from tests.support.binlog.recorded_mariadb import transaction
from tests.support.source.crash_harness import CrashHarness

PASSES: dict[str, Any] = {}
DROPPED: dict[str, Any] = {"t": {"policy": "drop"}}
PHASES: tuple[tuple[dict[str, Any], int], ...] = ((PASSES, 6), (DROPPED, 12), (PASSES, 24))


class PolicyHarness(CrashHarness):
    """The story in three parts, each captured under another policy."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.left = list(PHASES)

    def go_on(self, at: int = 0) -> bool:
        """One session of the present part, which step `at` ends; True when the part came to its end."""
        policy, until = self.left[0]
        values = self.source.model_dump() | {"filter": policy}
        self.source = SourceDefinition(**values)
        self._upstream.captures = self.source.captures
        if not self.session(at, until=until):
            return False
        self.left.pop(0)
        return True


@pytest.mark.parametrize("seed", range(6))
def test_what_changed_while_the_policy_dropped_a_table_is_read_when_it_passes_again(seed: int) -> None:
    world = PolicyHarness(seed)
    for _ in PHASES:
        assert world.go_on()
    world._versions_are_dense()
    world.is_honest()
    kinds = [raw["kind"] for raw in world._controls()]
    assert kinds.count("left_out") == 1
    assert kinds.index("left_out") < len(kinds) - 1 - kinds[::-1].index("gap")
    # While it was dropped nothing of it was said to be covered.
    out = [covered for number, covered, _ in world.copies() if 6 < number <= 12]
    assert out
    assert not any(out)


@pytest.mark.timeout(120)
def test_a_kill_at_any_step_leaves_every_resolved_record_true() -> None:
    for at in count(1, 4):
        world, killed = PolicyHarness(at), False
        assert world.go_on()
        while world.left:
            killed |= not world.go_on(0 if killed else at)
        world._versions_are_dense()
        world.is_honest()
        if not killed:
            break
    assert at > 30


def test_a_table_that_is_gone_when_it_would_pass_again_is_dropped_from_copies() -> None:
    world = PolicyHarness(1)
    assert world.go_on()
    assert world.go_on()
    world._upstream.names = list  # type: ignore[method-assign]
    world.left = [(PASSES, 12)]
    assert world.go_on()
    assert world._controls()[-1]["kind"] == "drop"
    assert world.copies()[-1][1:] == (True, {})


def test_a_table_that_is_dropped_while_the_policy_leaves_it_out_is_gone_from_copies() -> None:
    world = PolicyHarness(1)
    assert world.go_on()
    world.story.transactions[8] = transaction(9, "DROP TABLE t")
    assert world.go_on()
    assert [raw["kind"] for raw in world._controls()] == ["left_out", "drop"]
    assert world.copies()[-1] == (12, True, {})
