"""What `lyrebird doctor` says of a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.local import doctor

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("ahead_kb", "verdicts"), [(128, ["ok"]), (8192, ["note"]), (None, [])])
def test_a_large_read_ahead_is_noted_as_it_slows_an_index_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_kb: int | None, verdicts: list[str]
) -> None:
    monkeypatch.setattr(doctor, "read_ahead_kb", lambda _: ahead_kb)
    found = [check for check in doctor.examine(tmp_path / "state") if check.name == "read-ahead"]
    assert [check.verdict for check in found] == verdicts
    assert all(("blockdev" in check.fix) == (check.verdict == "note") for check in found)


def test_the_read_ahead_of_a_folder_s_disk_is_a_number_or_not_told(tmp_path: Path) -> None:
    found = doctor.read_ahead_kb(tmp_path)
    assert found is None or found >= 0
