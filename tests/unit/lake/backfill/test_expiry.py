"""Objects that nobody reads are removed, and none that somebody reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.audit.chain.audit import audit_chain
from include.errors import Terminal, Transient
from include.lake.backfill.expiry import Expiry, UnreadObject, expire, plan_expiry
from include.lake.backfill.promotion import promote
from include.lake.backfill.run_registry import begin, run_named, standing
from include.lake.backfill.selection import BackfillSelection
from include.lake.protocol.generations import take_over
from include.lake.protocol.object_key import ObjectKey
from include.lake.protocol.pointer import change_pointer
from include.store.memory import MemoryStore
from tests.support.lake.backfill_harness import BackfillHarness, days, group, version

RIGHT = version(2, "made", from_offsets={0: 10**6})


def asked(first: str = "2024-05-01", last: str = "2024-05-31") -> BackfillSelection:
    return BackfillSelection("by_date", "events", days=days(first, last), version=2, raw="raw")


@pytest.fixture
def world(tmp_path: Path) -> BackfillHarness:
    made = BackfillHarness(tmp_path, version(1, "at"), RIGHT)
    made.make("events")
    for day in range(3):
        made.events("events", 10, day)
        made.store_all()
    return made


def clean(world: BackfillHarness) -> bool:
    report = audit_chain(world.store, world.groups, "events", world.clock.now_us())
    assert not report.findings
    return True


def test_replaced_objects_go_and_what_is_read_stays(world: BackfillHarness) -> None:
    run = begin(
        world.store, world.plan(BackfillSelection("by_date", "events", offsets={0: (0, 5)}, version=2, raw="raw"))
    )
    world.rewrite(run)
    assert plan_expiry(world.store, world.topic_key(), 1).objects == ()
    promote(world.store, run)
    read = world.read()
    found = plan_expiry(world.store, world.topic_key(), 1)
    assert (len(found.objects), found.kept, found.gives_up) == (1, 2, False)
    assert clean(world)
    removed: list[str] = []
    expire(world.store, world.store, found, lambda each: removed.append(str(each.key)))
    assert removed == [str(each.key) for each in found.objects]
    assert world.read() == read
    assert len(world.objects(1)) == 2
    assert clean(world)
    assert plan_expiry(world.store, world.topic_key(), 2).objects == ()
    # Its commits are still there: a later backfill keeps to the same cuts.
    again = begin(world.store, world.plan(asked()), "again")
    world.rewrite(again)
    promote(world.store, again)
    assert sorted(world.read()) == sorted(set(world.read()))
    assert clean(world)


def test_a_backfill_that_is_given_up_cannot_be_promoted_afterwards(world: BackfillHarness) -> None:
    run = begin(world.store, world.plan(asked()), "mine")
    world.rewrite(run)
    read = world.read()
    found = plan_expiry(world.store, world.topic_key(), 2)
    assert (len(found.objects), found.kept, found.gives_up) == (3, 0, True)
    assert "it is a backfill that was not promoted" in found.lines()[-1]
    expire(world.store, world.store, found)
    assert (world.objects(2), world.read()) == ({}, read)
    assert standing(world.pointer(), run) == "given up"
    for _ in range(2):
        with pytest.raises(Terminal, match="has its entry already"):
            promote(world.store, run_named(world.store, world.topic_key(), "mine"), accept=True)
        with pytest.raises(Terminal, match="was given up"):
            begin(world.store, world.plan(asked()), "mine")
    expire(world.store, world.store, plan_expiry(world.store, world.topic_key(), 2))
    assert clean(world)


def test_a_promotion_between_plan_and_removal_stops_it(world: BackfillHarness) -> None:
    run = begin(world.store, world.plan(asked()), "mine")
    world.rewrite(run)
    found = plan_expiry(world.store, world.topic_key(), 2)
    promote(world.store, run)
    with pytest.raises(Terminal, match="promoted meanwhile"):
        expire(world.store, world.store, found)
    assert len(world.objects(2)) == 3


def test_an_object_that_is_read_is_not_removed_whatever_the_plan_says(world: BackfillHarness) -> None:
    run = begin(world.store, world.plan(asked()), "mine")
    world.rewrite(run)
    promote(world.store, run)
    key = next(info for info in world.store.list("by_date/events/") if "/2_" in info.key)
    unread = UnreadObject(ObjectKey.parse(key.key, "by_date"), key.size_bytes)
    wrong = Expiry(world.topic_key(), 2, (unread,), 0, gives_up=False)
    with pytest.raises(Terminal, match="readers read is not removed"):
        expire(world.store, world.store, wrong)
    assert len(world.objects(2)) == 3


def test_an_expiry_goes_on_after_a_crash(world: BackfillHarness) -> None:
    run = begin(world.store, world.plan(asked()), "mine")
    world.rewrite(run)

    class Dies(Exception):
        pass

    class Eraser:
        left = 2

        def delete(self, key: str) -> None:
            self.left -= 1
            if not self.left:
                raise Dies
            world.store.delete(key)

    with pytest.raises(Dies):
        expire(world.store, Eraser(), plan_expiry(world.store, world.topic_key(), 2))
    assert len(world.objects(2)) == 2
    expire(world.store, world.store, plan_expiry(world.store, world.topic_key(), 2))
    assert world.objects(2) == {}


def test_what_an_older_revision_wrote_behind_the_new_one_goes_too(
    world: BackfillHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It looks every few seconds whether it was overtaken; here it is between two looks.
    monkeypatch.setattr("include.lake.writing.driver.require_current", lambda *_: None)
    old = world.by_date
    new = world.partitioned(group(version(1, "at"), RIGHT, revision=2))
    world.store_all(new)
    world.events("events", 4, 2)
    world.groups["by_date"] = group(version(1, "at"), RIGHT)
    world.store_all(world.driver, old)
    world.partitioned(group(version(1, "at"), RIGHT, revision=2))
    world.store_all(new)
    read = world.read()
    found = plan_expiry(world.store, world.topic_key(), 1)
    assert (len(found.objects), found.kept) == (1, 3)
    expire(world.store, world.store, found)
    assert world.read() == read


def test_a_generation_that_is_about_to_take_over_is_left_alone(world: BackfillHarness) -> None:
    topic = world.topic_key()
    change_pointer(world.store, topic, lambda now: now.reserve("revision 2", "live"))
    with pytest.raises(Terminal, match="about to take over"):
        plan_expiry(world.store, topic, 2)
    assert take_over(world.store, topic, 2, 1, lambda chains: dict.fromkeys(chains, 99)).generation == 2


def test_marks_and_other_topics_are_left_alone(world: BackfillHarness) -> None:
    run = begin(world.store, world.plan(asked()), "mine")
    world.rewrite(run)
    others = ["by_date/events/dt=2024-05-01/_SUCCESS", "by_date/events/dt=2024-05-01/2_0_x", "by_date/events2/2_0_x"]
    for key in others:
        world.store.put(key, b"")
    expire(world.store, MemoryStore(), plan_expiry(world.store, world.topic_key(), 2))
    found = plan_expiry(world.store, world.topic_key(), 2)
    assert {str(each.key) for each in found.objects} & set(others) == set()


class _Busy:
    """Refuses each removal at first, as a server does whose folder is filled meanwhile."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.asked = store, list[str]()

    def delete(self, key: str) -> None:
        self.asked.append(key)
        if self.asked.count(key) == 1:
            raise Transient("the object store failed", system="s3")
        self.store.delete(key)


def test_a_removal_that_the_store_puts_off_is_tried_again(world: BackfillHarness) -> None:
    run = begin(world.store, world.plan(asked()))
    world.rewrite(run)
    promote(world.store, run)
    found = plan_expiry(world.store, world.topic_key(), 1)
    busy = _Busy(world.store)
    with pytest.raises(Transient):
        expire(world.store, busy, found)
    expire(world.store, busy, found, pause=lambda _attempt, _error: None)
    assert not plan_expiry(world.store, world.topic_key(), 1).objects
    assert clean(world)
