"""`lyrebird binlog cat` on every recording: what it prints is what SELECT showed."""

from __future__ import annotations

import pytest

from tests.support.binlog.cat_check import prove, told
from tests.support.golden.recording import load, names


@pytest.mark.parametrize("given", [False, True], ids=["by-map", "by-schema"])
@pytest.mark.parametrize(("server", "case"), names())
def test_what_is_printed_is_what_select_showed(server: str, case: str, given: bool) -> None:
    recording = load(server, case)
    if given or told(recording):
        assert prove(recording, given) or case in ("xa-empty", "xa-rollback")
