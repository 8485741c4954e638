"""docs/incidents.md: every kind of incident, as the stages declare them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from include.document import incidents as documents
from include.eventtime import incidents as event_time
from include.incidents import supervision
from include.incidents.kind import MEANINGS, IncidentKind
from include.index import incidents as index
from include.join import incidents as joins
from include.lake.incidents import kinds as lake
from include.lake.tables import incidents as tables
from include.source import incidents as capture

__all__ = ["DECLARING", "HEAD", "kinds", "page"]

DECLARING: Final[tuple[ModuleType, ...]] = (
    capture, documents, joins, event_time, index, lake, tables, supervision,
)  # fmt: skip
"""Modules whose constants are kinds."""

_SEVERITIES: Final = "\n".join(f"* **{severity}**: {meaning}." for severity, meaning in MEANINGS.items())
HEAD: Final = f"""\
# Incidents

Every kind of [incident](glossary.md#incident), with the command to run next. Made from what the stages declare
(`python -m tests.support.manual`).

```
[lyrebird] INCIDENT aside: table shop.orders of shop is set aside: …
```

An application that runs reports an incident when it opens. Under Airflow it is mailed once, however long it lasts and
however often the application is started again; only `quarantine` comes again while it grows. When an incident has ended
and opens again, that is another one. The names in capitals are filled in. A mail has another command than this page
where the error itself names one.

{_SEVERITIES}

Open incidents are shown by Airflow's page *Applications*, `lyrebird capture status` and `lyrebird lake status`.
[Operations](operations.md#a-mail-and-what-to-do) says what other mails there are.

| kind | stage | severity | opens when | ends when | what to do next | page |
|---|---|---|---|---|---|---|
"""
_NAME: Final = re.compile(r"\{(?:\w+\.)?(\w+)\}")


def kinds() -> Iterator[IncidentKind]:
    """All that are declared, stage by stage."""
    for module in DECLARING:
        for value in vars(module).values():
            yield from (each for each in _members(value) if isinstance(each, IncidentKind))


def _members(value: object) -> Iterator[object]:
    yield from value.values() if isinstance(value, dict) else (value,)


def page() -> str:
    """The page, as Markdown."""
    return HEAD + "".join(_row(kind) for kind in kinds())


def _row(kind: IncidentKind) -> str:
    fix = _NAME.sub(lambda name: name[1].upper(), kind.fix)
    ends = kind.ends or "its process has ended"
    page = f"[{kind.page.partition('#')[0].removesuffix('.md')}]({kind.page})"
    cells = (f"`{kind.name}`", kind.stage, kind.severity, kind.opens, ends, fix, page)
    return f"| {' | '.join(cells)} |\n"
