"""Whatever was written, stored, compacted, dropped: a backfill gives readers each raw record once, where it belongs."""

from __future__ import annotations

import io
import json
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.backfill.comparison import compare
from include.lake.backfill.promotion import promote
from include.lake.backfill.raw_ranges import RawRanges
from include.lake.backfill.run_registry import begin
from include.lake.backfill.selection import BackfillSelection
from include.lake.formats.json_lines import JsonLines, JsonLinesOptions
from include.lake.protocol.object_key import ObjectKey
from tests.support.lake.backfill_harness import DAY_MS, NOON, BackfillHarness, version

LINES = JsonLines(JsonLinesOptions())
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "write", "write", "raw", "by_date", "compact", "retain"]), st.integers(1, 9)),
    max_size=14,
)


def read(world: BackfillHarness) -> Counter[tuple[int, str]]:
    """(offset, folder) of what readers read, refused records aside."""
    pointer = world.pointer()
    found: Counter[tuple[int, str]] = Counter()
    for info in world.store.list("by_date/events/"):
        key = ObjectKey.parse(info.key, "by_date")
        stored = world.store.get(info.key)
        assert stored is not None
        if pointer.reads(key) and not key.refused:
            found.update((message.offset, key.names[0]) for message in LINES.read(io.BytesIO(stored.body)))
    return found


def folder(value: bytes | None) -> str:
    day = (json.loads(value or b"")["made"] - NOON) // DAY_MS
    return f"dt=2024-05-{1 + day:02}"


def right(world: BackfillHarness, first: int, until: int) -> Counter[tuple[int, str]]:
    """What the right parser makes of the raw copy."""
    raw = RawRanges(world.store, world.topic_key(prefix="raw"), 0, first, until)
    batches = raw.batches("events", 0, first, until)
    return Counter((each.offset, folder(each.value)) for batch in batches for each in batch.messages)


def carried_out(world: BackfillHarness, steps: list[tuple[str, int]]) -> bool:
    """Whether groups may have read different records."""
    apart = False
    for step, number in steps:
        end = world.memory.reader().end_offsets("events")[0]
        if step == "write":
            world.events("events", number, number % 4)
        elif step == "compact":
            world.memory.compact("events")
            apart = True
        elif step == "retain":
            world.memory.truncate("events", 0, end * number // 10)
            apart = True
        else:
            world.store_all(world.driver if step == "raw" else world.by_date)
    world.events("events", 1, 0)
    world.store_all()
    return apart


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 15), st.integers(1, 60), st.sampled_from([1, 1000, 1 << 30]))
def test_readers_get_each_raw_record_once_where_it_belongs(
    steps: list[tuple[str, int]], first: int, length: int, most_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        world = BackfillHarness(Path(place), version(1, "at"), version(2, "made", from_offsets={0: 10**6}))
        world.make("events")
        apart = carried_out(world, steps)
        before = read(world)
        world.memory.truncate("events", 0, 10**6)
        asked = BackfillSelection("by_date", "events", offsets={0: (first, first + length)}, version=2, raw="raw")
        try:
            run = begin(world.store, world.plan(asked))
        except Terminal as error:
            refused = str(error)
        else:
            refused = ""
        event(f"refused: {refused.partition(' (')[0]}, apart: {apart}")
        if refused:
            assert "no committed cut" in refused or (apart and "raw copy does not have all" in refused)
            assert read(world) == before
            return
        world.rewrite(run, most_bytes=most_bytes)
        assert read(world) == before
        assert compare(world.store, run).clean or apart
        promote(world.store, run, accept=True)
        cuts = [(cut.first, cut.next) for cut in run.plan.cuts]
        inside = {offset for begun, end in cuts for offset in range(begun, end)}
        kept = Counter({place: count for place, count in before.items() if place[0] not in inside})
        assert read(world) == kept + right(world, cuts[0][0], cuts[-1][1])
