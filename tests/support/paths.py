"""Where the project lies: what tests read and run is found from here, wherever a module stands."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["GOLDEN", "ROOT"]

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests" / "golden"
