"""The floor of coverage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.coverage_floor import FLOOR, main, verdict


def report(percent: float) -> dict[str, Any]:
    files = {"include/a.py": {"missing_lines": [1]}, "include/b.py": {"missing_lines": [1, 2]}}
    return {"summary": {"percent_covered": percent}, "files": files}


def test_it_holds_at_the_floor_and_names_the_files_that_lack_most() -> None:
    enough, text = verdict(report(FLOOR))
    assert enough
    assert text.endswith("include/b.py 2, include/a.py 1")
    assert not verdict(report(FLOOR - 0.1))[0]


def test_too_little_or_nothing_measured_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report"
    assert main(path) == 1
    path.write_text("")
    assert main(path) == 1
    path.write_text(json.dumps(report(1)))
    assert main(path) == 1
    assert "error: unit tests ran 1.0 %" in capsys.readouterr().err
    path.write_text(json.dumps(report(99)))
    assert main(path) == 0
