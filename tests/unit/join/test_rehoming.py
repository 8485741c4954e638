"""An imported state stands in the place of the committed one, and nothing is written from it before it was verified."""

from __future__ import annotations

import pytest

from include.errors import Terminal
from include.join.rehoming import committed_of, released, replace_state, versions_of
from tests.unit.join.driver_harness import Process, world_of
from tests.unit.join.test_status import deployed, named

pytestmark = pytest.mark.unit


def test_an_imported_state_waits_until_its_very_versions_were_found_right() -> None:
    world = world_of(3, grouped=False)
    world.write()
    process = Process(world, lambda writer: writer, None)
    process.to_the_end()
    join, reader = named(deployed(len(world.setup.readers))), world.log.reader()
    before = committed_of(join, reader)
    assert not before.unverified
    pointers = dict(list(before.pointers.items())[1:])
    with pytest.raises(Terminal, match="gone on since the export"):
        replace_state(join, pointers, before.buckets, {("rows", 0): "another"}, reader, world.log.writer)
    replace_state(join, pointers, before.buckets, versions_of(before), reader, world.log.writer)
    imported = committed_of(join, reader)
    assert imported.unverified
    assert imported.pointers == pointers
    assert (imported.base, imported.floors, imported.definition) == (before.base, before.floors, before.definition)
    with pytest.raises(Terminal, match="another state was imported"):
        released(join, versions_of(before), reader, world.log.writer)
    assert committed_of(join, reader).unverified
    released(join, versions_of(imported), reader, world.log.writer)
    assert not committed_of(join, reader).unverified
