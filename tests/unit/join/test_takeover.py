"""A join whose file changes while it runs: in the end the topic has what SQL says of the new one, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from include.join.takeover import Edition, Takeover, definition_of, joined_by, kept_slots, taken_over
from include.log import topics
from include.log.requests.records import Answer, Request, RequestKind
from tests.support.faults.crash_points import CrashingWriter, CrashPoint, Killed
from tests.support.joins.histories import History, expected
from tests.unit.join.driver_harness import BUCKETS, OUT, JoinDriverHarness, Process, Wrap, edition_of
from tests.unit.join.test_avro_rows import Setup, set_up

pytestmark = pytest.mark.unit

Earlier = Callable[[History], Setup | None]


def other(history: History, *, grouped: bool | None = None) -> History:
    """The same tables in a join that another file describes."""
    made = History(history.seed, grouped=history.grouped)
    if grouped is not None:
        made.grouped = grouped
        made.distinct = tuple(not grouped or i % 2 == 0 for i in made.inputs)
        made.wide = tuple(grouped and i % 4 == 0 for i in made.inputs)
    return made


def other_filters(history: History) -> Setup | None:
    was = other(history)
    was.where = tuple(not each for each in history.where)
    return set_up(was)


def other_types(history: History) -> Setup | None:
    was = other(history)
    was.optional = (False, *(not each for each in history.optional[1:]))
    return set_up(was)


def another_key(history: History) -> Setup | None:
    return set_up(other(history, grouped=not history.grouped))


def an_input_less(history: History) -> Setup | None:
    return set_up(history, width=len(history.optional) - 1) if len(history.optional) > 2 else None


def another_join_key(history: History) -> Setup | None:
    if history.grouped:
        return None
    return set_up(other(history), join_key="g")


WAYS: list[Earlier] = [other_filters, other_types, another_key, an_input_less, another_join_key]


def through(world: JoinDriverHarness, process: Process) -> None:
    """Until the takeover is done; the source tells of nothing new meanwhile."""
    for _ in range(200):
        process.to_the_end()
        if process.runner.committed.takeover is None:
            return
        world.beat()
    raise AssertionError("the takeover does not end")


def started(history: History, earlier: Setup) -> tuple[JoinDriverHarness, Edition, Edition]:
    """A world whose join has read some of the history by its earlier file."""
    world = JoinDriverHarness(set_up(history))
    # As a registry does it: one schema, one id.
    now, output = edition_of(world.setup), world.setup.output
    was = edition_of(
        earlier, (1 + 2 * (earlier.output.key != output.key), 2 + 2 * (earlier.output.value != output.value))
    )
    world.write(random.Random(history.seed).randint(0, len(world.order)))
    Process(world, lambda writer: writer, None, was).to_the_end()
    return world, was, now


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("earlier", WAYS)
def test_the_topic_is_what_sql_says_of_the_new_file(earlier: Earlier, grouped: bool) -> None:
    tried = 0
    for seed in range(150):
        history = History(seed, grouped=grouped)
        setup = earlier(history)
        if setup is None:
            continue
        tried += 1
        world, was, now = started(history, setup)
        process = Process(world, lambda writer: writer, random.Random(seed).choice([None, 3]), now, [was])
        while world.order:
            process.to_the_end()
            world.write(random.Random(seed + len(world.order)).randint(1, 3))
        through(world, process)
        assert world.table() == expected(history), seed
        assert process.runner.committed.definition == now.definition
    assert tried > 20 or (earlier is another_join_key and grouped)


@pytest.mark.parametrize("after", [False, True])
def test_a_takeover_that_is_killed_at_any_durable_call_goes_on_where_it_was(after: bool) -> None:
    for seed in range(40):
        draw = random.Random(seed)
        history = History(seed, grouped=draw.random() < 0.5)
        setup = draw.choice(WAYS)(history)
        if setup is None:
            continue
        world, was, now = started(history, setup)
        world.write()
        for _ in range(300):
            fuse = CrashPoint(draw.randint(1, 25), after=after)
            try:
                wrap: Wrap = partial(CrashingWriter, fuse=fuse)
                through(world, Process(world, wrap, draw.choice([None, 3]), now, [was]))
            except Killed:
                continue
            break
        process = Process(world, lambda writer: writer, None, now, [was])
        through(world, process)
        assert world.table() == expected(history), seed


def test_a_rebuild_reads_all_inputs_again_and_writes_everything_once_more() -> None:
    for seed in range(30):
        world = JoinDriverHarness(set_up(History(seed)))
        world.write()
        edition = edition_of(world.setup)
        process = Process(world, lambda writer: writer, None)
        process.to_the_end()
        before = world.written()
        slots = process.runner.committed.slots
        process.runner.rebuild("somebody asked")
        world.beat()
        through(world, process)
        table = expected(world.setup.history)
        assert world.table() == table, seed
        assert not {*process.runner.committed.slots} & {*slots}
        assert world.written() >= before + len(table)
        assert process.runner.committed.definition == edition.definition
        for (stage, _), state in world.held(process.runner.committed.pointers):
            of_rows = {key[5 + key[4]] for key in state if stage == "rows"}
            assert not (of_rows | {key[1] for key in state if stage == "whereabouts"}) & {*slots}


def test_a_definition_gives_its_file_back() -> None:
    for seed in range(50):
        setup = set_up(History(seed, grouped=seed % 2 == 0))
        topics = [f"t{i}" for i in setup.history.inputs]
        definition = definition_of(setup.join, topics)
        assert definition_of(joined_by(definition, setup.join), topics) == definition


def test_inputs_keep_their_slots_unless_their_rows_stand_elsewhere() -> None:
    history = next(h for h in map(History, range(1000)) if h.optional == (False, False, False))
    now = edition_of(set_up(history))
    assert kept_slots(now, edition_of(set_up(history, width=2)).checked) == [0, 1]
    assert kept_slots(edition_of(set_up(history, width=2)), now.checked) == [0, 1, None]
    assert kept_slots(now, edition_of(set_up(history, join_key="g")).checked) == [None, None, None]


def test_how_far_a_takeover_is_survives_as_json() -> None:
    now = edition_of(set_up(History(3)))
    begun = taken_over(now, now.definition, now.checked, whole=True, request="r-1")
    on = begun.read({(begun.anew[0], 1): (0, 7)}).stepped({0: b"r\x00\x01\xff"}, BUCKETS)
    assert Takeover.from_json(on.to_json()) == on


def asked(world: JoinDriverHarness, kind: RequestKind, *keys: bytes, id_: str = "r-1") -> None:
    writer = world.log.writer("person")
    request = Request(id_, kind, "a person", 1, keys=tuple(key.hex() for key in keys))
    writer.begin()
    writer.append(topics.requests(OUT), request.key(), request.value(), partition=0)
    writer.commit()
    world.beat()


def answers(world: JoinDriverHarness) -> list[tuple[str, str]]:
    reader, name = world.log.reader(), topics.answers(OUT)
    records = reader.read(name, 0, 0, reader.end_offsets(name)[0])
    return [(answer.id, answer.state) for answer in (Answer.parse(record.value or b"") for record in records)]


def running(seed: int) -> tuple[JoinDriverHarness, Process]:
    world = JoinDriverHarness(set_up(History(seed)))
    world.write()
    process = Process(world, lambda writer: writer, None)
    process.to_the_end()
    assert world.table()
    return world, process


def a_seed() -> int:
    return next(seed for seed in range(1000) if len(expected(History(seed))) > 2)


def test_a_rebuild_that_somebody_asks_for_is_carried_out_once_over_restarts() -> None:
    world, process = running(a_seed())
    asked(world, "rebuild")
    process.to_the_end()
    assert process.runner.committed.takeover is not None
    process = Process(world, lambda writer: writer, None)
    through(world, process)
    assert world.table() == expected(world.setup.history)
    assert answers(world) == [("r-1", "accepted"), ("r-1", "done")]
    written = world.written()
    asked(world, "rebuild")
    process.to_the_end()
    Process(world, lambda writer: writer, None).to_the_end()
    assert world.written() == written


def test_a_repair_of_some_keys_writes_these_and_removes_what_no_row_makes() -> None:
    world, process = running(a_seed())
    good = world.keys()
    table, written = world.table(), world.written()
    world.plant(b"\x00\x00\x00\x00\x01\x7e", b"nothing makes this")
    asked(world, "repair", good[0], b"\x00\x00\x00\x00\x01\x7e")
    process.to_the_end()
    assert world.table() == table
    assert world.keys() == good
    # What was planted, the one that is good, and the tombstone.
    assert world.written() == written + 3
    assert answers(world) == [("r-1", "accepted"), ("r-1", "done")]


def test_a_repair_without_keys_writes_all_outputs_again_and_reads_nothing() -> None:
    world, process = running(a_seed())
    written, slots = world.written(), process.runner.committed.slots
    asked(world, "repair")
    through(world, process)
    assert world.table() == expected(world.setup.history)
    assert world.written() == written + len(world.keys())
    assert process.runner.committed.slots == slots
    assert answers(world)[-1] == ("r-1", "done")


def test_requests_that_no_join_carries_out_are_refused() -> None:
    world, process = running(a_seed())
    asked(world, "snapshot")
    asked(world, "rebuild", b"k", id_="r-2")
    process.to_the_end()
    assert answers(world) == [("r-1", "refused"), ("r-2", "refused")]
    assert process.runner.committed.takeover is None
