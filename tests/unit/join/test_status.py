"""What `lyrebird join status` tells, by what a join over a log in memory has committed."""

from __future__ import annotations

import pytest

from demo.joins import told_of
from include.join.algorithm.rework import DONE
from include.join.bucket import BucketKey
from include.join.committed import CommittedJoin
from include.join.config.definition import JoinFile
from include.join.config.deployed import DeployedJoin, JoinEntry
from include.join.status import join_status
from include.join.takeover import Takeover, definition_of
from include.log import topics
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.settings.deployment import Deployment
from include.state.pointer import BucketPointer
from tests.support.joins.histories import History
from tests.unit.join.driver_harness import OUT, JoinDriverHarness, Process, change
from tests.unit.join.test_avro_rows import set_up

pytestmark = pytest.mark.unit


def deployed(inputs: int) -> DeployedJoin:
    joined = [{"topic": change(i), "join_keys": ["j"]} for i in range(inputs)]
    file = JoinFile.model_validate({"join": joined, "output": {"namespace": "n", "source": "s"}, "buckets": 3})
    return DeployedJoin("sales", JoinEntry(application="a", file="joins/a.yaml"), file, Deployment.__new__(Deployment))


def test_a_join_that_never_ran_has_said_nothing() -> None:
    log = MemoryLog()
    status = join_status(deployed(2), log.reader(), log.admin())
    assert (status.rows, status.state_bytes, status.at) == ((0, 0), 0, "")
    assert status.lines()[-1] == "  has said nothing yet: does it run? See `lyrebird status`"
    assert not told_of([status]).good
    assert not told_of([]).good


def test_rows_and_keys_are_counted_by_the_pointers_of_the_state() -> None:
    join, log = deployed(2), MemoryLog()
    name = topics.state(join.topic)
    log.admin().ensure(TopicSpec(name, 1, topics.policy(name)))
    writer = log.writer("w")
    counts = {"rows": 5, "bytes": 70, "input_0": 3, "input_1": 2, "incomplete": 1}
    pointers: dict[BucketKey, bytes] = {
        ("rows", 0): BucketPointer("a", counts=counts).to_bytes(),
        ("rows", 2): BucketPointer("b", counts={"rows": 1, "bytes": 9, "input_1": 1}).to_bytes(),
        ("whereabouts", 1): BucketPointer("c", counts={"rows": 50, "bytes": 100}).to_bytes(),
    }
    definition = definition_of(join.file, ["one", "two"])
    takeover = Takeover("another", (0, 2), (), again=False, places={0: DONE, 1: b"r"})
    writer.begin()
    for key, value in (
        *CommittedJoin.of_buckets(pointers),
        CommittedJoin(3, definition, (0, 1), takeover, base=9).of_join(),
    ):
        writer.append(name, key, value, partition=0)
    writer.commit()
    status = join_status(join, log.reader(), log.admin())
    assert (status.rows, status.state_bytes, status.incomplete, status.buckets) == ((3, 3), 179, 1, 3)
    assert status.changing == "1 of 3 buckets gone through"
    assert any("1 join keys lack outputs" in line for line in status.lines())
    assert not status.unverified
    writer.begin()
    writer.append(name, *CommittedJoin(3, definition, (0, 1), base=9, unverified=True).of_join(), partition=0)
    writer.commit()
    waiting = join_status(join, log.reader(), log.admin())
    assert waiting.unverified
    assert "next: lyrebird state verify sales" in "\n".join(waiting.lines())


def test_a_join_that_has_read_all_is_behind_nothing_and_a_record_later_is_behind_by_one() -> None:
    world = JoinDriverHarness(set_up(History(3, plain=False)))
    world.write()
    process = Process(world, lambda writer: writer, None)
    process.to_the_end()
    join = deployed(len(world.setup.readers))
    found = join_status(named(join), world.log.reader(), world.log.admin())
    assert found.behind == 0
    assert set(found.positions) == {"shop"}
    writer = world.log.writer("capture")
    writer.begin()
    writer.append(change(0), b"k", b"v", partition=0)
    writer.commit()
    assert join_status(named(join), world.log.reader(), world.log.admin()).behind == 1


class _Named(DeployedJoin):
    """A join of another topic than its file says."""

    @property
    def topic(self) -> str:
        return OUT


def named(join: DeployedJoin) -> DeployedJoin:
    return _Named(join.name, join.entry, join.file, join.places)
