"""Groups that cannot be carried out are refused before anything runs, with their place in the deployment files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from include.clock import ManualClock
from include.errors import SettingsError
from include.lake import groups_spark as stream
from include.lake.check import _covers, check_groups
from include.lake.definition import declared_groups
from include.lake.parsing.port import Parsed
from include.settings.deployment import Deployment


class Own:
    """A parser of a user's."""

    version = "1"

    def parse(self, message: Any) -> Parsed:
        return Parsed(message.value, ("dt=2026-01-01",))


def version() -> dict[str, Any]:
    parser = {"format": "avro", "time": {"field": "at", "unit": "ms"}}
    return {"version": 1, "added": "2026-01-01T00:00:00Z", "parser": parser}


def plain() -> dict[str, Any]:
    return {
        "store": {"endpoint": "http://127.0.0.1:1", "bucket": "lake", "access_key": "k", "secret_key": "s"},
        "registry": {"url": "http://127.0.0.1:2"},
        "applications": {
            "backup": {"entry": "spark_apps/lake_backup.py"},
            "partition": {"entry": "spark_apps/lake_partition.py"},
        },
        "lake": {
            "raw": {
                "kind": "backup",
                "application": "backup",
                "topics": ["cdc.*"],
                "prefix": "raw",
                "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
            },
            "by_date": {
                "kind": "partition",
                "application": "partition",
                "topics": ["cdc.*", "events"],
                "prefix": "by_date",
                "rules": [
                    {"topics": "events", "format": {"json_lines": {"content": "payload"}}, "versions": [version()]},
                    {"topics": "cdc.*", "format": {"parquet": {}}, "versions": [version()]},
                ],
            },
        },
    }


def checked(folder: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    values = plain()
    change(values)
    (folder / "all.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return list(check_groups(Deployment.load(folder, {})))


def refused(folder: Path, change: Callable[[dict[str, Any]], None]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        checked(folder, change)
    return caught.value


def parser(values: dict[str, Any], **changed: Any) -> None:
    values["lake"]["by_date"]["rules"][1]["versions"][0]["parser"] |= changed


def test_groups_that_can_be_carried_out_pass_without_any_server(tmp_path: Path) -> None:
    assert checked(tmp_path, lambda _values: None) == ["raw", "by_date"]
    (tmp_path / "all.yaml").write_text("kafka: {}\n")
    assert check_groups(Deployment.load(tmp_path, {})) == {}


def test_a_class_of_the_users_is_loaded(tmp_path: Path) -> None:
    def own(name: str) -> Callable[[dict[str, Any]], None]:
        def change(values: dict[str, Any]) -> None:
            given = {"format": "class", "parser": {"name": name}}
            values["lake"]["by_date"]["rules"][1]["versions"][0]["parser"] = given

        return change

    assert checked(tmp_path, own("tests.unit.lake.test_check:Own"))
    error = refused(tmp_path, own("tests.unit.lake.test_check:Nobody"))
    assert "Nobody" in str(error)
    assert "PYTHONPATH" in error.fix
    assert error.details["path"] == "lake.by_date.rules.1.versions.0.parser"
    assert error.details["line"] > 0


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("store.bucket", lambda values: values["store"].update(bucket="My_Lake")),
        ("store.bucket", lambda values: values["store"].update(bucket="10.0.0.1")),
        ("store.bucket", lambda values: values["store"].update(bucket="a..b")),
        ("store", lambda values: values.pop("store")),
        ("lake.raw.application", lambda values: values["lake"]["raw"].update(application="partition")),
        ("lake.raw.application", lambda values: values["lake"]["raw"].update(application="nobody")),
        ("lake.raw.application", lambda values: values["lake"]["raw"].update(run="schedule")),
        ("applications.backup", lambda values: values["lake"].pop("raw")),
        ("lake.raw.topics.1", lambda values: values["lake"]["raw"].update(topics=["cdc.*", "other"], rules=[
            {"topics": "cdc.*", "format": {"sequence": {}}}])),
        ("lake.by_date.rules.1.topics", lambda values: values["lake"]["by_date"]["rules"][0].update(topics="*")),
        ("lake.by_date.rules.0.versions.0.parser", lambda values: values.pop("registry")),
        ("lake.raw.rules.0.format", lambda values: (values.pop("registry"), values["lake"]["raw"].update(
            rules=[{"topics": "*", "format": {"avro": {}}}]))),
        ("lake.by_date.rules.1.versions.0.parser", lambda values: parser(
            values, format="protobuf", descriptor_set="none.desc", message="a.B")),
        ("lake.by_date.rules.1.versions.0.parser", lambda values: parser(
            values, format="json", time={"field": "at", "unit": "instant"})),
        ("lake.by_date.rules.1.versions.0.parser", lambda values: parser(
            values, names=[{"by": "day", "zone": "Europe/Berlinn"}])),
        ("lake.by_date.rules.1.versions.0.parser.names", lambda values: parser(
            values, time={"field": "DT", "unit": "ms"})),
        ("lake.by_date.rules.1.versions.0.parser.names", lambda values: parser(
            values, names=[{"by": "field", "name": "country", "field": "country"}])),
        ("lake.by_date.rules.1.versions.0.parser.names", lambda values: parser(
            values, names=[{"by": "hour"}], drop=[{"field": "hr.at", "one_of": ["x"]}])),
        ("lake.by_date.rules.1.versions.0.parser.names", lambda values: parser(
            values, drop=[{"field": "schema", "one_of": ["x"]}])),
        ("lake.by_date.prefix", lambda values: values["lake"]["by_date"].update(prefix="raw/x")),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_out_is_refused_with_its_place(
    tmp_path: Path, path: str, change: Callable[[dict[str, Any]], None]
) -> None:
    assert str(refused(tmp_path, change).details["path"]).startswith(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"names": [{"by": "field", "name": "by_country", "field": "country"}]},
        {"names": [{"by": "field", "name": "country", "field": "address.country"}]},
        {"names": [{"by": "day", "layout": "secor"}], "time": {"field": "dt", "unit": "ms"}},
    ],
)
def test_a_folder_of_another_name_than_all_fields_passes(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert checked(tmp_path, lambda values: parser(values, **changed))


def test_a_folder_named_like_a_column_is_refused_at_start_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = plain() | {"kafka": {"bootstrap": "127.0.0.1:9"}}
    parser(values, names=[{"by": "field", "name": "country", "field": "country"}])
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    deployment = Deployment.load(tmp_path, {})
    monkeypatch.setattr(stream, "require_honest", lambda _store: pytest.fail("the store was asked"))
    spark: Any = None
    with pytest.raises(SettingsError, match="name of a field") as error:
        stream.build(spark, deployment, declared_groups(deployment), ManualClock(0))
    assert error.value.details["path"] == "lake.by_date.rules.1.versions.0.parser.names"


def test_files_without_columns_and_older_versions_may_lie_in_any_folder(tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        whole, columns = values["lake"]["by_date"]["rules"]
        whole["format"] = {"json_lines": {"content": "message"}}
        whole["versions"][0]["parser"]["time"]["field"] = "dt"
        newer = version() | {"version": 2, "added": "2026-02-01T00:00:00Z", "from_time": "2026-02-01T00:00:00Z"}
        columns["versions"][0]["parser"]["time"]["field"] = "dt"
        columns["versions"].append(newer)

    assert checked(tmp_path, change)


def test_a_group_on_a_schedule_needs_no_application_that_runs(tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["lake"]["raw"]["run"] = "schedule"
        values["applications"].pop("backup")

    assert checked(tmp_path, change) == ["raw", "by_date"]


@pytest.mark.parametrize(
    ("outer", "inner", "covers"),
    [("*", "a*b", True), ("a*", "a?c*", True), ("a?*", "a*", False), ("a?", "a*", False), ("a", "a", True)],
)
def test_a_pattern_covers_another_when_it_has_all_its_topics(outer: str, inner: str, covers: bool) -> None:
    assert _covers(outer, inner) is covers


@given(st.text("ab*?", max_size=5), st.text("ab*?", max_size=5), st.text("ab", max_size=5))
def test_no_topic_of_a_covered_pattern_is_missed(outer: str, inner: str, topic: str) -> None:
    from fnmatch import fnmatchcase

    if _covers(outer, inner) and fnmatchcase(topic, inner):
        assert fnmatchcase(topic, outer)
