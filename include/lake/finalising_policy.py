"""Definition of a group's finalising in the deployment: how late records may come, and in which zones a date ends."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from pydantic import Field

from include.lake.parsing.partition_names import TimeName
from include.lake.parsing.rules import ParserRules
from include.lake.parsing.versions import ParserVersion
from include.lake.parsing.zones import ZoneName
from include.settings.deployment import Strict

__all__ = ["Finalising", "TopicLateness", "zones_of"]


class TopicLateness(Strict):
    """Another lateness for the topics of a pattern (`*`, `?`)."""

    topics: str = Field(min_length=1)
    """The pattern."""
    lateness_s: int = Field(ge=0)
    """How long after a date's end its records are waited for."""


class Finalising(Strict):
    """When an hour or day of a partition group is over; the first of `topics` whose pattern has a topic holds for it.

    A `_SUCCESS` says that no record of the date is expected any more. One that comes nevertheless is stored, and the
    date is told again.
    """

    lateness_s: int = Field(default=3600, ge=0, description="how long after its end records of a date are waited for")
    zone: ZoneName | None = Field(default=None, description="whose dates; None: the zones that the parsers name")
    topics: tuple[TopicLateness, ...] = ()
    """Another lateness for some topics."""

    def lateness_of(self, topic: str) -> int:
        """In seconds."""
        found = (each.lateness_s for each in self.topics if fnmatch.fnmatchcase(topic, each.topics))
        return next(found, self.lateness_s)


def zones_of(declared: Finalising, versions: Iterable[ParserVersion]) -> tuple[str, ...]:
    """Zones in which a date has to be over: of all versions of the topic's parser; UTC where none tells."""
    if declared.zone is not None:
        return (declared.zone,)
    parsers = [each.parser for each in versions]
    rules = [rule for parser in parsers if isinstance(parser, ParserRules) for rule in parser.names]
    return tuple(sorted({rule.zone for rule in rules if isinstance(rule, TimeName)})) or ("UTC",)
