"""Every case. One module a subject; a name may stand for a script of MariaDB and one of MySQL."""

from tests.support.golden.case import Case
from tests.support.golden.cases import (
    binary,
    changes,
    charsets,
    columns,
    definitions,
    images,
    json_binary,
    log,
    numbers,
    programs,
    temporals,
    text,
    transactions,
    xa,
)
from tests.support.servers.catalogue import known

__all__ = ["CASES", "cases_of"]

_MODULES = (
    numbers,
    temporals,
    text,
    charsets,
    binary,
    json_binary,
    columns,
    images,
    log,
    changes,
    definitions,
    programs,
    transactions,
    xa,
)

CASES: tuple[Case, ...] = tuple(case for module in _MODULES for case in module.CASES)


def cases_of(server: str) -> dict[str, Case]:
    """The cases that make sense on that server, by name."""
    return {case.name: case for case in CASES if case.on(known(server))}
