from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import SettingsError
from include.index.mapping.file import mapping_text, read_mapping
from include.index.mapping.starter import Choice, starter_index
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, RecordType

SCALARS = [Leaf("int", "int"), Leaf("text", "string"), Leaf("decimal", "decimal(9,2)", 9, 2), Leaf("date", "date")]
# Also what YAML reads as something else than a text, and what needs escapes.
ODD = ["no", "Y", "null", "a b", "true", "1", "1e3", "é", "q\"'", "#x", "😀", "~", "a:", "-", "2026-11-02"]
names = st.one_of(st.sampled_from(ODD), st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True))
forms = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.dictionaries(names, inner, max_size=4).map(RecordType),
        inner.map(ListOf),
        st.sampled_from(SCALARS).map(MapOf),
    ),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.dictionaries(names, forms, min_size=1, max_size=3))
def test_what_is_written_with_comments_reads_as_the_mapping(bodies: dict[str, Form]) -> None:
    choice = starter_index(bodies)
    assert yaml.safe_load(mapping_text(choice, "of\nseveral lines")) == choice.mapping()


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_file_is_read_with_comments_and_json_without(tmp_path: Path) -> None:
    choice = starter_index({"order": RecordType({"no": Leaf("int", "int")})})
    for name, text in (("m.yaml", mapping_text(choice)), ("m.json", json.dumps(choice.mapping()))):
        assert read_mapping(written(tmp_path, name, text)) == choice.mapping()


def test_text_has_a_line_for_each_field_and_its_comment() -> None:
    fields = {"id": Choice({"type": "long"}, "long", "long: whole numbers."), "n": Choice({"type": "long"}, "long")}
    body = Choice({}, "record", properties=fields)
    choice = Choice({"dynamic": "strict"}, "why", properties={"o": body})
    assert mapping_text(choice, "head") == (
        "# head\n# * long: whole numbers.\ndynamic: strict  # why\nproperties:\n  o:  # record\n    properties:\n"
        "      id: {type: long}  # long\n"
        '      "n": {type: long}  # long\n'
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("m.yaml", "properties:\n  no: {type: long}\n", "line=2, .*quotes"),
        ("m.yaml", "a: 1\nb: 2\na: 3\n", "line=3, .*stands twice: a"),
        ("m.yaml", "a: {b: 2026-11-02}\n", "line=1, .*quotes"),
        ("m.yaml", "a: [\n", "line=2"),
        ("m.yaml", "- a\n", "properties"),
        ("m.yaml", "", "properties"),
        ("m.json", '{"a": 1,\n}', "line=2"),
        ("m.json", '{"a": 1, "a": 2}', "stands twice: a"),
    ],
)
def test_what_is_no_mapping_is_refused_with_file_and_line(tmp_path: Path, name: str, text: str, told: Any) -> None:
    with pytest.raises(SettingsError, match=rf"{name}.*{told}"):
        read_mapping(written(tmp_path, name, text))


def test_a_missing_file_is_told_with_the_command_that_writes_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="lyrebird index mapping"):
        read_mapping(tmp_path / "none.yaml")
