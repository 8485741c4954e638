"""What a deployment says of the lake: groups whose folders lie apart, each topic by the first rule that has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from include.errors import SettingsError
from include.lake.definition import declared_groups, format_of, group_named, groups_of_application
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.parsing.partition_names import MOST_BYTES
from include.lake.protocol.object_key import KEY_BYTES, ObjectKey
from include.settings.deployment import Deployment

RAW = """\
    raw:
      kind: backup
      application: lake
      topics: ["cdc.*", "events"]
      exclude: ["*.requests"]
      prefix: lake/raw
      rules:
        - topics: "*"
          format: {sequence: {layout: verbatim, compression: BLOCK}}
"""
BY_DATE = """\
    by_date:
      kind: partition
      application: lake
      topics: [events]
      prefix: lake/by_date
      policy: {max_age_s: 60, topics: [{topics: "ev*", max_bytes: 1000}]}
      rules:
        - topics: events
          format: {json_lines: {content: payload}}
          versions:
            - version: 1
              added: 2026-01-01T00:00:00Z
              parser: {format: json, time: {field: [at], unit: ms}}
"""


def deployed(folder: Path, *groups: str) -> Deployment:
    (folder / "lake.yaml").write_text("lake:\n" + "".join(groups))
    return Deployment.load(folder, {})


def test_a_group_wants_its_topics_and_has_a_rule_for_each(tmp_path: Path) -> None:
    found = declared_groups(deployed(tmp_path, RAW, BY_DATE))
    raw = found["raw"]
    assert [topic for topic in ("cdc.shop.a", "cdc.shop.requests", "events", "other") if raw.wants(topic)] == [
        "cdc.shop.a",
        "events",
    ]
    rule = raw.rule("events")
    assert rule is not None
    assert format_of(rule.format, None).extension == ""
    by_date = found["by_date"]
    assert by_date.rule("other") is None
    assert by_date.policy.of("events")[0].max_bytes == 1000
    assert by_date.policy.of("events")[0].max_age_s == 60
    assert sorted(groups_of_application(deployed(tmp_path, RAW, BY_DATE), "lake")) == ["by_date", "raw"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("prefix: lake/by_date", "prefix: lake/raw"), "share a folder"),
        (("prefix: lake/by_date", "prefix: lake/raw/by_date"), "share a folder"),
        (("prefix: lake/by_date", "prefix: lake"), "share a folder"),
        (("prefix: lake/by_date", "prefix: _lake"), "prefix"),
        (("prefix: lake/by_date", f"prefix: lake/{'y' * 156}"), "160 bytes at most, this one 161"),
        (("{json_lines: {content: payload}}", "{json_lines: {}, text: {}}"), "one format is declared"),
        (("{json_lines: {content: payload}}", "{}"), "one format is declared"),
        (("kind: partition", "kind: backup"), "never looks inside"),
        (("prefix: lake/by_date", "prefix: lake/by_date\n      offset_step: 5"), "belongs to a backup"),
        (("application: lake", "application: lake\n      generation: 7"), "generation"),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_place(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        declared_groups(deployed(tmp_path, RAW, BY_DATE.replace(*change)))
    assert "lake.yaml" in str(refused.value)


def test_names_that_begin_with_an_underscore_are_wanted_where_a_pattern_begins_so(tmp_path: Path) -> None:
    group = declared_groups(deployed(tmp_path, RAW.replace('["cdc.*", "events"]', '["*", "_schemas"]')))["raw"]
    assert [topic for topic in ("_schemas", "_other", "events") if group.wants(topic)] == ["_schemas", "events"]
    assert [topic for topic in ("_schemas", "_other", "events") if group.leaves_out(topic)] == ["_other"]


def test_a_pattern_has_no_topics_whose_folders_readers_would_skip(tmp_path: Path) -> None:
    group = declared_groups(deployed(tmp_path, RAW.replace('["cdc.*", "events"]', '["*"]')))["raw"]
    names = ("_schemas", ".hidden", "__consumer_offsets", "a_b", "-", "a.b")
    assert [topic for topic in names if group.wants(topic)] == ["a_b", "-", "a.b"]


def test_the_longest_names_that_may_be_declared_and_parsed_make_a_key(tmp_path: Path) -> None:
    prefix = "/".join(["p" * 80, "q" * 79])
    group = declared_groups(deployed(tmp_path, RAW.replace("lake/raw", prefix)))["raw"]
    form = SequenceFile(extension="." + "x" * 31)
    names = ("n" * 255, "m" * (MOST_BYTES - 256), "schema=4294967295")
    key = ObjectKey(group.prefix, "t" * 249, names, 10**9 - 1, (1 << 31) - 1, (1 << 63) - 1, form.extension)
    assert KEY_BYTES - 16 < len(str(key)) <= KEY_BYTES
    with pytest.raises(ValidationError):
        SequenceFile(extension="." + "x" * 32)


def test_folders_whose_names_begin_alike_lie_apart(tmp_path: Path) -> None:
    assert set(declared_groups(deployed(tmp_path, RAW, BY_DATE.replace("lake/by_date", "lake/raw-2")))) == {
        "raw",
        "by_date",
    }


def test_names_that_are_not_there_are_told_with_those_that_are(tmp_path: Path) -> None:
    deployment = deployed(tmp_path, RAW)
    with pytest.raises(SettingsError, match="raw"):
        group_named(deployment, "rwa")
    with pytest.raises(SettingsError, match="no group of the lake"):
        groups_of_application(deployment, "other")


def test_a_format_of_avro_needs_a_registry(tmp_path: Path) -> None:
    rule = declared_groups(
        deployed(tmp_path, RAW.replace("{sequence: {layout: verbatim, compression: BLOCK}}", "{avro: {}}"))
    )["raw"].rules[0]
    with pytest.raises(SettingsError, match="registry"):
        format_of(rule.format, None)
