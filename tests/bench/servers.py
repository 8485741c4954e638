"""Servers that benches start, and on which cores they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

from include.local.services import Service
from include.local.site import Site
from include.local.stack import Stack

__all__ = ["halves", "on_cores", "served"]

_HEAP_MB = 1024


@contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """Processes that are started in here run on these cores, and so does this one meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def halves(apart: bool) -> tuple[frozenset[int], frozenset[int]]:
    """Cores of the one side and of the other; all of them for both unless they are to be `apart`, or there is one."""
    every = sorted(os.sched_getaffinity(0))
    half = (len(every) + 1) // 2
    first = frozenset(every[:half] if apart else every)
    return first, frozenset(every[half:] if apart else every) or first


@contextmanager
def served(
    services: Sequence[str],
    state: Path,
    cores: frozenset[int],
    heap_mb: int = _HEAP_MB,
    within: AbstractContextManager[None] | None = None,
) -> Iterator[dict[str, str]]:
    """The services' addresses, while they run on these cores. `within` is open while they are started."""
    stack = Stack(state=state, free_ports=True, kafka_login=False)
    large = _large(Site.server_environment, heap_mb)
    with within or nullcontext(), on_cores(cores), patch.object(Site, "server_environment", large):
        env = stack.up(services)
    try:
        yield env
    finally:
        stack.down()


def _large(environment: Callable[..., dict[str, str]], heap_mb: int) -> Callable[..., dict[str, str]]:
    # Servers of the one-machine stack spare memory and compile little; these are set up as where they have a host.
    options = f"-Xms{heap_mb}m -Xmx{heap_mb}m -XX:TieredStopAtLevel=4"

    def large(site: Site, row: Service, **more: str) -> dict[str, str]:
        # Elasticsearch's launcher takes away the first and has its own.
        return environment(site, row, **(more | {"_JAVA_OPTIONS": options, "ES_JAVA_OPTS": options}))

    return large
