"""Section `expectations` of the deployment: what each document of a topic has to be like.

```yaml
expectations:
  assembled_order:                     # the topic
    columns:                           # computed, in Spark's SQL
      lines_total: aggregate(lines, …)
    expect:
      totals_add_up:                   # a name of ours: of the task, in the mail
        ExpectColumnPairValuesToBeEqual: {column_A: total_price, column_B: lines_total}
```

Expectations and arguments are Great Expectations' own. Columns are `doc_id` (the key as text), the fields of the body,
and the computed ones. What an expectation has looked at is named with its values, but for columns that are `hidden`:
list what the sources mask there too, as an assembler reads it in the clear.

A change topic whose table the lake keeps (section `tables`) may stand here too: the audit of tables looks at its rows,
at the version that it compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from include.audit.definition import audited_index, audited_indexes
from include.audit.expectations.catalogue import Argument, known
from include.index.definition import declared_indexes
from include.lake.tables.definition import declared_tables, table_topics
from include.settings.deployment import Deployment, Strict

__all__ = [
    "KEY",
    "Expectation",
    "TopicExpectations",
    "declared_expectations",
    "expectations_by_audit",
    "expectations_of_audit",
    "expectations_of_table",
]

SECTION = "expectations"
KEY = "doc_id"
"""Column of the key as text."""
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,59}$")]


class TopicExpectations(Strict):
    """What is expected of one topic's newest documents."""

    columns: dict[_Name, str] = Field(default_factory=dict, description="name -> Spark SQL over the other columns")
    hidden: list[str] = Field(
        default_factory=list, description="columns, computed ones too, whose values stand in no mail, report or log"
    )
    expect: dict[_Name, dict[str, dict[str, Any]]] = Field(
        min_length=1, description="name -> the expectation's own name -> its arguments"
    )

    def declared(self, topic: str) -> list[Expectation]:
        """Its expectations, in the file's order."""
        return [Expectation(topic, name, *next(iter(call.items()))) for name, call in self.expect.items()]


@dataclass(frozen=True)
class Expectation:
    """One expectation: `kind` and `arguments` as Great Expectations names them."""

    topic: str
    name: str
    kind: str
    arguments: Mapping[str, Any]


def declared_expectations(deployment: Deployment) -> dict[str, TopicExpectations]:
    """All entries, by topic.

    Raises `SettingsError`, with place and allowed values, for an unknown expectation or argument, an argument of
    another type, and a topic that no audit looks at.
    """
    entries = deployment.section(SECTION, TopicExpectations)
    indexes = declared_indexes(deployment)
    audited = {t for alias in audited_indexes(deployment).values() for t in indexes[alias].topics}
    for topic, entry in entries.items():
        if topic not in audited and not _kept(deployment, topic):
            raise deployment.error(
                (SECTION, topic),
                "no audit looks at this topic, so nobody would run its expectations",
                got=topic,
                allowed=sorted(audited),
                fix="Declare an audit of its index in the section `audits`, or keep it as a table (`tables`).",
            )
        if KEY in entry.columns:
            raise deployment.error((SECTION, topic, "columns", KEY), "this column is the key", fix="Choose a name.")
        for name, call in entry.expect.items():
            _check(deployment, (SECTION, topic, "expect", name), call)
    return entries


def expectations_of_table(deployment: Deployment, topic: str) -> TopicExpectations | None:
    """Those of a topic whose table is audited, None without any; raises `SettingsError` as above."""
    if topic not in deployment.names(SECTION):
        return None
    return declared_expectations(deployment)[topic]


def _kept(deployment: Deployment, topic: str) -> bool:
    """Whether the lake keeps a table of this topic."""
    if not deployment.has("tables"):
        return False
    return any(table_topics(entry, [topic]) for entry in declared_tables(deployment).values())


def expectations_of_audit(deployment: Deployment, audit: str) -> dict[str, TopicExpectations]:
    """Those of the topics that `audit` looks at, by topic; raises `SettingsError` as above."""
    index = audited_index(deployment, audit)
    wanted = declared_indexes(deployment)[index].topics
    return {topic: entry for topic, entry in declared_expectations(deployment).items() if topic in wanted}


def expectations_by_audit(deployment: Deployment) -> dict[str, list[Expectation]]:
    """Audits that have expectations, with those, in the order of the files; raises `SettingsError` as above."""
    if not deployment.names(SECTION):
        return {}
    return {
        audit: [each for topic, entry in entries.items() for each in entry.declared(topic)]
        for audit in sorted(audited_indexes(deployment))
        if (entries := expectations_of_audit(deployment, audit))
    }


def _check(deployment: Deployment, path: tuple[str | int, ...], call: Mapping[str, Mapping[str, Any]]) -> None:
    if len(call) != 1:
        raise deployment.error(
            path, "an entry is one expectation", got=sorted(call), fix="Give each expectation a name of its own."
        )
    kind, given = next(iter(call.items()))
    if kind not in known():
        raise deployment.error((*path, kind), "no such expectation on Spark", got=kind, allowed=sorted(known()))
    allowed = known()[kind]
    for name, value in given.items():
        if name not in allowed:
            raise deployment.error((*path, kind, name), "unknown argument", got=name, allowed=sorted(allowed))
        _check_value(deployment, (*path, kind, name), allowed[name], value)
    missing = sorted(name for name, argument in allowed.items() if argument.required and name not in given)
    if missing:
        raise deployment.error(
            (*path, kind), "argument is missing", got=sorted(given), missing=missing, allowed=sorted(allowed)
        )


def _check_value(deployment: Deployment, path: tuple[str | int, ...], argument: Argument, value: Any) -> None:
    if not argument.takes(value):
        raise deployment.error(path, "argument is of another type", got=value, allowed=list(argument.kinds))
    if path[-1] == "mostly" and not 0 <= value <= 1:
        raise deployment.error(path, "a part of all lies between 0 and 1", got=value, allowed="0 to 1")
