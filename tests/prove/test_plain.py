"""Every byte of every recording flipped or cut behind: the same comes out with the compiled event loop."""

from __future__ import annotations

import pytest

from include.errors import Terminal
from include.source.binlog.step import SourceTransaction
from tests.support.binlog.fuzz import FILES, Fuzz, Mutant

pytestmark = pytest.mark.compiled

MASKS = (0xFF,)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("server", "case"), FILES)
def test_a_recording_with_one_byte_broken_gives_the_same_with_the_loop_and_without(server: str, case: str) -> None:
    made = Fuzz(server, case)
    for mutant in made.mutants(MASKS):
        assert outcome(made, mutant, plain=True) == outcome(made, mutant, plain=False), mutant


def outcome(made: Fuzz, mutant: Mutant, plain: bool) -> list[object]:
    """What comes out of the mutant's transaction, its refusal last."""
    number = mutant[0]
    begin, end = made._group[number]
    reader, builder = made._fresh()
    loop = builder._plain
    found: list[object] = []
    data = b"".join(made.mutated(mutant) if i == number else made.events[i] for i in range(begin, end))
    try:
        if begin:
            builder.on_event(reader.parse(made.events[0]))
            builder._statement._known.update(made._maps)
        builder._plain = loop if plain else None
        at = 0
        while at < len(data):
            taken, at, _ = builder.take(reader, data, at, framed=False)
            found += [told(each) for run in taken for each in run.transactions()]
            if at < len(data):
                size = max(int.from_bytes(data[at + 9 : at + 13], "little"), 1)
                found.append(told(builder.on_event(reader.parse(data[at : at + size]))))
                at += size
    except Terminal as refusal:
        found.append(str(refusal))
    finally:
        builder._plain = loop
    return [each for each in found if each is not None] + [reader.end]


def told(item: object) -> object:
    if not isinstance(item, SourceTransaction):
        return item
    return [getattr(item, name) for name in SourceTransaction.__slots__ if name != "steps"] + list(item.steps)
