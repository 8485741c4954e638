"""Incidents of the lake: each opens once, stays one over restarts, ends, and opens anew the next time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from include.clock import ManualClock
from include.errors import BackPressure, Fenced, Terminal, Transient
from include.incidents.kind import Incident
from include.incidents.ledger import IncidentLedger
from include.lake.definition import LakeGroup
from include.lake.incidents.incidents import LakeIncidents
from include.lake.incidents.kinds import LeftStanding, next_command
from include.lake.incidents.outages import Outages
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit, CutObject, Gap
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.driver import Driver
from include.lake.writing.planner import GroupPlanner, Range, TopicRecreated
from include.lake.writing.task import Outcome, Task
from tests.support.lake.harness import GROUP, LakeHarness
from tests.support.run_folder import MemoryRunFolder

S3 = {"system": "s3", "bucket": "lake", "endpoint": "http://store"}
KAFKA_AWAY = Transient("Kafka does not answer", system="kafka")
LOST = TopicIdPartition("events", "id", 3)


class Scenario:
    """A group that is driven, and looked at once a second."""

    def __init__(self, folder: Path, group: LakeGroup = GROUP) -> None:
        self.world, self.folder, self.group = LakeHarness(folder), MemoryRunFolder(), group
        self.world.make("events", 2)
        self.restart()

    def restart(self) -> None:
        world = self.world
        world.submitted.clear()
        self.incidents = LakeIncidents("lake", self.folder, world.clock)
        self.watcher = self.incidents.of("raw", self.group, self.cuts, world)
        world.driver = Driver("raw", self.group, world, world.store, world, world.clock, self.watcher, "here")

    def cuts(self, chain: ChainKey, since: int) -> Iterable[Commit]:
        return Chain(self.world.store, chain).commits(since, contiguous=False)

    def tp(self, partition: int = 0) -> TopicIdPartition:
        (info,) = self.world.topics()
        return TopicIdPartition("events", info.named_id, partition)

    def run(self, seconds: float) -> list[Incident]:
        found: list[Incident] = []
        for _ in range(int(seconds)):
            self.world.run_for(1)
            found = self.look()
        return found

    def look(self) -> list[Incident]:
        return self.incidents.look({"raw": self.world.driver.planner})

    def hear(self, *commits: Commit, tp: TopicIdPartition = LOST) -> list[Incident]:
        task = Task("raw", "raw", Range(tp, commits[0].first, commits[-1].next, "age", ""), 1, 0, 100, 10, "w")
        self.watcher.on_outcome(Outcome(task, commits[-1].next, commits))
        return self.look()


@pytest.fixture
def scene(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path)


def cut(first: int, until: int, *, lost: int = 0, refused: int = 0, key: str = "") -> Commit:
    key = key or f"raw/events/_quarantine/1_3_{first:020}"
    files = (CutObject(key, 9, "0" * 64, refused, first, first, None, None),) if refused else ()
    gaps = (Gap(first, first + lost, "lost"),) if lost else ()
    return Commit(first, until, "0" * 32, refused, 0, refused, None, None, gaps, None, "c", {}, files)


def only(found: list[Incident]) -> Incident:
    (one,) = found
    return one


def test_each_lost_range_is_told_once_and_a_restart_changes_nothing(scene: Scenario) -> None:
    first = only(scene.hear(cut(5, 9, lost=2)))
    assert (first.kind, first.group, first.fix) == (
        "lost",
        "raw",
        "lyrebird lake status --group raw --topic events",
    )
    assert first.text == "raw has lost offsets 5 to 6 of events/3: retention was faster than the group"
    scene.restart()
    assert [each.id for each in scene.hear(cut(5, 9, lost=2))] == [first.id]
    assert len(scene.hear(cut(20, 29, lost=1))) == 2
    scene.world.clock.advance(8 * 86_400)
    assert scene.look() == []


def test_an_object_of_one_partition_that_the_store_refuses_is_told_until_it_is_given(scene: Scenario) -> None:
    tp = scene.tp()
    scene.world.write("events", 3)
    scene.run(3)
    planner, archived = scene.world.driver.planner, Terminal("an object lies in an archive", **S3, key="raw/x")
    planner.on_refused(tp, scene.world.clock.now_us() // 1000 + 90_000, str(archived))
    scene.watcher.on_refused(tp, archived)
    one = only(scene.run(70))
    assert (one.kind, one.severity) == ("store", "warning")
    assert "an object lies in an archive" in one.text
    assert scene.run(160) == []


def test_an_object_that_is_refused_says_nothing_of_the_delay_of_others() -> None:
    clock = ManualClock(1)
    outages = Outages("lake", IncidentLedger(MemoryRunFolder(), clock), clock)
    archived = Terminal("an object lies in an archive", **S3, key="raw/x")
    outages.on_error("raw:events/0", archived, alone=True)
    assert (outages.there, outages.at("raw:events/0")) == (False, True)
    outages.on_error("raw:events/1", archived)
    assert outages.there
    outages.on_good("raw:events/1")
    assert not outages.there
    outages.on_good("raw:events/0")
    outages.on_error("raw:events/0", archived)
    assert outages.there


def test_cuts_that_were_gone_when_a_revision_took_over_are_told_beside_what_kafka_lacks_of_them(
    scene: Scenario,
) -> None:
    scene.watcher.on_gone(LOST, 0, 45)
    one = only(scene.look())
    assert (one.kind, one.severity, one.fix) == ("lost", "critical", "lyrebird audit chain events")
    assert one.text.startswith("raw has lost cuts with offsets 0 to 44 of events/3: their commits were gone")
    scene.restart()
    scene.watcher.on_gone(LOST, 0, 45)
    assert [each.id for each in scene.look()] == [one.id]
    both = scene.hear(cut(0, 45, lost=30))
    assert "raw has lost offsets 0 to 29 of events/3: retention was faster than the group" in {
        each.text for each in both
    }
    assert len(both) == 2


def test_a_transaction_without_an_end_is_told_once_it_is_older_than_the_policy_allows(scene: Scenario) -> None:
    world = scene.world
    world.write("events", 3)
    scene.run(70)
    writer = world.memory.writer("shop")
    writer.begin()
    writer.append("events", b"k", b"v", partition=0)
    assert scene.run(60) == []
    world.write("events", 5)
    one = only(scene.run(20))
    assert (one.kind, one.group) == ("hanging", "raw")
    assert one.text.startswith("raw is shown nothing of events/0 from offset 4 on, as a transaction that begins there")
    assert "in 1 of 2 partitions" in one.text
    assert one.fix == "kafka-transactions.sh --bootstrap-server … find-hanging --topic events --partition 0"
    scene.restart()
    assert [each.id for each in scene.run(15)] == [one.id]
    writer.abort()
    assert scene.run(70) == []


def test_a_run_on_a_schedule_goes_by_the_first_record_that_is_hidden(tmp_path: Path) -> None:
    scene = Scenario(tmp_path, GROUP.model_copy(update={"run": "schedule"}))
    world = scene.world
    writer = world.memory.writer("shop")
    writer.begin()
    writer.append("events", b"k", b"v", partition=0)
    world.begun = world.clock.now_us() // 1000
    world.clock.advance(50)
    world.driver.freeze()
    assert scene.look() == []
    for _ in range(2):
        world.clock.advance(3_600)
        scene.restart()
        world.driver.freeze()
        assert only(scene.look()).kind == "hanging"
    writer.abort()
    scene.restart()
    world.driver.freeze()
    assert scene.look() == []


def test_transactions_that_end_in_time_are_none_though_there_is_always_one(scene: Scenario) -> None:
    world = scene.world
    for _ in range(5):
        writer = world.memory.writer("shop")
        writer.begin()
        writer.append("events", b"k", b"v", partition=0)
        assert scene.run(40) == []
        writer.commit()


def test_a_topic_that_went_with_its_records_is_a_loss(scene: Scenario) -> None:
    scene.watcher.on_lost(TopicRecreated(LOST, 9, 12))
    one = only(scene.look())
    assert one.text == "raw has lost offsets 9 to 11 of events/3: the topic was deleted or made anew"


def test_what_lies_below_a_chains_begin_is_no_loss(scene: Scenario) -> None:
    before = Commit(0, 9, "0" * 32, 0, 0, 0, None, None, (Gap(0, 5, "before"),), None, "c", {}, ())
    assert scene.hear(before) == []


def test_losses_beyond_twenty_are_told_together(scene: Scenario) -> None:
    for first in range(100, 1_000, 10):
        found = scene.hear(cut(first, first + 10, lost=3))
    assert len(found) == 21
    assert "raw: more ranges are lost, 70 since " in found[-1].text
    # At 1, 10 and so on: not 70 mails.
    assert len({each.id for each in found}) == 21


def test_a_loss_that_only_the_chain_knows_is_found_there(scene: Scenario) -> None:
    """The task that met it was lost with its host, and its next one tells nothing of it."""
    world = scene.world
    world.write("events", 250)
    scene.run(3)
    world.write("events", 450)
    world.memory.truncate("events", 0, 330)
    scene.world.driver.step()
    (task,) = [each for each in world.submitted if each.range.tp.partition == 0]
    world.submitted.clear()
    assert world.run(task).commits[0].gaps == (Gap(200, 330, "lost"),)
    scene.restart()
    found = scene.run(70)
    assert [each.text for each in found] == [
        "raw has lost offsets 200 to 329 of events/0: retention was faster than the group"
    ]


def test_refused_records_are_told_at_once_then_at_ten_times_as_many_then_daily(scene: Scenario) -> None:
    first = only(scene.hear(cut(0, 5, refused=2)))
    assert (first.kind, first.fix) == ("quarantine", f"lyrebird lake cat raw/events/_quarantine/1_3_{0:020}")
    assert first.text.startswith("raw: records of events are set aside, 2 since 1970-01-01T00:16:40")
    same = only(scene.hear(cut(5, 9, refused=4)))
    assert same.id == first.id
    assert "set aside, 6 since" in same.text
    grown = only(scene.hear(cut(9, 90, refused=14)))
    assert grown.id != first.id
    assert "set aside, 20 since" in grown.text
    assert grown.fix.endswith(f"1_3_{9:020}")
    scene.restart()
    scene.world.clock.advance(3_600)
    assert only(scene.hear(cut(90, 99, refused=1))).id == grown.id
    scene.world.clock.advance(23.5 * 3_600)
    daily = only(scene.hear(cut(99, 109, refused=1)))
    assert daily.id not in {first.id, grown.id}
    scene.world.clock.advance(86_401)
    assert scene.look() == []
    assert "set aside, 1 since" in only(scene.hear(cut(109, 119, refused=1))).text


def test_an_objects_name_is_one_word_of_the_command(scene: Scenario) -> None:
    one = only(scene.hear(cut(0, 5, refused=2, key="raw/it's here/_quarantine/1_3_0")))
    assert one.fix == """lyrebird lake cat 'raw/it'"'"'s here/_quarantine/1_3_0'"""


def test_records_that_wait_longer_than_their_policy_and_a_minute_are_one_incident_until_they_are_stored(
    scene: Scenario,
) -> None:
    world = scene.world
    scene.run(2)
    world.write("events", 5, 0)
    world.write("events", 5, 1)
    for partition in (0, 1):
        world.fails[scene.tp(partition)] = Transient("a task was lost", system="spark")
    assert scene.run(119) == []
    late = only(scene.run(4))
    assert (late.kind, late.fix) == ("late", "lyrebird lake status --group raw")
    assert late.text.startswith("raw is late with events/0: offsets that wait: 6, the oldest for 12")
    assert "late are 2 of 2 partitions. a task was lost" in late.text
    scene.restart()
    assert only(scene.run(120)).id == late.id
    world.fails.clear()
    assert only(scene.run(65)).id == late.id
    assert scene.run(65) == []
    world.write("events", 5)
    world.fails[scene.tp()] = Transient("a task was lost", system="spark")
    assert only(scene.run(130)).id != late.id


def test_a_delay_that_a_systems_trouble_covers_is_still_the_same_afterwards(scene: Scenario) -> None:
    world = scene.world
    scene.run(2)
    world.write("events", 5)
    world.fails[scene.tp()] = Transient("a task was lost", system="spark")
    late = only(scene.run(130))
    world.fails[scene.tp()] = KAFKA_AWAY
    assert [each.kind for each in scene.run(200)] == ["late", "log"]
    world.fails[scene.tp()] = Transient("a task was lost", system="spark")
    assert late.id in {each.id for each in scene.run(200)}


def test_an_old_backlog_is_late_only_when_it_does_not_go_down(scene: Scenario) -> None:
    world = scene.world
    world.write("events", 5)
    world.clock.advance(9_000)
    world.fails[scene.tp()] = Transient("a task was lost", system="spark")
    assert scene.run(115) == []
    assert only(scene.run(10)).kind == "late"


def test_a_group_on_a_schedule_is_never_late(tmp_path: Path) -> None:
    scene = Scenario(tmp_path, GROUP.model_copy(update={"run": "schedule"}))
    scene.world.write("events", 5)
    scene.world.fails[scene.tp()] = Transient("a task was lost", system="spark")
    assert scene.run(300) == []


@pytest.mark.parametrize(
    ("error", "kind", "words", "fix"),
    [
        (Transient("no answer", **S3), "store", "the object store since", "lyrebird status"),
        (BackPressure("slow down", **S3), "store", "store busy", "lyrebird lake status"),
        (KAFKA_AWAY, "log", "Kafka since", "lyrebird status"),
        (Transient("no answer", system="registry"), "registry", "the schema registry since", "lyrebird status"),
        (Transient("it is full", system="disk"), "disk", "Make room", "lyrebird lake status"),
    ],
)
def test_a_system_that_does_not_answer_for_a_minute_is_one_incident_until_it_does(
    scene: Scenario, error: Transient, kind: str, words: str, fix: str
) -> None:
    world = scene.world
    world.write("events", 250)
    world.fails[scene.tp()] = error
    assert scene.run(59) == []
    first = only(scene.run(3))
    assert (first.kind, first.group, first.fix) == (kind, "", fix)
    assert first.text.startswith("lake waits for ")
    assert words in first.text
    # However long it lasts: its delay is no incident of its own.
    assert [each.id for each in scene.run(200)] == [first.id]
    scene.restart()
    assert [each.id for each in scene.run(100)] == [first.id]
    world.fails.clear()
    scene.run(62)
    world.fails[scene.tp()] = error
    world.write("events", 250)
    assert [each.id for each in scene.run(30)] == [first.id]
    world.fails.clear()
    assert scene.run(130) == []
    world.write("events", 250)
    world.fails[scene.tp()] = error
    assert only(scene.run(63)).id != first.id


def test_a_store_that_was_mended_over_a_restart_is_well_again_also_where_nothing_waits(scene: Scenario) -> None:
    scene.watcher.on_away(Transient("no answer", **S3))
    scene.world.clock.advance(70)
    store = only(scene.look())
    scene.restart()
    assert [each.id for each in scene.run(30)] == [store.id]
    assert scene.run(40) == []


def test_a_store_that_refuses_says_what_is_wrong_with_it(scene: Scenario) -> None:
    reason = "An error occurred (InvalidAccessKeyId) when calling the PutObject operation: unknown"
    scene.watcher.on_away(Terminal("the object store refuses this", reason=reason, **S3))
    scene.world.clock.advance(60)
    one = only(scene.look())
    assert one.kind == "store"
    assert "wrong credentials" in one.text
    assert "Mend access_key and secret_key of `store` in the deployment files" in one.text


def test_a_driver_that_waits_is_told_and_one_that_is_answered_soon_is_not(scene: Scenario) -> None:
    scene.world.dead = True
    scene.watcher.on_away(KAFKA_AWAY)
    scene.world.clock.advance(30)
    scene.watcher.on_back()
    scene.world.clock.advance(40)
    assert scene.look() == []
    scene.watcher.on_away(KAFKA_AWAY)
    scene.world.clock.advance(61)
    assert only(scene.look()).kind == "log"
    scene.watcher.on_back()
    scene.world.clock.advance(61)
    assert scene.look() == []


def test_what_no_system_is_to_blame_for_is_no_trouble_of_one(scene: Scenario) -> None:
    scene.watcher.on_away(Transient("lost", system="spark"))
    scene.world.clock.advance(200)
    assert scene.look() == []


def test_partitions_that_stand_still_for_one_cause_are_one_incident_until_all_go_on(scene: Scenario) -> None:
    world = scene.world
    for partition in (0, 1):
        world.write("events", 250, partition)
        world.fails[scene.tp(partition)] = Terminal(
            "the log was truncated", partition=partition, fix="Run `lyrebird audit chain` on the topic."
        )
    first = only(scene.run(15))
    assert (first.kind, first.fix) == ("standing", "lyrebird audit chain events")
    assert first.text.startswith("raw stands still at events, partitions 0, 1: the log was truncated (partition=0")
    scene.restart()
    assert [each.id for each in scene.run(15)] == [first.id]
    del world.fails[scene.tp(1)]
    scene.restart()
    assert [each.id for each in scene.run(15)] == [first.id]
    del world.fails[scene.tp(0)]
    scene.restart()
    assert scene.run(15) == []
    world.write("events", 250)
    world.fails[scene.tp(0)] = Terminal("the log was truncated", partition=0)
    assert only(scene.run(15)).id != first.id


def test_another_cause_at_the_same_topic_is_another_incident(scene: Scenario) -> None:
    for partition, what in enumerate(("the log was truncated", "a commit cannot be read")):
        scene.world.write("events", 250, partition)
        scene.world.fails[scene.tp(partition)] = Terminal(what, fix="Go on under a higher `revision`.")
    found = scene.run(15)
    assert [each.kind for each in found] == ["standing", "standing"]
    assert {each.fix for each in found} == {"lyrebird lake status --group raw --topic events"}


def test_a_topic_that_is_deleted_while_it_is_stored_is_no_incident_but_its_loss(scene: Scenario) -> None:
    scene.world.write("events", 250)
    scene.world.fails[scene.tp()] = Terminal("the topic was deleted or made anew while it was being stored")
    assert scene.run(5) == []
    scene.world.memory.admin().delete("events")
    kinds = {each.kind for _ in range(15) for each in scene.run(1)}
    assert kinds == {"lost"}


def test_a_topic_that_is_gone_stands_still_no_more(scene: Scenario) -> None:
    scene.world.write("events", 250)
    scene.world.fails[scene.tp()] = Terminal("the log was truncated")
    assert only(scene.run(15)).kind == "standing"
    scene.world.memory.admin().delete("events")
    scene.world.make("even-more")
    assert [each.kind for each in scene.run(10)] == ["lost"]


def test_a_store_that_was_in_trouble_where_nothing_waits_any_more_is_not_told_for_ever(scene: Scenario) -> None:
    """Another process has stored what this one could not."""
    world = scene.world
    world.write("events", 250)
    world.fails[scene.tp()] = Transient("no answer", **S3)
    assert only(scene.run(70)).kind == "store"
    world.fails.clear()
    other = LakeHarness.started(world)
    other.freeze()
    while other.left("flush"):
        other.step("flush")
    world.fails[scene.tp()] = Transient("no answer", **S3)
    assert scene.run(200) == []


def test_an_end_is_told_with_the_command_of_its_advice(scene: Scenario) -> None:
    fenced = scene.incidents.on_end(Fenced("a newer revision has taken over", topic="events"))
    assert (fenced.kind, fenced.fix) == ("fenced", "lyrebird lake status")
    assert fenced.text == "lake was taken over: a newer revision has taken over (topic='events')."
    scene.world.clock.advance(1)
    assert scene.incidents.on_end(Fenced("a newer revision has taken over")).id != fenced.id
    stopped = scene.incidents.on_end(Terminal("the store is unfit", fix="See `lyrebird doctor`."))
    assert (stopped.kind, stopped.fix) == ("stopped", "lyrebird doctor")
    assert stopped.text.endswith("See `lyrebird doctor`. Then start it again (under Airflow: clear its task).")


def test_a_run_that_ends_for_what_stands_still_ends_with_that_incident(scene: Scenario) -> None:
    ended = LeftStanding("not all of the log is stored")
    assert scene.incidents.on_end(ended).id.startswith("stopped:lake:")
    scene.restart()
    scene.world.write("events", 250)
    scene.world.fails[scene.tp()] = Terminal("the log was truncated")
    standing = only(scene.run(15))
    assert scene.incidents.on_end(ended).id == standing.id


def test_a_command_of_an_advice_is_whole_or_none() -> None:
    assert next_command("Run `lyrebird audit chain` on it.") == ""
    assert next_command("Run `lyrebird audit chain` on it.", "t") == "lyrebird audit chain t"
    assert next_command("Run `lyrebird lake cat …`.") == ""
    assert next_command("See `lyrebird doctor`.") == "lyrebird doctor"


def test_new_incidents_are_counted_once_and_not_again_after_a_restart(scene: Scenario) -> None:
    found = scene.hear(cut(5, 9, lost=2, refused=1))
    assert sorted(scene.incidents.fresh()) == sorted(each.kind for each in found) == ["lost", "quarantine"]
    assert scene.incidents.fresh() == []
    scene.restart()
    scene.look()
    assert scene.incidents.fresh() == []


def test_how_far_it_has_heard_is_kept_from_the_first_cut_of_a_chain_on_each_minute_and_at_the_end(
    scene: Scenario,
) -> None:
    def kept() -> object:
        found: dict[str, int] = scene.folder.files["incidents.json"]["heard"]
        return found["raw:id/3"]

    scene.hear(cut(5, 9))
    assert kept() == 9
    scene.hear(cut(9, 20))
    assert kept() == 9
    scene.world.clock.advance(60)
    scene.look()
    assert kept() == 20
    scene.hear(cut(20, 30))
    scene.incidents.save(whole=True)
    assert kept() == 30


def test_incidents_are_told_in_plain_values(scene: Scenario) -> None:
    one = only(scene.hear(cut(5, 9, lost=2)))
    words = {"id": one.id, "kind": "lost", "group": "raw", "text": one.text, "fix": one.fix}
    assert one.to_json() == {**words, "severity": one.severity, "page": one.page}
    assert (one.severity, one.page.partition("#")[0]) == ("critical", "lake-operations.md")
    assert isinstance(scene.world.driver.planner, GroupPlanner)
