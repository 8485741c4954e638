"""Opens and ends a group's incidents while it is stored: losses, refused records, delay, partitions that stand still.

`kinds.py` says when each opens and ends. Late: none has been over its policy by half a minute for a minute; standing:
partitions have not gone on for ten seconds, or a run on a schedule ends so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from include.clock import Clock, iso
from include.errors import LyrebirdError
from include.incidents.kind import IncidentKind
from include.incidents.ledger import IncidentLedger
from include.lake.definition import LakeGroup
from include.lake.incidents.kinds import HANGING, LATE, LOST, LOST_CUTS, MORE_LOST, REFUSED, STANDING, next_command
from include.lake.incidents.outages import Outages
from include.lake.incidents.unreported_commits import UnreportedCuts
from include.lake.protocol.cut import Commit
from include.lake.protocol.object_key import QUARANTINE
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.driver import GroupWatcher
from include.lake.writing.planner import GroupPlanner, TopicRecreated
from include.lake.writing.task import Outcome

__all__ = ["GroupIncidents"]

_OVER_MS: Final = 60_000
_NEAR_MS: Final = 30_000
_CALM_US: Final = 60_000_000
# A topic that is deleted while it is stored stands still, too, until the next look at the topics.
_STOOD_US: Final = 10_000_000
_DAY_US: Final = 86_400_000_000
_WEEK_US: Final = 7 * _DAY_US
_MOST_LOST: Final = 20
_GROWN: Final = 10


class GroupIncidents(GroupWatcher):
    """Hears as a watcher of the group's driver, and looks at its planner once a second or so.

    Args:
        name: the group's.
        group: as it is declared.
        ledger: of the application's incidents.
        outages: of the application: systems that do not answer.
        untold: finds cuts that nobody told of, of the same group.
        clock: when things were noticed.
        beside: hears all that this one hears.
    """

    def __init__(
        self,
        name: str,
        group: LakeGroup,
        ledger: IncidentLedger,
        outages: Outages,
        untold: UnreportedCuts,
        clock: Clock,
        beside: GroupWatcher,
    ) -> None:
        self._name, self._group, self._ledger, self._clock = name, group, ledger, clock
        self._outages, self._untold, self._beside = outages, untold, beside
        self._calm_us: int | None = None
        self._failing: set[TopicIdPartition] = set()
        self._stood_us: dict[TopicIdPartition, int] = {}

    @override
    def on_outcome(self, outcome: Outcome) -> None:
        self._beside.on_outcome(outcome)
        tp = outcome.task.range.tp
        self._untold.on_outcome(outcome)
        for commit in outcome.commits:
            self._on_cut(tp, commit)
        if outcome.error is not None:
            self._failing.add(tp)
            self._outages.on_error(self._place(tp), outcome.error)
        else:
            self._failing.discard(tp)
            self._outages.on_good(self._place(tp))
            self._on_going(tp)

    @override
    def on_lost(self, remade: TopicRecreated) -> None:
        self._beside.on_lost(remade)
        self._lose(remade.tp, remade.head, remade.end, "the topic was deleted or made anew")

    @override
    def on_gone(self, tp: TopicIdPartition, first: int, until: int) -> None:
        self._beside.on_gone(tp, first, until)
        why = (
            "their commits were gone, or the log was truncated, when a newer revision took over. It stores again what "
            "Kafka has of them"
        )
        self._lose(tp, first, until, why, LOST_CUTS)

    @override
    def on_refused(self, tp: TopicIdPartition, error: LyrebirdError) -> None:
        self._beside.on_refused(tp, error)
        self._failing.add(tp)
        self._outages.on_error(self._place(tp), error, alone=True)

    @override
    def on_away(self, error: LyrebirdError) -> None:
        self._beside.on_away(error)
        self._outages.on_error(self._name, error)

    @override
    def on_back(self) -> None:
        self._beside.on_back()
        self._outages.on_good(self._name)

    def look(self, planner: GroupPlanner, *, ends: bool = False) -> None:
        """Open and end incidents by what the planner knows now; `ends`: it is the last look, of a run on a schedule."""
        for tp, commit in self._untold.found():
            self._on_cut(tp, commit)
        tps = set(planner.tps)
        for tp in self._failing - planner.failing.keys():
            # It is stored, or gone: whoever did that, nothing stands in its way.
            self._failing.remove(tp)
            self._outages.on_good(self._place(tp))
        if tps and not planner.headless():
            # Behind a restart perhaps nothing waits that could show it: log and store were asked about all of them.
            self._outages.on_good(f"{self._name}:heads")
        self._look_at_standing(planner.stopped, tps, 0 if ends else _STOOD_US)
        if self._group.run == "stream":
            self._look_at_delay(planner)
        self._look_at_transactions(planner)

    def _on_cut(self, tp: TopicIdPartition, commit: Commit) -> None:
        for gap in commit.gaps:
            if gap.kind == "lost":
                self._lose(tp, gap.first, gap.until, "retention was faster than the group")
        if commit.quarantined:
            key = next(file.key for file in commit.files if QUARANTINE in file.key.split("/"))
            self._grow(REFUSED, tp.topic, commit.quarantined, topic=tp.topic, object=key)

    def _lose(self, tp: TopicIdPartition, first: int, until: int, why: str, kind: IncidentKind = LOST) -> None:
        subject = f"{self._name}:{tp.topic_id}:{tp.partition}:{first}{':cuts' if kind is LOST_CUTS else ''}"
        if self._ledger.find(kind, subject):
            return
        lost = f"offsets {first} to {until - 1} of {tp.topic}/{tp.partition}"
        if len(self._ledger.subjects(LOST, f"{self._name}:")) < _MOST_LOST:
            self._note(kind, subject, lasts_us=_WEEK_US, topic=tp.topic, lost=lost, why=why)
        else:
            self._grow(MORE_LOST, "more", 1, topic=tp.topic, lost=lost)

    def _grow(self, kind: IncidentKind, what: str, more: int, **names: Any) -> None:
        """Count what comes again and again: told anew when it is ten times as much, and when a day has passed."""
        now_us, subject = self._clock.now_us(), f"{self._name}:{what}"
        before = self._ledger.find(kind, subject)
        count, told, fix = before.get("count", 0) + more, before.get("told", 0), before.get("fix", "")
        if not told or count >= _GROWN * told or now_us - before["at_us"] >= _DAY_US:
            self._ledger.end(kind, subject)
            told, fix = count, ""
        kept = {"count": count, "told": told, "since": before.get("since", iso(now_us))}
        words = {"count": count, "since": kept["since"], **names}
        self._note(kind, subject, fix=fix, lasts_us=_DAY_US, more=kept, **words)

    def _note(self, kind: IncidentKind, subject: str, **names: Any) -> None:
        self._ledger.note(kind, subject, group=self._name, name=self._name, **names)

    def _look_at_delay(self, planner: GroupPlanner) -> None:
        open_, now_us = bool(self._ledger.find(LATE, self._name)), self._clock.now_us()
        # What was told is over when nothing is late, also behind a restart that finds it as a backlog.
        overdue_ms = {
            tp: delay_ms for tp, delay_ms in planner.overdue_ms(now_us // 1000, whole=open_).items() if self._own(tp)
        }
        worst = max(overdue_ms, key=lambda tp: overdue_ms[tp], default=None)
        most_ms = 0 if worst is None else overdue_ms[worst]
        if most_ms > _NEAR_MS or self._outages.there:
            # What stands in a system's way says nothing of its own delay: that is neither over nor anew.
            self._calm_us = None
        elif self._calm_us is None:
            self._calm_us = now_us
        if worst is not None and most_ms > _OVER_MS:
            late = sum(delay_ms > _OVER_MS for delay_ms in overdue_ms.values())
            age_s = self._group.policy.of(worst.topic)[0].max_age_s
            waiting, why = planner.waiting(), planner.failing.get(worst)
            cause = f" {why}" if why else ""
            words = {"tp": worst, "waiting": waiting.get(worst, 0), "all": len(waiting), "late": late, "cause": cause}
            self._note(LATE, self._name, age_s=age_s + most_ms // 1000, most_s=age_s, **words)
        elif open_ and self._calm_us is not None and now_us - self._calm_us >= _CALM_US:
            self._ledger.end(LATE, self._name)

    def _look_at_transactions(self, planner: GroupPlanner) -> None:
        held_up = planner.held_up()
        if held_up is None:
            return
        # After a restart they count from its first look: those that were told by then are still the same.
        told = set(self._ledger.find(HANGING, self._name).get("places", ()))
        places = {tp: f"{tp.topic_id}/{tp.partition}@{each.hidden.stable}" for tp, each in held_up.items()}
        hanging = {
            tp: each
            for tp, each in held_up.items()
            if places[tp] in told or each.stood_ms > self._group.policy.of(tp.topic)[0].max_age_s * 1000
        }
        if not hanging:
            self._ledger.end(HANGING, self._name)
            return
        worst = max(hanging, key=lambda tp: hanging[tp].stood_ms)
        hidden, kept = hanging[worst].hidden, {"places": sorted(places[tp] for tp in hanging)}
        words = {"tp": worst, "hidden": hidden, "waiting": hidden.written - hidden.stable}
        self._note(HANGING, self._name, more=kept, hanging=len(hanging), all=len(planner.tps), **words)

    def _own(self, tp: TopicIdPartition) -> bool:
        """Whether its delay is no mere consequence of a system's trouble, which is told by itself."""
        if not self._outages.there:
            return True
        return tp in self._failing and not self._outages.at(self._place(tp))

    def _look_at_standing(
        self, stopped: Mapping[TopicIdPartition, str], tps: set[TopicIdPartition], least_us: int
    ) -> None:
        causes: dict[str, dict[TopicIdPartition, str]] = {}
        now_us = self._clock.now_us()
        self._stood_us = {tp: self._stood_us.get(tp, now_us) for tp in stopped}
        for tp, reason in stopped.items():
            if now_us - self._stood_us[tp] < least_us:
                continue
            causes.setdefault(self._cause(tp, reason), {})[tp] = reason
        then = "Then start its application again." if self._group.run == "stream" else "Then the next run goes on."
        for subject, reasons in causes.items():
            before = self._ledger.find(STANDING, subject).get("partitions", ())
            partitions = sorted({*before, *(tp.partition for tp in reasons)})
            first = min(reasons)
            fix, numbers = next_command(reasons[first], first.topic), ", ".join(map(str, partitions))
            words = {"topic": first.topic, "partitions": numbers, "reason": reasons[first].rstrip("."), "then": then}
            self._note(STANDING, subject, fix=fix, more={"partitions": partitions}, **words)
        if tps:
            there = {tp.topic_id for tp in tps}
            for subject in self._ledger.subjects(STANDING, f"{self._name}:"):
                if subject.removeprefix(f"{self._name}:").split(":")[0] not in there:
                    self._ledger.end(STANDING, subject)

    def _on_going(self, tp: TopicIdPartition) -> None:
        """A partition that stood still, before its application was started again, goes on."""
        for subject in self._ledger.subjects(STANDING, f"{self._name}:{tp.topic_id}:"):
            stood = self._ledger.find(STANDING, subject)["partitions"]
            left = [partition for partition in stood if partition != tp.partition]
            if left:
                self._ledger.amend(STANDING, subject, partitions=left)
            else:
                self._ledger.end(STANDING, subject)

    def _cause(self, tp: TopicIdPartition, reason: str) -> str:
        # Without the coordinates, which each partition has of its own.
        what = hashlib.sha256(reason.partition(" (")[0].encode()).hexdigest()[:8]
        return f"{self._name}:{tp.topic_id}:{what}"

    def _place(self, tp: TopicIdPartition) -> str:
        return f"{self._name}:{tp.topic}/{tp.partition}"
