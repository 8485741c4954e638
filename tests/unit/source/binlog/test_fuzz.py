"""A sample of what `make prove-capture` breaks: recordings with one byte other, or cut, at any place."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.support.binlog.fuzz import FILES, Fuzz

SAMPLE = [name for name in FILES if name[0] in ("mariadb-11.4", "mysql-9.7", "mysql-5.6")][::4]
SAMPLE += [("mysql-9.7", case) for case in ("json-partial", "payload", "image-minimal")]


@cache
def fuzz(server: str, case: str) -> Fuzz:
    return Fuzz(server, case)


@pytest.mark.parametrize(("server", "case"), SAMPLE)
def test_a_recording_with_one_byte_broken_is_refused_or_well_formed(server: str, case: str) -> None:
    made = fuzz(server, case)
    chance = random.Random(f"{server}/{case}")
    mutants = list(made.mutants((chance.randint(1, 255),)))
    outcomes = [made.outcome(mutant) for mutant in chance.sample(mutants, min(60, len(mutants)))]
    assert any(outcomes)


def test_commit_times_of_no_calendar_are_refused() -> None:
    for case, types in (("gtid-tagged", (42,)), ("gtid-anonymous", (33, 34))):
        made = fuzz("mysql-9.7", case)
        stamps = [mutant for mutant in made.mutants((0x7F,)) if made.events[mutant[0]][4] in types]
        assert any("year 2262" in made.outcome(mutant) for mutant in stamps)
