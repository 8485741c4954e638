"""Every byte of every recording flipped in three ways or cut behind, checksums made good: refused, or well-formed."""

from __future__ import annotations

import pytest

from tests.support.binlog.fuzz import FILES, Fuzz

MASKS = (0x01, 0x80, 0xFF)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("server", "case"), FILES)
def test_a_recording_with_one_byte_broken_is_refused_or_well_formed(server: str, case: str) -> None:
    made = Fuzz(server, case)
    assert sum(bool(made.outcome(mutant)) for mutant in made.mutants(MASKS))
