"""The pytest fixture `server`: real servers for tests, started when asked for, stopped at the end of the module."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from include.errors import LyrebirdError
from tests.support.servers.catalogue import known
from tests.support.servers.fetch import is_here
from tests.support.servers.running import Server, running

__all__ = ["AT_ONCE", "PROVE", "Give", "require_here", "server"]

PROVE = "LYREBIRD_PROVE"
"""Set (to anything) by `make prove-capture`: servers that are not here are fetched, and a test fails without them."""
AT_ONCE = 2
"""So many servers run at a time; the one that was asked for least recently gives way."""

Give = Callable[..., Server]


def require_here(name: str) -> None:
    """Skip the test when the server would have to be fetched and this is no proof run."""
    if not is_here(known(name)) and PROVE not in os.environ:
        pytest.skip(f"{name} is not on this machine: run `make prove-capture`")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Give]:
    """`server("mysql-9.7", "--option=…")` → a running server; the same words give the same one, with its data.

    One that had to give way (`AT_ONCE`) is started again on its data when it is asked for again, on another port.
    """
    folders: dict[tuple[str, ...], Path] = {}
    started: dict[tuple[str, ...], tuple[Server, ExitStack]] = {}

    def give(name: str, *options: str) -> Server:
        words = (name, *options)
        require_here(name)
        if words in started:
            started[words] = started.pop(words)
            return started[words][0]
        if len(started) == AT_ONCE:
            _, stack = started.pop(next(iter(started)))
            stack.close()
        if words not in folders:
            folders[words] = tmp_path_factory.mktemp(name)
        stack = ExitStack()
        try:
            started[words] = (stack.enter_context(running(name, folders[words], options)), stack)
        except LyrebirdError as error:
            pytest.fail(str(error), pytrace=False)
        return started[words][0]

    try:
        yield give
    finally:
        for _, stack in started.values():
            stack.close()
