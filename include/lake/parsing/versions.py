"""Versions of a topic's parser: which one holds for which offsets, and which a backfill asks for.

The deployment keeps every version. The one for a cut is the last declared whose start the cut's first record has
reached; starts by offset are borders of cuts (`border`), so that no cut needs two. Nothing depends on when this runs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from include.errors import Terminal
from include.lake.parsing.definition import ParserDefinition
from include.settings.deployment import Strict

__all__ = ["DeclaredVersions", "ParserVersion", "ParserVersions"]


def _ascending(versions: tuple[ParserVersion, ...]) -> tuple[ParserVersion, ...]:
    numbers = [version.version for version in versions]
    if numbers != sorted(set(numbers)):
        raise ValueError(f"versions stand in ascending order, each once; these are {numbers}")
    first, *later = versions
    if first.from_offsets is not None or first.from_time is not None:
        raise ValueError("the first version holds from the beginning: it has no start")
    if any(version.from_offsets is None and version.from_time is None for version in later):
        raise ValueError("each later version has a start: from_offsets or from_time")
    return versions


class ParserVersion(Strict):
    """One version of a topic's parser."""

    version: int = Field(ge=1)
    """Its number; later ones are greater."""
    added: AwareDatetime = Field(description="when it was put into the deployment, for backfills by as_of")
    from_offsets: dict[int, Annotated[int, Field(ge=0)]] | None = Field(
        default=None, description="first offset by Kafka partition; those not named have it from their beginning"
    )
    from_time: AwareDatetime | None = Field(default=None, description="Kafka timestamp from which it holds")
    parser: ParserDefinition
    """What messages are read by."""

    @model_validator(mode="after")
    def _whole(self) -> ParserVersion:
        if self.from_offsets is not None and self.from_time is not None:
            raise ValueError("a version starts by from_offsets or by from_time, not by both")
        return self

    def started(self, partition: int, offset: int, timestamp_ms: int) -> bool:
        """Whether it holds for a cut that begins with this record, unless a later one does."""
        if self.from_time is not None:
            return timestamp_ms >= _ms(self.from_time)
        return self.from_offsets is None or offset >= self.from_offsets.get(partition, 0)


DeclaredVersions = Annotated[tuple[ParserVersion, ...], Field(min_length=1), AfterValidator(_ascending)]
"""All versions of a topic, as a field of its definition: ascending, the first without a start."""


@dataclass(frozen=True, slots=True)
class ParserVersions:
    """The versions of one topic, oldest first."""

    topic: str
    versions: Sequence[ParserVersion]

    def holding(self, partition: int, first: int, timestamp_ms: int) -> ParserVersion:
        """The version for the cut whose first record has this offset and Kafka timestamp (-1: before all times)."""
        return next(each for each in reversed(self.versions) if each.started(partition, first, timestamp_ms))

    def border(self, partition: int, first: int) -> int | None:
        """The least offset after `first` at which a cut has to end, as a version starts there; None without one."""
        starts = [(each.from_offsets or {}).get(partition, 0) for each in self.versions]
        return min((start for start in starts if start > first), default=None)

    def as_of(self, when: dt.datetime) -> ParserVersions:
        """The versions as they were declared at `when` (with its zone); `Terminal` when there was none yet."""
        declared = [each for each in self.versions if each.added <= when]
        if not declared or declared[0] is not self.versions[0]:
            raise Terminal(
                "no parser was declared yet",
                topic=self.topic,
                as_of=when.isoformat(),
                first=self.versions[0].added.isoformat(),
                fix="Choose a later time, or a version.",
            )
        return ParserVersions(self.topic, declared)

    def only(self, version: int) -> ParserVersions:
        """That version for every offset; `Terminal` with the ones that there are."""
        for candidate in self.versions:
            if candidate.version == version:
                everywhere = candidate.model_copy(update={"from_offsets": None, "from_time": None})
                return ParserVersions(self.topic, [everywhere])
        raise Terminal(
            "no such version of the parser",
            topic=self.topic,
            got=version,
            allowed=[each.version for each in self.versions],
            fix="Choose one of these.",
        )


def _ms(when: dt.datetime) -> int:
    # Integers: a float of seconds loses milliseconds of late years.
    since = when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
