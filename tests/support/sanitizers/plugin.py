"""For pytest, as `-p tests.support.sanitizers.plugin`: compiled modules come from the folder that `FOLDER` names.

Whoever asks for one gets it from there. The last line is `SAID`, when all of them were asked for and came from there.
It imports nothing of the project, which would load the ordinary ones.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

__all__ = ["FOLDER", "SAID", "Finder"]

FOLDER: Final = "LYREBIRD_TEST_SANITIZED"
SAID: Final = "every compiled module came from the folder"


class Finder:
    """Finds the modules that are in `folder` by their last name; those of any other name are another's to find."""

    def __init__(self, folder: Path) -> None:
        self._suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
        self._files = {file.name.removesuffix(self._suffix): file for file in folder.glob(f"*{self._suffix}")}

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """That of a module in the folder."""
        package, _, last = name.rpartition(".")
        file = self._files.get(last) if package.startswith("include.") and package.endswith(".native") else None
        return None if file is None else spec_from_file_location(name, file)

    def complete(self) -> bool:
        """Whether all modules of the folder are loaded, and none of the project's from anywhere else."""
        files = [
            str(module.__file__)
            for name, module in sys.modules.items()
            if name.startswith("include.") and str(getattr(module, "__file__", "")).endswith(self._suffix)
        ]
        return bool(files) and sorted(files) == sorted(map(str, self._files.values()))


_FINDER: Final = Finder(Path(os.environ[FOLDER])) if FOLDER in os.environ else None
if _FINDER is not None:
    sys.meta_path.insert(0, _FINDER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sanitized code takes several times as long; whoever starts the session limits it."""
    for item in items:
        item.add_marker(pytest.mark.timeout(0), append=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that it was these."""
    if _FINDER is not None and _FINDER.complete():
        terminalreporter.write_line(SAID)
