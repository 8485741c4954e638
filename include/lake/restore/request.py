"""A restore as a person writes it down: texts, made into what is asked of the groups of a deployment."""

from __future__ import annotations

from include.lake.backfill.selection import days_of, parse_offsets
from include.lake.restore.plan import RestoreAsked
from include.log.topics import declared
from include.settings.run import DATE, Names, RunParams, knob

__all__ = ["RestoreRequest"]


class RestoreRequest(RunParams):
    """What is written again, where to, and how."""

    topic: str = knob("Its name in Kafka.", option="TOPIC")
    target: str = knob("The topic to write; made with as many partitions, if need be.", option="--to")
    since: str = knob(
        "First day, by the records' Kafka timestamps. Default: all records.", "", option="--from", schema=DATE
    )
    until: str = knob("Last day, included. Default: the first.", "", schema=DATE)
    zone: str = knob("Whose days.", "UTC")
    offsets: Names = knob("Instead of days: partition:from-until.", ())
    partitions: int | None = knob("How many TOPIC had, where Kafka has it no more.", None, ge=1)
    group: str = knob("The backup group. Default: the only one with the topic.", "", among="group")
    topic_id: str = knob("Of a topic that was made anew: which life.", "")
    groups: str = knob("Consumer groups of TOPIC whose offsets are translated: a,b.", "")
    keep_ids: bool = knob("Leave the ids of schemas in keys and values as they are.", False)

    def asked(self, *, keep_ids: bool) -> RestoreAsked:
        """What is asked for; `SettingsError` for what cannot be. `keep_ids`: whether it can do nothing else."""
        days, offsets = days_of(self.since, self.until), parse_offsets(self.offsets)
        return RestoreAsked(
            self.topic, declared(self.target), days, self.zone, offsets, keep_ids=keep_ids or self.keep_ids
        )

    @property
    def consumer_groups(self) -> tuple[str, ...]:
        """Those of `groups`."""
        return tuple(name for name in (each.strip() for each in self.groups.split(",")) if name)
