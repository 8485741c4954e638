from __future__ import annotations

import pytest

from include.search.definition import SearchTarget
from tests.support.search.shipped_search import shipped_target


@pytest.fixture(scope="session")
def target() -> SearchTarget:
    return shipped_target()
