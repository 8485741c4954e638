from __future__ import annotations

import pytest

from include.search.definition import Target
from tests.search_world import shipped_target


@pytest.fixture(scope="session")
def target() -> Target:
    return shipped_target()
