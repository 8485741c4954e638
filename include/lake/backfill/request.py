"""A backfill as a person or a DAG writes it down: texts, made into what is asked of the groups of a deployment."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from include.errors import SettingsError
from include.lake.backfill.selection import BackfillOrigin, BackfillSelection, days_of, parse_offsets
from include.lake.definition import GroupKind, LakeGroup
from include.settings.run import DATE, NULL, RunParams, knob

__all__ = ["BackfillRequest", "group_of"]

OffsetRange = Annotated[str, Field(json_schema_extra={"pattern": "^[0-9]+:[0-9]+-[0-9]+$"})]


class BackfillRequest(RunParams):
    """What is made again; "" or None: as each text says.

    From Secor `raw` is the folder of its archive. `topic_id` and `run` are of commands and programs alone.
    """

    topic: str = knob("Its name in Kafka.", "", option="TOPIC", schema={"pattern": "^[A-Za-z0-9._-]+$"})
    since: str = knob(
        "First day, in the parser's zone: every cut with a record of the days is made again. Empty in a run of "
        "Airflow's backfill: its own day.",
        "",
        title="From",
        param="from",
        option="--from",
        schema=DATE,
    )
    until: str = knob("Last day, included. Default: the first.", "", title="To", param="to", option="--to", schema=DATE)
    offsets: tuple[OffsetRange, ...] = knob("Instead of days: partition:from-until.", (), schema=NULL)
    version: int | None = knob(
        "The parser's version. Default: as the deployment files declare it now.",
        None,
        title="Parser version",
        schema={"minimum": 1},
    )
    as_of: str = knob(
        "Instead of a version: the parser as it was declared at a time, 2026-11-21T00:00Z.",
        "",
        title="Parser as of",
        schema={"format": "date-time"},
    )
    source: BackfillOrigin = knob(
        "raw: objects of the backup group; kafka: the log, while it has them; secor: its archive.", "raw"
    )
    raw: str = knob(
        "The backup group (default: the only one with the topic), or the folder of Secor's archive.",
        "",
        title="Raw copy",
    )
    group: str = knob("The partition group. Default: the only one with the topic.", "", among="partition group")
    topic_id: str = knob("Of a topic that was made anew: which life.", "", param=None)
    run: str = knob(
        "The run's name: the same goes on where it ended. Default: a name made of the plan.", "", param=None
    )

    def asked(self, groups: Mapping[str, LakeGroup]) -> BackfillSelection:
        """What is asked for of these groups, all that are declared; `SettingsError` for what cannot be."""
        return BackfillSelection(
            group=group_of(groups, self.topic, "partition", self.group, "--group"),
            topic=self.topic,
            days=days_of(self.since, self.until),
            offsets=parse_offsets(self.offsets),
            version=self.version,
            as_of=_time(self.as_of) if self.as_of else None,
            origin=self.source,
            raw=self._raw(groups),
        )

    def _raw(self, groups: Mapping[str, LakeGroup]) -> str:
        if self.source == "raw":
            return group_of(groups, self.topic, "backup", self.raw, "--raw")
        if self.source == "secor" and not self.raw:
            raise SettingsError("where is Secor's archive?", fix="Name its folder in the bucket: --raw.")
        return self.raw.strip("/") if self.source == "secor" else ""


def group_of(groups: Mapping[str, LakeGroup], topic: str, kind: GroupKind, name: str, option: str) -> str:
    """The group that is named, or the only one of the kind that has the topic."""
    candidates = [candidate for candidate, group in groups.items() if group.kind == kind and group.wants(topic)]
    chosen = [candidate for candidate in candidates if name in ("", candidate)]
    if not candidates:
        raise SettingsError(
            f"no {kind} group has this topic",
            topic=topic,
            groups=sorted(candidate for candidate, group in groups.items() if group.kind == kind),
            fix="Name another topic, or declare a group for it; `lyrebird lake policy` lists groups and their topics.",
        )
    if len(chosen) != 1:
        raise SettingsError(
            f"which {kind} group has this topic?" if chosen else f"no such {kind} group has this topic",
            topic=topic,
            **({"got": name} if name else {}),
            allowed=sorted(candidates),
            fix=f"Name one by {option}.",
        )
    return chosen[0]


def _time(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError("not a time", got=text, fix="Write it as 2026-11-21T00:00Z.") from None
