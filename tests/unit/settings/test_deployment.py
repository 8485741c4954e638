"""Deployment files: what they give, and refusals that name file, line, path and what is allowed."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import Field

from include.errors import SettingsError
from include.settings.connections import Cluster, Kafka
from include.settings.deployment import Deployment, Strict, unknown_name
from include.settings.filling import connection_name, connections_in

Write = Callable[..., Deployment]


class Inner(Strict):
    size: int
    mode: str = "a"


class Stream(Strict):
    topic: str
    inner: Inner | None = None
    many: list[Inner] = Field(default_factory=list)
    named: dict[str, Inner] = Field(default_factory=dict)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(env: dict[str, str] | None = None, **files: str) -> Deployment:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        return Deployment.load(tmp_path, env or {})

    return make


def test_sections_of_all_files_make_one_deployment(write: Write) -> None:
    found = write(a="streams:\n  x: {topic: t1}\n", b="streams:\n  y: {topic: t2}\nkafka: {bootstrap: 'h:1'}\n", c="")
    assert {name: s.topic for name, s in found.section("streams", Stream).items()} == {"x": "t1", "y": "t2"}
    assert found.one("kafka", Kafka).bootstrap == "h:1"
    assert found.section("none", Stream) == {}


def test_who_asks_no_server_needs_no_name_of_one(write: Write) -> None:
    found = write(a="kafka: {bootstrap: '${LYREBIRD_KAFKA}'}\nstreams: {x: {topic: '${LYREBIRD_T}'}, y: {topic: u}}\n")
    assert found.names("streams") == ["x", "y"]
    assert found.filled("streams", "y", "topic") == "u"
    with pytest.raises(SettingsError) as refused:
        found.one("kafka", Kafka)
    assert refused.value.details["name"] == "LYREBIRD_KAFKA"
    with pytest.raises(SettingsError) as refused:
        found.filled("streams", "x", "topic")
    assert (refused.value.details["name"], refused.value.details["path"]) == ("LYREBIRD_T", "streams.x.topic")


def test_what_holds_texts_to_fill_shows_none_of_what_fills_them(write: Write) -> None:
    found = write({"LYREBIRD_KAFKA": "brokers:1"}, a="kafka: {bootstrap: '${LYREBIRD_KAFKA}'}\n")
    assert found.one("kafka", Kafka).bootstrap == "brokers:1"
    assert "brokers" not in repr(found)


def test_a_text_is_filled_from_a_file_without_its_last_newline(write: Write, tmp_path: Path) -> None:
    (tmp_path / "topic").write_text("t 1\n", encoding="utf-8")
    found = write(a=f"streams: {{x: {{topic: '${{file:{tmp_path}/topic}}'}}}}\n")
    assert found.section("streams", Stream)["x"].topic == "t 1"


@pytest.mark.parametrize("path", ["/nowhere/at/all", "not/absolute", ""])
def test_a_file_that_cannot_be_read_is_named_with_the_value_that_wants_it(write: Write, path: str) -> None:
    found = write(a=f"streams:\n  x:\n    topic: ${{file:{path}}}\n")
    with pytest.raises(SettingsError) as refused:
        found.section("streams", Stream)
    assert (refused.value.details["secret_file"], refused.value.details["line"]) == (path, 3)


def test_a_file_that_is_no_text_is_named_without_its_content(write: Write, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"hunter2\xff")
    found = write(a=f"streams: {{x: {{topic: '${{file:{tmp_path}/secret}}'}}}}\n")
    with pytest.raises(SettingsError) as refused:
        found.section("streams", Stream)
    assert refused.value.details["secret_file"] == f"{tmp_path}/secret"
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_a_text_is_filled_from_a_connection_that_the_environment_hands_over(write: Write) -> None:
    text = "streams: {x: {topic: 'a${conn:kafka-eu.extra.group.id}'}, y: {topic: '${conn:db.password}'}}\n"
    env = {"LYREBIRD_CONN_KAFKA_EU_EXTRA_GROUP_ID": "g", "LYREBIRD_CONN_DB_PASSWORD": "p"}
    found = write(env, a=text)
    assert {name: s.topic for name, s in found.section("streams", Stream).items()} == {"x": "ag", "y": "p"}
    assert {connection_name(each) for each in connections_in(found.values)} == set(env)


def test_a_connection_that_nobody_hands_over_is_named_and_one_without_a_field_is_refused(write: Write) -> None:
    found = write(a="kafka: {bootstrap: '${conn:kafka.host}'}\nstreams: {x: {topic: '${conn:kafka}'}}\n")
    with pytest.raises(SettingsError) as refused:
        found.one("kafka", Kafka)
    assert (refused.value.details["connection"], refused.value.details["name"]) == (
        "kafka.host",
        "LYREBIRD_CONN_KAFKA_HOST",
    )
    with pytest.raises(SettingsError) as refused:
        found.section("streams", Stream)
    assert refused.value.details["connection"] == "kafka"
    assert "extra.KEY" in refused.value.details["allowed"]


def test_a_broken_file_is_told_to_whoever_asks_for_its_sections_and_to_nobody_else(write: Write) -> None:
    found = write(a="streams:\n  x: {topic: t}\n", b="uses:\n  y: {\nkafka: {bootstrap: h}\n")
    assert found.section("streams", Stream)["x"].topic == "t"
    assert found.names("others") == []
    for ask in (lambda: found.one("kafka", Kafka), lambda: found.names("uses"), lambda: found.filled("uses", "y")):
        with pytest.raises(SettingsError, match="not valid YAML") as refused:
            ask()
        assert (Path(refused.value.details["file"]).name, refused.value.details["line"]) == ("b.yaml", 4)


def test_a_broken_file_whose_sections_nobody_can_tell_may_hold_those_alone_that_no_other_has(write: Write) -> None:
    found = write(a="streams:\n  x: {topic: t}\n", b="- a\n")
    assert found.section("streams", Stream)["x"].topic == "t"
    assert [error.message for error in found.readable("streams", Stream)[1]] == ["a deployment file holds sections"]
    with pytest.raises(SettingsError, match="holds sections"):
        found.one("kafka", Kafka)


def test_what_an_editor_keeps_beside_a_file_is_none(write: Write) -> None:
    found = write(a="streams:\n  x: {topic: t}\n")
    (found.folder / ".#b.yaml").symlink_to("somebody@host.1234")
    (found.folder / ".a.yaml").write_text("streams:\n  y: {", encoding="utf-8")
    assert not Deployment.load(found.folder).broken


def test_entries_that_are_right_can_be_had_without_those_that_are_wrong(write: Write) -> None:
    good = "streams:\n  x: {topic: t}\n  y: {tpoic: t}\n  z: {topic: '${NONE}'}\n"
    found, errors = write(a=good, b="streams:\n  v: {\n", c="streams:\n  w: {topic: w}\n").readable("streams", Stream)
    assert sorted(found) == ["w", "x"]
    assert [(Path(e.details["file"]).name, e.details["line"]) for e in errors] == [
        ("b.yaml", 3),
        ("a.yaml", 3),
        ("a.yaml", 4),
    ]
    found, errors = write(a="streams: [1]\n", b="", c="").readable("streams", Stream)
    assert (found, [e.details["path"] for e in errors]) == ({}, ["streams"])


def test_values_do_not_change(write: Write) -> None:
    stream = write(a="streams:\n  x: {topic: t}\n").section("streams", Stream)["x"]
    with pytest.raises(ValueError, match="frozen"):
        stream.topic = "u"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("streams:\n  x:\n    topic: t\n    tpoic: u\n",
         r"unknown key \(.*a\.yaml', line=4, path='streams\.x\.tpoic', allowed=\['inner', 'many', 'named', 'topic'\]"),
        ("streams:\n  x:\n    topic: t\n    inner:\n      sise: 3\n", r"line=5, path='streams\.x\.inner\.sise'"),
        ("streams:\n  x:\n    topic: t\n    inner: {size: 1, sise: 3}\n", r"allowed=\['mode', 'size'\]"),
        ("streams:\n  x:\n    topic: t\n    many:\n    - size: 1\n    - size: big\n",
         r"integer.*line=6, path='streams\.x\.many\.1\.size', got='big'"),
        ("streams:\n  x:\n    topic: t\n    named:\n      n: {size: 1, other: 2}\n",
         r"unknown key.*line=5, path='streams\.x\.named\.n\.other', allowed=\['mode', 'size'\]"),
        ("streams:\n  x: {}\n", r"Field required.*line=2, path='streams\.x\.topic'"),
        ("streams: [1]\n", r"a section holds names.*line=1, path='streams'"),
        ("streams:\n  x: 3\n", r"a\.yaml', line=2, path='streams\.x'"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_place_and_what_is_allowed(write: Write, text: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected) as caught:
        write(a=text).section("streams", Stream)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1\n", r"not valid YAML.*line=2.*but got.*Mend that line"),
        ("- a\n", r"holds sections.*line=1"),
        ("a:\n  b: 1\n  b: 2\n", r"key stands twice.*line=3, path='a'"),
        ("a:\n  b: {{ name }}\n", r"a key is a name.*line=2.*quotes"),
        ("a:\n  ? [1]\n  : 2\n", r"a key is a name.*line=2"),
        ("a:\n  b: !secret x\n", r"not a value.*line=2"),
        ("a:\n  b: 2026-13-45\n", r"not a value.*line=2"),
    ],
)
def test_what_is_no_deployment_file_is_refused_with_its_line(write: Write, text: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected) as caught:
        write(a=text).names("a")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_named(write: Write, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(SettingsError, match=r"x\.yaml"):
        write().names("a")


def test_a_name_may_not_stand_in_two_files(write: Write) -> None:
    with pytest.raises(SettingsError, match=r"declared twice.*b\.yaml'") as refused:
        write(a="streams:\n  x: {topic: t}\n", b="\nstreams:\n  x: {topic: u}\n").section("streams", Stream)
    assert (refused.value.details["line"], refused.value.details["path"]) == (3, "streams.x")


def test_a_single_section_may_not_stand_in_two_files(write: Write) -> None:
    with pytest.raises(SettingsError, match=r"section is declared twice.*b\.yaml'") as refused:
        write(a="mode: x\n", b="mode: y\n").has("mode")
    assert (refused.value.details["line"], refused.value.details["path"]) == (1, "mode")


def test_an_empty_folder_and_a_missing_section_say_what_to_do(write: Write, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="LYREBIRD_DEPLOYMENT"):
        Deployment.load(tmp_path / "none", {})
    with pytest.raises(SettingsError, match="Add `kafka:`"):
        write(a="x: {}\n").one("kafka", Kafka)


def test_texts_are_filled_from_the_environment(write: Write) -> None:
    found = write(
        {"HOST": "h", "PORT": "9092"}, a="kafka: {bootstrap: '${HOST}:${PORT}', options: {a: '${NONE:-x y}'}}\n"
    )
    kafka = found.one("kafka", Kafka)
    assert (kafka.bootstrap, kafka.options) == ("h:9092", {"a": "x y"})


def test_a_filled_value_becomes_what_its_field_is(write: Write) -> None:
    found = write({"N": "017"}, a="s:\n  x: {topic: '${N}', inner: {size: '${N}'}}\n").section("s", Stream)["x"]
    assert (found.topic, found.inner) == ("017", Inner(size=17))


def test_a_name_that_is_not_set_is_refused_with_the_next_step(write: Write) -> None:
    with pytest.raises(SettingsError, match="lyrebird up") as refused:
        write(a="kafka:\n  bootstrap: ${NONE}\n").one("kafka", Kafka)
    assert (refused.value.details["line"], refused.value.details["path"], refused.value.details["name"]) == (
        2,
        "kafka.bootstrap",
        "NONE",
    )


def test_a_dangling_name_is_refused_with_the_names_there_are(write: Write) -> None:
    found = write(a="streams:\n  x: {topic: t}\n  w: {topic: t}\nuses:\n  a:\n    of: y\n")
    error = unknown_name(found, ("uses", "a", "of"), "y", "streams")
    assert "got='y', allowed=['w', 'x']" in str(error)
    assert (error.details["line"], error.details["path"]) == (6, "uses.a.of")


def test_an_error_about_a_value_that_is_not_there_names_the_one_above(write: Write) -> None:
    found = write(a="\nstreams:\n  x: {topic: t}\n")
    assert found.error(("streams", "x", "inner", "size"), "m").details["line"] == 3
    nowhere = found.error(("none",), "m")
    assert str(nowhere) == f"m (file={str(found.folder)!r}, path='none')"


def test_a_cluster_has_a_plain_name(write: Write) -> None:
    with pytest.raises(SettingsError, match="pattern") as refused:
        write(a="cluster: {name: 'a b', type: x}\n").one("cluster", Cluster)
    assert refused.value.details["path"] == "cluster.name"
