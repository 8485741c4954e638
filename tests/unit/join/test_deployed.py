"""The section `joins`, and the files that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import SettingsError
from include.join.config.deployed import declared_joins, joins_of_application
from include.settings.deployment import Deployment

pytestmark = pytest.mark.unit

SECTIONS = """
applications:
  join_reviews: {entry: spark_apps/join.py, topics: [sales.reviewed, sales.again]}
joins:
  reviewed: {application: join_reviews, file: joins/reviewed.yaml, partitions: 3}
"""
REVIEWED = """
join:
  - {topic: cdc.shop.shop.reviews, join_keys: [business_id]}
  - {topic: sales.businesses, join_keys: [id], aliases: [{from: id, to: business_id}]}
output: {namespace: sales, source: reviewed}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "joins").mkdir()
    (tmp_path / "joins" / "reviewed.yaml").write_text(REVIEWED)
    (tmp_path / "all.yaml").write_text(SECTIONS)
    return tmp_path


def declared(folder: Path) -> dict[str, object]:
    return dict(declared_joins(Deployment.load(folder, {})))


def test_a_join_is_read_from_its_file_and_known_by_its_topic(folder: Path) -> None:
    (join,) = joins_of_application(Deployment.load(folder, {}), "join_reviews")
    assert (join.name, join.topic, join.entry.partitions, join.entry.epoch) == ("reviewed", "sales.reviewed", 3, 1)
    assert [each.label for each in join.file.join] == ["cdc.shop.shop.reviews", "sales.businesses"]


def test_one_application_hosts_several_joins(folder: Path) -> None:
    (folder / "joins" / "again.yaml").write_text(REVIEWED.replace("source: reviewed", "source: again"))
    more = SECTIONS + "  again: {application: join_reviews, file: joins/again.yaml}\n"
    (folder / "all.yaml").write_text(more)
    assert [join.topic for join in joins_of_application(Deployment.load(folder, {}), "join_reviews")] == [
        "sales.reviewed",
        "sales.again",
    ]


@pytest.mark.parametrize(
    ("file", "was", "becomes", "path", "says"),
    [
        (
            "all.yaml",
            "application: join_reviews",
            "application: join_review",
            "joins.reviewed.application",
            "join_reviews",
        ),
        (
            "all.yaml",
            "topics: [sales.reviewed, ",
            "topics: [",
            "applications.join_reviews.topics",
            "Add sales.reviewed",
        ),
        ("all.yaml", "joins/reviewed.yaml", "joins/other.yaml", "joins.reviewed.file", "no such file"),
        ("all.yaml", "partitions: 3", "partitions: 0", "joins.reviewed.partitions", "greater than or equal to 1"),
        ("joins/reviewed.yaml", "source: reviewed", "source: dead", "output.source", "may not end in this word"),
        ("joins/reviewed.yaml", "sales.businesses", "sales.reviewed", "join.1.topic", "what it writes"),
        ("joins/reviewed.yaml", "sales.businesses", "cdc.x.control", "join.1.topic", "may not end in this word"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    folder: Path, file: str, was: str, becomes: str, path: str, says: str
) -> None:
    text = (folder / file).read_text()
    assert was in text
    (folder / file).write_text(text.replace(was, becomes, 1))
    with pytest.raises(SettingsError) as refused:
        declared(folder)
    assert refused.value.details["path"] == path
    assert refused.value.details["file"] == str(folder / file)
    assert says in str(refused.value)


def test_two_joins_of_one_topic_are_refused(folder: Path) -> None:
    (folder / "all.yaml").write_text(SECTIONS + "  again: {application: join_reviews, file: joins/reviewed.yaml}\n")
    with pytest.raises(SettingsError, match="two joins write one topic"):
        declared(folder)


def test_an_application_without_a_join_is_told_so(folder: Path) -> None:
    with pytest.raises(SettingsError, match="hosts no join"):
        joins_of_application(Deployment.load(folder, {}), "other")
