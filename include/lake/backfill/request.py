"""A backfill as a person or a DAG writes it down: texts, made into what is asked of the groups of a deployment."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from include.errors import SettingsError
from include.lake.backfill.selection import BackfillSelection, Days, Origin, parse_offsets
from include.lake.definition import Kind, LakeGroup

__all__ = ["ORIGINS", "BackfillRequest", "group_of"]

ORIGINS: Final[tuple[Origin, ...]] = get_args(Origin)


@dataclass(frozen=True)
class BackfillRequest:
    """Texts as commands have them; what is "" or None is left out.

    `since` and `until` are days (both included; one day without `until`), `as_of` a time with its zone, `group` the
    partition group and `raw` the backup group (default: the only one that has the topic; from Secor the folder of its
    archive), `run` the run's name (default: the plan's own).
    """

    topic: str
    since: str = ""
    until: str = ""
    offsets: tuple[str, ...] = ()
    version: int | None = None
    as_of: str = ""
    source: Origin = "raw"
    group: str = ""
    raw: str = ""
    topic_id: str = ""
    run: str = ""

    def asked(self, groups: Mapping[str, LakeGroup]) -> BackfillSelection:
        """What is asked for of these groups, all that are declared; `SettingsError` for what cannot be."""
        if self.until and not self.since:
            raise SettingsError("a last day without a first one", until=self.until, fix="Give --from, too.")
        first = _day(self.since) if self.since else None
        return BackfillSelection(
            group=group_of(groups, self.topic, "partition", self.group, "--group"),
            topic=self.topic,
            days=None if first is None else Days(first, _day(self.until) if self.until else first),
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

    def arguments(self) -> list[str]:
        """Of a command or a program that takes a request: the same one."""
        texts = {
            "--from": self.since,
            "--to": self.until,
            "--version": "" if self.version is None else str(self.version),
            "--as-of": self.as_of,
            "--source": self.source,
            "--group": self.group,
            "--raw": self.raw,
            "--topic-id": self.topic_id,
            "--run": self.run,
        }
        given = [part for name, value in texts.items() if value for part in (name, value)]
        return [self.topic, *given, *(part for each in self.offsets for part in ("--offsets", each))]

    @classmethod
    def parse(cls, arguments: Sequence[str] | None, description: str) -> BackfillRequest:
        """Inverse of `arguments`, for a program; ends it with its usage for anything else."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )
        parser.add_argument("topic")
        parser.add_argument("--from", dest="since", default="", help="first day")
        parser.add_argument("--to", dest="until", default="", help="last day, included; default: the first")
        parser.add_argument("--offsets", action="append", default=[], help="partition:from-until; again for another")
        parser.add_argument("--version", type=int, help="of the parser")
        parser.add_argument("--as-of", default="", help="the parser as it was declared then")
        parser.add_argument("--source", choices=ORIGINS, default="raw", help="where records come from")
        parser.add_argument("--group", default="", help="the partition group")
        parser.add_argument("--raw", default="", help="the backup group")
        parser.add_argument("--topic-id", default="", help="of a topic that was made anew")
        parser.add_argument("--run", default="", help="the run's name")
        found = vars(parser.parse_args(arguments))
        return cls(**{**found, "offsets": tuple(found["offsets"])})


def group_of(groups: Mapping[str, LakeGroup], topic: str, kind: Kind, name: str, option: str) -> str:
    """The group that is named, or the only one of the kind that has the topic."""
    found = [each for each, group in groups.items() if group.kind == kind and group.wants(topic)]
    chosen = [each for each in found if name in ("", each)]
    if not found:
        raise SettingsError(
            f"no {kind} group has this topic",
            topic=topic,
            groups=sorted(each for each, group in groups.items() if group.kind == kind),
            fix="Name another topic, or declare a group for it; `lyrebird lake policy` lists groups and their topics.",
        )
    if len(chosen) != 1:
        raise SettingsError(
            f"which {kind} group has this topic?" if chosen else f"no such {kind} group has this topic",
            topic=topic,
            **({"got": name} if name else {}),
            allowed=sorted(found),
            fix=f"Name one by {option}.",
        )
    return chosen[0]


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SettingsError("not a day", got=text, fix="Write YYYY-MM-DD.") from None


def _time(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError("not a time", got=text, fix="Write it as 2026-11-21T00:00Z.") from None
