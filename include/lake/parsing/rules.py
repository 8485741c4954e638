"""Definition of the rules of every parser that reads fields: the event time, the names, what to filter."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from include.lake.parsing.conditions import FieldCondition
from include.lake.parsing.event_time import EventTimeField
from include.lake.parsing.fields import WantedValue
from include.lake.parsing.partition_names import ContentName, NameRule, TimeName
from include.settings.deployment import Strict

__all__ = ["ClassReference", "ParserRules", "Tombstones", "time_wanted"]

Tombstones = Literal["refuse", "drop", "kafka"]
"""refuse: set aside; drop: filtered; kafka: kept, by the Kafka timestamp, and null for names by content."""


class ClassReference(Strict):
    """A class that is loaded by name, and what it is made with."""

    name: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="module:Class")
    options: dict[str, Any] = Field(default_factory=dict)
    """What the class is made with."""


class ParserRules(Strict):
    """Filters come first, so that a filtered message needs no event time; then the time, then the names."""

    time: EventTimeField | None = None
    """When a message happened; needed by names of days and hours."""
    names: tuple[NameRule, ...] = Field(default=(TimeName(by="day"),), min_length=1, max_length=8)
    """The folders, in order."""
    drop: tuple[FieldCondition, ...] = Field(
        default=(), description="a message for which any of them holds is filtered"
    )
    keep: tuple[FieldCondition, ...] = Field(default=(), description="one for which not all of them hold, too")
    tombstones: Tombstones = "refuse"
    """refuse: records without a value are set aside; drop: filtered; kafka: kept, by the Kafka timestamp."""
    transformer: ClassReference | None = None
    """A class that changes a message before it is stored."""

    @model_validator(mode="after")
    def _whole(self) -> ParserRules:
        timed = any(isinstance(rule, TimeName) for rule in self.names)
        if timed and self.time is None:
            raise ValueError("names by day or hour need `time`")
        keys = [rule.name if isinstance(rule, ContentName) else _key(rule) for rule in self.names]
        if len({key.lower() for key in keys}) != len(keys) or (timed and "hr" in keys):
            raise ValueError(f"two names of a path are the same: {', '.join(keys)}")
        return self

    def wanted(self) -> list[WantedValue]:
        """Each value that a message is read for, once; the order is that of the rules."""
        values: dict[WantedValue, None] = {}
        if self.time is not None and self.time.field is not None:
            values[time_wanted(self.time)] = None
        for rule in self.names:
            if isinstance(rule, ContentName):
                values[WantedValue(rule.field)] = None
        for condition in (*self.drop, *self.keep):
            values[WantedValue(condition.field)] = None
        return list(values)


def time_wanted(time: EventTimeField) -> WantedValue:
    """The value that is read for the event time; `field` must be there."""
    return WantedValue(time.field or (), time=True, instant=time.unit == "instant")


def _key(rule: NameRule) -> str:
    return "dt" if isinstance(rule, TimeName) else rule.by
