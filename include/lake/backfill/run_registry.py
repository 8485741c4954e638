"""Runs of backfills: each has a name, a plan that is kept under it, and generations of its own.

    <prefix>/_backfill/<topic>~<topic id>/<run>/plan

A run begins in this order, and begins again at 1 after a crash:
 1. keep the plan under the run's name, unless one is kept there
 2. reserve a generation for each live one that it replaces cuts of
and only then writes. Readers learn nothing of it before it is promoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from include.errors import SettingsError, Terminal
from include.lake.backfill.plan import BackfillPlan
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.generations import least_generation
from include.lake.protocol.pointer import ReadersPointer, change_pointer, read_pointer
from include.store.object_store import ObjectStore

__all__ = ["Run", "Standing", "begin", "run_named", "standing"]

Standing = Literal["open", "promoted", "given up"]
"""open: written, or to be; promoted: readers follow it; given up: it never will be, and `lake expire` removes it."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Run:
    """A run that has begun. `generations`: by the live generation whose cuts they stand in for."""

    name: str
    plan: BackfillPlan
    generations: Mapping[int, int]


def begin(store: ObjectStore, plan: BackfillPlan, name: str = "") -> Run:
    """The run of that name (default: the plan's own), begun or gone on with.

    Where it has begun, the plan that it began with holds: what was committed since is no part of it. Raises `Terminal`
    where that one was asked for something else, by another parser, or is given up.
    """
    name = name or plan.run
    key = _key(plan.topic, name)
    # 1. Keep the plan.
    if store.put_if_absent(key, plan.to_bytes()) is None:
        kept = _kept(store, plan.topic, name)
        if kept.asked != plan.asked:
            raise Terminal(
                "another backfill has this name",
                run=name,
                asked=f"{kept.asked.what}, parser {kept.asked.parser}, from {kept.asked.origin}",
                fix="Give this one another: --run.",
            )
        if kept.configuration != plan.configuration:
            raise Terminal(
                "the parser was changed since this backfill began",
                run=name,
                asked=kept.asked.parser,
                fix="Begin another one (--run); a generation has one parser.",
            )
        plan = kept
    # 2. Reserve.
    least = least_generation(store, plan.topic)
    pointer = change_pointer(store, plan.topic, lambda now: _reserved(now, plan, name, least))
    run = Run(name, plan, _generations(pointer, plan, name))
    if standing(pointer, run) == "given up":
        raise Terminal("this backfill was given up", run=name, fix="Begin another one: --run.")
    return run


def run_named(store: ObjectStore, topic: TopicKey, name: str) -> Run:
    """The run of that name; `Terminal` with the names that there are."""
    plan = _kept(store, topic, name)
    pointer = read_pointer(store, topic)
    generations = _generations(pointer, plan, name)
    if len(generations) < len(plan.by_replaced()):
        raise Terminal(
            "this backfill was planned, and has not begun", run=name, fix="Run it: `lyrebird lake backfill`."
        )
    return Run(name, plan, generations)


def standing(pointer: ReadersPointer, run: Run) -> Standing:
    """How readers' pointer knows it."""
    entries = [each for each in pointer.entries if each.generation in run.generations.values()]
    if not entries:
        return "open"
    return "promoted" if any(each.cuts for each in entries) else "given up"


def _folder(topic: TopicKey) -> str:
    below = f"_backfill/{topic.topic}~{topic.topic_id}/"
    return f"{topic.prefix}/{below}" if topic.prefix else below


def _key(topic: TopicKey, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SettingsError(
            "no name of a backfill", got=name, allowed="1 to 100 letters, digits, . _ -", fix="Give another: --run."
        )
    return f"{_folder(topic)}{name}/plan"


def _kept(store: ObjectStore, topic: TopicKey, name: str) -> BackfillPlan:
    key = _key(topic, name)
    stored = store.get(key)
    if stored is None:
        folder = _folder(topic)
        plans = (info.key.removeprefix(folder) for info in store.list(folder) if info.key.endswith("/plan"))
        names = [plan.removesuffix("/plan") for plan in plans]
        fix = "Name one of them." if names else "The topic has none: begin one by `lyrebird lake backfill`."
        raise Terminal("no backfill of this name", run=name, topic=topic.topic, allowed=names, fix=fix)
    return BackfillPlan.parse(stored.body, key)


def _by(name: str, replaces: int) -> str:
    return f"backfill {name} of {replaces}"


def _reserved(now: ReadersPointer, plan: BackfillPlan, name: str, least: int) -> ReadersPointer:
    for replaces in plan.by_replaced():
        now = now.reserve(_by(name, replaces), "backfill", least=least)
    return now


def _generations(pointer: ReadersPointer, plan: BackfillPlan, name: str) -> dict[int, int]:
    found = {replaces: pointer.reservation(_by(name, replaces)) for replaces in plan.by_replaced()}
    return {replaces: taken.generation for replaces, taken in found.items() if taken is not None}
