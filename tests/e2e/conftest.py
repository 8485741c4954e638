"""One platform for all end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import platform as running


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    return running.eventually


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[running.Platform]:
    with running.running_platform(tmp_path_factory.mktemp("platform")) as found:
        yield found
