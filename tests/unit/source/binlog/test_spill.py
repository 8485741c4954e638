"""A sequence that lies on disk is the sequence that does not."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal, Transient
from include.source.binlog.events import QueryEvent
from include.source.binlog.spill import Spill
from include.source.binlog.step import RowsEvent, SourceStep
from include.source.binlog.table_map import TableMap

FOLDER = Path(gettempdir())
TABLES = [TableMap(n, "shop", f"t{n}", b"\x03", (0,), (False,)) for n in range(3)]

steps = st.one_of(
    st.builds(
        RowsEvent,
        st.sampled_from(TABLES),
        st.sampled_from(["c", "u", "d"]),
        st.binary(max_size=60),
        st.booleans(),
        st.sampled_from([None, "", "INSERT", "ü🜚"]),
    ),
    st.builds(QueryEvent, st.integers(0, 2**32 - 1), st.text(max_size=5), st.text(max_size=20)),
)


@given(
    st.lists(st.one_of(steps, st.just("mark"), st.integers(0, 5)), max_size=60),
    st.sampled_from([0, 300, 1000, 1 << 20]),
)
def test_a_spilled_sequence_equals_a_list(actions: list[Any], memory_bytes: int) -> None:
    spill, model, marks = Spill(memory_bytes, FOLDER), list[SourceStep](), list[Any]()
    for action in actions:
        if action == "mark":
            marks.append((spill.mark(), len(model)))
        elif isinstance(action, int):
            if action < len(marks):
                mark, at = marks[action]
                assert list(spill.after(mark)) == model[at:]
                spill.cut(mark)
                del model[at:], marks[action + 1 :]
        else:
            spill.append(action)
            model.append(action)
        assert len(spill) == len(model)
    assert list(spill) == model == list(spill)
    assert spill.size_bytes == sum(len(s.body) if isinstance(s, RowsEvent) else len(s.text) for s in model)


def test_large_steps_and_many_pieces_come_back_whole() -> None:
    spill = Spill(0, FOLDER)
    bodies = [os.urandom(size) for size in (3 << 20, 1, (1 << 20) - 9, 1 << 20, 0, 70_000)]
    for body in bodies:
        spill.append(RowsEvent(TABLES[0], "c", body))
    assert spill.on_disk
    assert [step.body for step in spill if isinstance(step, RowsEvent)] == bodies


def test_two_readers_do_not_disturb_each_other_or_the_writer() -> None:
    spill = Spill(0, FOLDER)
    for number in range(3):
        spill.append(QueryEvent(number, "", "x"))
    first, second = iter(spill), iter(spill)
    assert [next(first), next(second), next(first)] == [
        QueryEvent(0, "", "x"),
        QueryEvent(0, "", "x"),
        QueryEvent(1, "", "x"),
    ]
    spill.append(QueryEvent(3, "", "x"))
    assert len(list(spill)) == 4
    assert [step.thread for step in second if isinstance(step, QueryEvent)] == [1, 2]


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    spill = Spill(0, tmp_path)
    assert not spill.on_disk
    spill.append(QueryEvent(1, "", "x" * 3_000_000))
    assert list(tmp_path.iterdir()) == []
    fd = spill._fd
    os.fstat(fd)
    del spill
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_small_sequence_touches_no_disk() -> None:
    spill = Spill(1000, Path("/nowhere"))
    spill.append(QueryEvent(1, "", "x", 4))
    assert list(spill) == [QueryEvent(1, "", "x", 4)]


def test_a_folder_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(Terminal, match="`spill_folder`") as refused:
        Spill(0, Path("/nowhere")).append(QueryEvent(1, "", "x"))
    assert (refused.value.details["folder"], refused.value.details["answer"]) == (
        "/nowhere",
        "No such file or directory",
    )


def test_a_full_disk_is_waited_for_by_an_error_that_names_size_and_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_values: Any) -> int:
        raise OSError(28, "No space left on device")

    spill = Spill(0, FOLDER)
    spill.append(RowsEvent(TABLES[0], "c", b"x" * 1000))
    monkeypatch.setattr(os, "pwrite", full)
    said = r"does not fit on disk.*size_bytes=2001\d+, answer='No space left.*Make room"
    with pytest.raises(Transient, match=said) as told:
        spill.append(RowsEvent(TABLES[0], "c", b"x" * 2_000_000))
    assert (told.value.details["system"], told.value.details["folder"]) == ("disk", str(FOLDER))
