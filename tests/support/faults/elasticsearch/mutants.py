"""Deliveries that lack one rule each, as wrappers around the real one: a simulation has to find each of them out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from include.index.bulk.sender import DeliveryResult
from include.index.server.port import BulkAnswer, ItemAnswer
from tests.support.faults.elasticsearch.node import in_memory
from tests.support.faults.elasticsearch.simulation import NAME, Send, Simulation, Stage

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`send` is put around the real one; `stage` replaces what passes a line."""

    name: str
    send: Callable[[Send], Send] | None = None
    stage: Stage | None = None

    def run(self, simulation: Simulation) -> None:
        """Run the simulation with it."""
        real = in_memory(simulation.node, NAME, simulation.clock)
        simulation.run(self.send(real) if self.send else real, self.stage)


def _no_version(real: Send) -> Send:
    def send(lines: bytes) -> BulkAnswer:
        rows = lines.split(b"\n")
        for i in range(0, len(rows) - 1, 2):
            action = json.loads(rows[i])
            rows[i] = json.dumps({"index": {"_id": action["index"]["_id"]}}).encode()
        return real(b"\n".join(rows))

    return send


def _all_again_for_one(real: Send) -> Send:
    def send(lines: bytes) -> BulkAnswer:
        answer = real(lines)
        return BulkAnswer(429) if any(each.status == 429 for each in answer.items or ()) else answer

    return send


def _dropped_when_too_large(real: Send) -> Send:
    def send(lines: bytes) -> BulkAnswer:
        answer = real(lines)
        return BulkAnswer(200, [ItemAnswer(201)] * (lines.count(b"\n") // 2)) if answer.status == 413 else answer

    return send


def _failures_unseen(real: Send) -> Send:
    def send(lines: bytes) -> BulkAnswer:
        answer = real(lines)
        return BulkAnswer(200, [ItemAnswer(201)] * len(answer.items)) if answer.items else answer

    return send


def _first_items(real: Send) -> Send:
    def send(lines: bytes) -> BulkAnswer:
        answer = real(lines)
        missing = lines.count(b"\n") // 2 - len(answer.items or ())
        return BulkAnswer(200, [*answer.items, *[ItemAnswer(201)] * missing]) if answer.items is not None else answer

    return send


def _counted(out: DeliveryResult) -> int:
    return len(out.done) + len(out.stale) + len(out.dead)


MUTANTS: Final = (
    Mutant("no version", _no_version),
    Mutant("a count of settled lines taken for a prefix", stage=_counted),
    Mutant("one 429 sends all again", _all_again_for_one),
    Mutant("413 drops", _dropped_when_too_large),
    Mutant("200 is success of all", _failures_unseen),
    Mutant("fewer items than lines are not noticed", _first_items),
)
