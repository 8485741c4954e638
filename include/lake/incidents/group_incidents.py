"""What a person must know of one group while it is stored: losses, refused records, delay, partitions that stand still.

* lost: one for each range that went before it was stored; from 20 of a group on the others together. Open for a week.
* quarantine: opens with the first record of a topic that is set aside, anew when they are ten times as many, and anew
  each day while more come. Ends a day after the last one.
* late: opens when what waits is older than its policy's age and a minute, one for the group, naming the worst
  partition. Ends when none has been over its policy by half a minute for a minute. Groups on a schedule have none.
* hanging: opens when a transaction has had no end for longer than the policy's age, one for the group, naming the
  worst partition: what was written behind its begin is shown to no reader. Ends when none of them is there any more.
* standing: opens when partitions have not gone on for ten seconds and must not, or when a run on a schedule ends so,
  one for all of a topic with the same cause. Ends when they went on.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from include.clock import Clock, iso
from include.errors import LyrebirdError
from include.lake.definition import LakeGroup
from include.lake.incidents.kinds import next_command
from include.lake.incidents.outages import Troubles
from include.lake.incidents.unreported_commits import UntoldCuts
from include.lake.protocol.cut import Commit
from include.lake.protocol.object_key import QUARANTINE
from include.lake.reading.group_log import Spot
from include.lake.writing.driver import GroupWatcher
from include.lake.writing.planner import GroupPlanner, Remade
from include.lake.writing.task import Outcome
from include.log.publishing.unended import find_hanging
from include.metrics.incidents import IncidentLedger

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
    """Hears as a watcher of the group's driver, and looks at its planner once a second or so."""

    def __init__(
        self, name: str, group: LakeGroup, ledger: IncidentLedger, troubles: Troubles, untold: UntoldCuts, clock: Clock
    ) -> None:
        self._name, self._group, self._ledger, self._clock = name, group, ledger, clock
        self._troubles, self._untold = troubles, untold
        self._calm_us: int | None = None
        self._failing: dict[Spot, str] = {}
        self._stood_us: dict[Spot, int] = {}

    @override
    def on_outcome(self, outcome: Outcome) -> None:
        spot = outcome.task.range.spot
        self._untold.on_outcome(outcome)
        for commit in outcome.commits:
            self._on_cut(spot, commit)
        if outcome.error is not None:
            self._failing[spot] = str(outcome.error)
            self._troubles.on_error(self._place(spot), outcome.error)
        else:
            self._failing.pop(spot, None)
            self._troubles.on_good(self._place(spot))
            self._on_going(spot)

    @override
    def on_lost(self, remade: Remade) -> None:
        self._lose(remade.spot, remade.head, remade.end, "the topic was deleted or made anew")

    @override
    def on_away(self, error: LyrebirdError) -> None:
        self._troubles.on_error(self._name, error)

    @override
    def on_back(self) -> None:
        self._troubles.on_good(self._name)

    def look(self, planner: GroupPlanner, *, ends: bool = False) -> None:
        """Open and end incidents by what the planner knows now; `ends`: it is the last look, of a run on a schedule."""
        for spot, commit in self._untold.found():
            self._on_cut(spot, commit)
        spots = set(planner.spots)
        waiting = planner.waiting()
        for spot in [spot for spot in self._failing if spot not in spots or not waiting.get(spot, 1)]:
            # Nothing of it is left to be stored: whoever did that, nothing stands in its way.
            del self._failing[spot]
            self._troubles.on_good(self._place(spot))
        if spots and not planner.headless():
            # Behind a restart perhaps nothing waits that could show it: log and store were asked about all of them.
            self._troubles.on_good(f"{self._name}:heads")
        self._look_at_standing(planner.stopped, spots, 0 if ends else _STOOD_US)
        if self._group.run == "stream":
            self._look_at_delay(planner, waiting)
        self._look_at_transactions(planner)
        self._end_old()

    def _on_cut(self, spot: Spot, commit: Commit) -> None:
        for gap in commit.gaps:
            if gap.kind == "lost":
                self._lose(spot, gap.first, gap.until, "retention was faster than the group")
        if commit.quarantined:
            key = next(file.key for file in commit.files if QUARANTINE in file.key.split("/"))
            self._set_aside(spot.topic, commit.quarantined, key)

    def _lose(self, spot: Spot, first: int, until: int, why: str) -> None:
        key = f"lost:{self._name}:{spot.topic_id}:{spot.partition}:{first}"
        if self._ledger.find(key) is not None:
            return
        lost = f"offsets {first} to {until - 1} of {spot.topic}/{spot.partition}"
        fix = next_command("", self._name, spot.topic)
        if sum(1 for _ in self._ledger.keys(f"lost:{self._name}:")) < _MOST_LOST:
            text = f"{self._name} has lost {lost}: {why}"
            self._ledger.note(key, "lost", self._name, text, fix, until_us=self._clock.now_us() + _WEEK_US)
            return
        self._grow(
            f"lost:{self._name}:more", "lost", 1, "more ranges are lost, {count} since {since}, the last: " + lost, fix
        )

    def _set_aside(self, topic: str, records: int, key: str) -> None:
        text = f"records of {topic} are set aside, " + "{count} since {since}: the parser or the format refuses them"
        fix = f"lyrebird lake cat {shlex.quote(key)}"
        self._grow(f"quarantine:{self._name}:{topic}", "quarantine", records, text, fix)

    def _grow(self, key: str, kind: Any, count: int, text: str, fix: str) -> None:
        """Count what comes again and again: told anew when it is ten times as much, and when a day has passed."""
        now_us = self._clock.now_us()
        before = self._ledger.find(key) or {"count": 0, "told": 0, "since": iso(now_us), "at_us": now_us, "fix": fix}
        whole, told = before["count"] + count, before["told"]
        if not told or whole >= _GROWN * told or now_us - before["at_us"] >= _DAY_US:
            self._ledger.end(key)
            told = whole
        else:
            fix = before["fix"]
        words = f"{self._name}: {text.format(count=whole, since=before['since'])}"
        more = {"count": whole, "told": told, "since": before["since"], "until_us": now_us + _DAY_US}
        self._ledger.note(key, kind, self._name, words, fix, **more)

    def _end_old(self) -> None:
        for start in ("lost", "quarantine"):
            for key in self._ledger.keys(f"{start}:{self._name}:"):
                found = self._ledger.find(key)
                if found is not None and self._clock.now_us() >= found["until_us"]:
                    self._ledger.end(key)

    def _look_at_delay(self, planner: GroupPlanner, waiting: Mapping[Spot, int]) -> None:
        key, now_us = f"late:{self._name}", self._clock.now_us()
        open_ = self._ledger.find(key) is not None
        # What was told is over when nothing is late, also behind a restart that finds it as a backlog.
        overdue_ms = {
            spot: each for spot, each in planner.overdue_ms(now_us // 1000, whole=open_).items() if self._own(spot)
        }
        worst = max(overdue_ms, key=lambda spot: overdue_ms[spot], default=None)
        most_ms = 0 if worst is None else overdue_ms[worst]
        if most_ms > _NEAR_MS or self._troubles.there:
            # What stands in a system's way says nothing of its own delay: that is neither over nor anew.
            self._calm_us = None
        elif self._calm_us is None:
            self._calm_us = now_us
        if worst is not None and most_ms > _OVER_MS:
            late = sum(each > _OVER_MS for each in overdue_ms.values())
            age_s = self._group.policy.of(worst.topic)[0].max_age_s
            text = (
                f"{self._name} is late with {worst.topic}/{worst.partition}: offsets that wait: "
                f"{waiting.get(worst, 0)}, the oldest for {age_s + most_ms // 1000} s where the policy allows {age_s}; "
                f"late are {late} of {len(waiting)} partitions. {self._failing.get(worst, '')}"
            )
            self._ledger.note(key, "late", self._name, text.strip(), next_command("", self._name))
        elif open_ and self._calm_us is not None and now_us - self._calm_us >= _CALM_US:
            self._ledger.end(key)

    def _look_at_transactions(self, planner: GroupPlanner) -> None:
        key, held_up = f"hanging:{self._name}", planner.held_up()
        if held_up is None:
            return
        # After a restart they count from its first look: those that were told by then are still the same.
        told = set((self._ledger.find(key) or {}).get("places", []))
        places = {spot: f"{spot.topic_id}/{spot.partition}@{each.hidden.stable}" for spot, each in held_up.items()}
        hanging = {
            spot: each
            for spot, each in held_up.items()
            if places[spot] in told or each.stood_ms > self._group.policy.of(spot.topic)[0].max_age_s * 1000
        }
        if not hanging:
            self._ledger.end(key)
            return
        worst = max(hanging, key=lambda spot: hanging[spot].stood_ms)
        hidden = hanging[worst].hidden
        text = (
            f"{self._name} is shown nothing of {worst.topic}/{worst.partition} from offset {hidden.stable} on, as a "
            f"transaction that begins there has no end: {hidden.written - hidden.stable} offsets wait behind it, and "
            f"retention takes them unread; so it is in {len(hanging)} of {len(planner.spots)} partitions. Unless its "
            "producer still writes, abort it."
        )
        fix = find_hanging(worst.topic, worst.partition)
        self._ledger.note(key, "hanging", self._name, text, fix, places=sorted(places[spot] for spot in hanging))

    def _own(self, spot: Spot) -> bool:
        """Whether its delay is no mere consequence of a system's trouble, which is told by itself."""
        if not self._troubles.there:
            return True
        return spot in self._failing and not self._troubles.at(self._place(spot))

    def _look_at_standing(self, stopped: Mapping[Spot, str], spots: set[Spot], least_us: int) -> None:
        causes: dict[str, dict[Spot, str]] = {}
        now_us = self._clock.now_us()
        self._stood_us = {spot: self._stood_us.get(spot, now_us) for spot in stopped}
        for spot, reason in stopped.items():
            if now_us - self._stood_us[spot] < least_us:
                continue
            causes.setdefault(self._cause(spot, reason), {})[spot] = reason
        then = "Then start its application again." if self._group.run == "stream" else "Then the next run goes on."
        for key, reasons in causes.items():
            before = (self._ledger.find(key) or {}).get("partitions", [])
            first = min(reasons)
            partitions = sorted({*before, *(spot.partition for spot in reasons)})
            text = (
                f"{self._name} stands still at {first.topic}, partitions {', '.join(map(str, partitions))}: "
                f"{reasons[first].rstrip('.')}. {then}"
            )
            fix = next_command(reasons[first], self._name, first.topic)
            self._ledger.note(key, "standing", self._name, text, fix, partitions=partitions)
        if spots:
            there = {spot.topic_id for spot in spots}
            for key in self._ledger.keys(f"standing:{self._name}:"):
                if key.removeprefix(f"standing:{self._name}:").split(":")[0] not in there:
                    self._ledger.end(key)

    def _on_going(self, spot: Spot) -> None:
        """A partition that stood still, before its application was started again, goes on."""
        for key in self._ledger.keys(f"standing:{self._name}:{spot.topic_id}:"):
            found = dict(self._ledger.find(key) or {})
            left = [partition for partition in found["partitions"] if partition != spot.partition]
            if not left:
                self._ledger.end(key)
            elif left != found["partitions"]:
                words = {name: found[name] for name in ("kind", "group", "text", "fix")}
                self._ledger.note(key, **words, partitions=left)

    def _cause(self, spot: Spot, reason: str) -> str:
        # Without the coordinates, which each partition has of its own.
        what = hashlib.sha256(reason.partition(" (")[0].encode()).hexdigest()[:8]
        return f"standing:{self._name}:{spot.topic_id}:{what}"

    def _place(self, spot: Spot) -> str:
        return f"{self._name}:{spot.topic}/{spot.partition}"
