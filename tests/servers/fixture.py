"""The pytest fixture `server`: real servers for tests, started when asked for, stopped at the end of the module."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from include.errors import LyrebirdError
from tests.servers.catalogue import known
from tests.servers.fetch import is_here
from tests.servers.running import Server, running

__all__ = ["PROVE", "server"]

PROVE = "LYREBIRD_PROVE"
"""Set (to anything) by `make prove-capture`: servers that are not here are fetched, and a test fails without them."""

Give = Callable[..., Server]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Give]:
    """`server("mysql-9.7", "--option=…")` → a running server; the same one for the same words within a module."""
    with ExitStack() as stack:
        started: dict[tuple[str, ...], Server] = {}

        def give(name: str, *options: str) -> Server:
            if (name, *options) not in started:
                if not is_here(known(name)) and PROVE not in os.environ:
                    pytest.skip(f"{name} is not on this machine: run `make prove-capture`")
                folder = tmp_path_factory.mktemp(name)
                try:
                    started[name, *options] = stack.enter_context(running(name, folder, options))
                except LyrebirdError as error:
                    pytest.fail(str(error), pytrace=False)
            return started[name, *options]

        yield give
