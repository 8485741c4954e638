from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from include.lake.protocol import commit_protocol as protocol
from include.lake.protocol import commit_rules as adoption
from include.lake.protocol.object_key import ObjectKey
from tests.support.lake.model.invariants import faults
from tests.support.lake.model.log import SAFEGUARDS, TOPIC
from tests.support.lake.model.simulation import LakeSimulation, world_of
from tests.support.lake.model.workers import body_of

SCHEDULES = 500
BLOCK = 125


def first_fault(sentence: str, *, without: str = "", start: int = 0, most: int = 1500) -> str:
    """The first fault of this kind that the model finds; "" when it finds none. `start` skips what has none."""
    for seed in range(start, start + most):
        world = world_of(seed, without).run(most=3000)
        for fault in faults(world):
            if re.search(sentence, fault):
                return fault
    return ""


@pytest.mark.parametrize("start", range(0, SCHEDULES, BLOCK))
def test_no_schedule_loses_or_doubles_a_record(start: int) -> None:
    found = {seed: faults(world_of(seed).run()) for seed in range(start, start + BLOCK)}
    assert {seed: each for seed, each in found.items() if each} == {}


def test_the_schedules_reach_what_they_are_for() -> None:
    worlds = [world_of(seed).run() for seed in range(60)]
    written = [(key, world.store.get(key)) for world in worlds for key in world.store.writes]
    commits = b"\n".join(found.body for key, found in written if found and key.endswith(".commit"))
    for what in (
        b",true]",
        b'"lost"',
        b'"before"',
        b",0,null,null",
        b'"quarantined":2',
        b'"filtered":1',
        b'"config":"1"',
    ):
        assert what in commits
    assert any(b'"reason":"size"' in found.body for key, found in written if found and key.endswith(".intent"))
    assert any(world.start_of(2) for world in worlds[1::2])
    assert any(world.start_of(7) is not None for world in worlds[::3])


def test_every_safeguard_has_its_test() -> None:
    assert set(SAFEGUARDS) == set(re.findall(r'without="([a-z ]+)"', Path(__file__).read_text(encoding="utf-8")))


def test_without_an_intent_records_are_doubled() -> None:
    assert first_fault("is read 2 times|is in no commit", without="intent")


def test_a_loser_that_keeps_its_own_end_leaves_objects_that_nothing_lists() -> None:
    assert first_fault("is in no commit|which do not belong there", without="adopted end")


def test_an_object_adopted_unseen_is_not_what_its_commit_says() -> None:
    assert first_fault("has not the records that its commit says", without="comparison")


def test_files_written_over_others_are_not_what_their_commit_says() -> None:
    assert first_fault("is not as its commit says", without="data condition")


def test_commits_written_over_others_change_after_they_were_read() -> None:
    assert first_fault(r"\.commit was changed after others could read it", without="commit condition")


def test_a_lost_answer_taken_for_success_loses_records() -> None:
    assert first_fault("is lost", without="lost answers")


def test_a_name_left_free_lets_a_sleeper_write_what_nothing_lists() -> None:
    assert first_fault("is in no commit", without="closed names")


def test_a_checkpoint_that_is_believed_leaves_a_hole() -> None:
    assert first_fault("the one before ends at", without="head")
    assert first_fault("is lost", without="head")


def test_another_parser_in_the_midst_of_a_cut_is_found_out_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_fault("told apart otherwise", without="parser")
    monkeypatch.setattr(protocol, "check_reread", lambda *_: None)
    assert first_fault("which do not belong there", without="parser")


def test_a_backfill_over_cuts_that_live_has_left_hides_records() -> None:
    assert first_fault("is lost", without="whole cuts", start=120)


def test_gaps_that_are_not_handed_on_are_losses_that_nothing_tells_of() -> None:
    assert first_fault("is lost", without="gaps", start=300)


def test_files_read_before_the_intent_was_known_are_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "fits", lambda *_: True)
    assert first_fault("is in no commit|which do not belong there|a worker stopped")


def planted(seed: int) -> LakeSimulation:
    """A world where something else has written an object of ours: with another intent, other offsets."""
    world = LakeSimulation(seed)
    for folder in ("dt=2026-11-20", "dt=2026-11-21", "dt=2026-11-22"):
        key = str(ObjectKey(TOPIC.prefix, TOPIC.topic, (folder,), 1, 3, 0, ".seq"))
        world.store.put(
            key,
            body_of(1, [0]).encode(),
            metadata={"intent": "0" * 32, "sha256": "0" * 64, "records": "1", "first": "0", "last": "0"},
        )
    return world.run(most=3000)


def test_an_object_of_somebody_else_stops_the_worker_before_it_commits() -> None:
    world = planted(5)
    assert world.stopped
    assert all("none of this cut" in text for text in world.stopped)
    assert not [key for key in world.store.writes if key.endswith(".commit")]


def test_an_object_of_somebody_else_taken_for_ours_would_be_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = adoption.judge

    def trusting(file, found, promise, promised):
        return real(file, found._replace(metadata={**found.metadata, "intent": promise}), promise, promised)

    monkeypatch.setattr(protocol, "judge", trusting)
    texts = itertools.chain.from_iterable(faults(planted(seed)) for seed in range(40))
    assert any("is not as its commit says" in text for text in texts)
