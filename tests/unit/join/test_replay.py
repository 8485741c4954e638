"""`lyrebird join replay`: a file of changes through the platform's own algorithm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from include.cli.join.replay import command
from include.errors import SettingsError

pytestmark = pytest.mark.unit

REVIEWS = """
join:
  - schema_id: 12345
    join_keys: [biz_id]
    exclude_fields: [content, review_id]
  - schema_id: 23143
    join_keys: [business_id]
    aliases: [{from: business_id, to: biz_id}]
    exclude_fields: [address, name]
output:
  namespace: joinery_example
  source: business_review_join
  doc: Join of business table and review table
  pkey: [business_id]
"""

LEFT = """
join:
  - topic: a
    join_keys: [j]
  - topic: b
    join_keys: [j]
    aliases: [{from: id, to: b_id}]
    type: left
    where: {kind: [x, y]}
output: {namespace: n, source: s}
"""


def review(id: int, user: int, version: int, content: str = "good") -> dict[str, object]:
    value = {"review_id": id, "biz_id": 7, "user_id": user, "content": content}
    return {"input": 0, "op": "c", "key": {"review_id": id}, "value": value, "version": version}


def business(state: str, version: int) -> dict[str, object]:
    value = {"business_id": 7, "name": "a", "address": "b", "state": state}
    return {"input": 1, "op": "c", "key": {"business_id": 7}, "value": value, "version": version}


def gone(input: int, key: dict[str, int], version: int) -> dict[str, object]:
    return {"input": input, "op": "d", "key": key, "value": None, "version": version}


def outputs(folder: Path, config: str, changes: list[dict[str, object]], *options: str) -> list[dict[str, object]]:
    (folder / "join.yaml").write_text(config)
    (folder / "changes.jsonl").write_text("\n".join(map(json.dumps, changes)))
    arguments = ["--config", str(folder / "join.yaml"), "--input", str(folder / "changes.jsonl"), *options]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def joined(user: int, state: str) -> dict[str, object]:
    return {"biz_id": 7, "user_id": user, "state": state}


def test_of_several_reviews_of_a_business_the_newest_is_shown_and_then_the_next(tmp_path: Path) -> None:
    changes = [review(1, 3, 1), business("CA", 1), review(2, 4, 2), gone(0, {"review_id": 2}, 3)]
    found = outputs(tmp_path, REVIEWS, changes)
    assert [(each["key"], each["value"]) for each in found] == [
        ({"biz_id": 7}, joined(3, "CA")),
        ({"biz_id": 7}, joined(4, "CA")),
        ({"biz_id": 7}, joined(3, "CA")),
    ]
    versions: list[Any] = [each["version"] for each in found]
    assert versions == sorted(versions)


def test_a_change_of_a_field_that_is_not_shown_writes_nothing(tmp_path: Path) -> None:
    changes = [review(1, 3, 1), business("CA", 1), review(1, 3, 2, content="better")]
    assert len(outputs(tmp_path, REVIEWS, changes)) == 1


def test_a_record_that_comes_again_is_stale_and_told_of(tmp_path: Path) -> None:
    changes = [review(1, 3, 1), review(1, 3, 1), business("CA", 1)]
    assert len(outputs(tmp_path, REVIEWS, changes)) == 1
    found = outputs(tmp_path, REVIEWS, changes, "--json")
    assert found[0]["stale"] == 1


def test_a_row_without_partner_is_shown_with_nulls_in_a_left_join(tmp_path: Path) -> None:
    a = {"input": 0, "op": "c", "key": {"id": 1}, "value": {"id": 1, "j": 5}}
    other = {"input": 1, "op": "c", "key": {"id": 9}, "value": {"id": 9, "j": 5, "kind": "z"}}
    partner = {"input": 1, "op": "u", "key": {"id": 9}, "value": {"id": 9, "j": 5, "kind": "x"}}
    found = outputs(tmp_path, LEFT, [a, other, partner])
    nothing = {"key": {"id": 1, "b_id": None}, "value": {"id": 1, "j": 5, "b_id": None, "kind": None}}
    both = {"key": {"id": 1, "b_id": 9}, "value": {"id": 1, "j": 5, "b_id": 9, "kind": "x"}}
    assert [{**each, "version": 0} for each in found] == [
        {**nothing, "version": 0},
        {"key": nothing["key"], "value": None, "version": 0},
        {**both, "version": 0},
    ]


@pytest.mark.parametrize("options", [["--batch", "2"], ["--batch", "100"], ["--shuffle", "--seed", "3"]])
def test_the_final_table_is_the_same_for_any_batches_and_any_order_of_outputs(
    tmp_path: Path, options: list[str]
) -> None:
    changes = [
        review(1, 3, 1),
        business("CA", 1),
        review(2, 4, 2),
        gone(1, {"business_id": 7}, 2),
        gone(0, {"review_id": 2}, 3),
        business("NV", 3),
    ]
    found = outputs(tmp_path, REVIEWS, changes, "--final", *options)
    assert [(each["key"], each["value"]) for each in found] == [({"biz_id": 7}, joined(3, "NV"))]


def test_versions_count_the_changes_of_a_batch_by_input_and_records_per_batch_bounds_it(tmp_path: Path) -> None:
    other = {**business("NV", 1), "key": {"business_id": 8}}
    other["value"] = {"business_id": 8, "name": "a", "address": "b", "state": "NV"}
    changes = [business("CA", 1), other, review(1, 3, 1)]
    # The review is the first of the batch then, and the business that completes it the second.
    assert [each["version"] for each in outputs(tmp_path, REVIEWS, changes)] == [5]
    assert [each["version"] for each in outputs(tmp_path, REVIEWS, changes, "--batch", "3")] == [3]
    bounded = f"{REVIEWS}records_per_batch: 2\n"
    assert [each["version"] for each in outputs(tmp_path, bounded, changes, "--batch", "3")] == [5]


def test_without_an_alias_both_names_of_the_join_key_are_shown(tmp_path: Path) -> None:
    config = REVIEWS.replace("    aliases: [{from: business_id, to: biz_id}]\n", "")
    found = outputs(tmp_path, config, [review(1, 3, 1), business("CA", 1)])
    assert found[0]["value"] == {"biz_id": 7, "user_id": 3, "business_id": 7, "state": "CA"}


@pytest.mark.parametrize(
    ("was", "becomes", "path", "says"),
    [
        ("join_keys: [business_id]", "join_keys: [busines_id]", "join.1.join_keys.0", "mean business_id"),
        ("pkey: [business_id]", "pkey: [user_id]", "output.pkey", "Add biz_id"),
        ("pkey: [business_id]", "pkey: [biz_id, stat]", "output.pkey.1", "no input has this field"),
        ("exclude_fields: [address, name]", "exclude_fields: [adress]", "join.1.exclude_fields.0", "mean address"),
        ("to: biz_id}", "to: user_id}", "join.1", "a field of one name"),
        ("join_keys: [biz_id]", "join_keys: [biz_id, user_id]", "", "as many `join_keys`"),
        ("join_keys: [biz_id]", "join_keys: [biz_id]\n    type: left", "", "the first input"),
        ("schema_id: 12345", "schema_id: 12345\n    topic: reviews", "join.0", "either `schema_id` or `topic`"),
        ("pkey:", "pkye:", "output.pkye", "unknown key"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, was: str, becomes: str, path: str, says: str
) -> None:
    assert was in REVIEWS
    with pytest.raises(SettingsError) as refused:
        outputs(tmp_path, REVIEWS.replace(was, becomes, 1), [review(1, 3, 1), business("CA", 1)])
    assert refused.value.details["path"] == path
    assert says in str(refused.value)
    assert str(tmp_path / "join.yaml") in str(refused.value)


def test_a_line_that_is_no_change_is_refused_with_its_number(tmp_path: Path) -> None:
    for bad, reason in [
        ({"input": 2, "op": "c", "key": {"id": 1}, "value": {}}, "no such input"),
        ({"input": 0, "op": "d", "key": {"id": 1}, "value": {"id": 1}}, "a deleted row has no value"),
        ({"input": 0, "op": "x", "key": {"id": 1}, "value": {}}, "not a change"),
    ]:
        with pytest.raises(SettingsError, match=reason) as refused:
            outputs(tmp_path, REVIEWS, [review(1, 3, 1), bad])
        assert refused.value.details["line"] == 2


def test_a_join_key_that_is_never_equal_is_refused_with_its_line(tmp_path: Path) -> None:
    bad = {"input": 0, "op": "c", "key": {"review_id": 2}, "value": {"review_id": 2, "biz_id": 7.5, "user_id": 3}}
    with pytest.raises(SettingsError, match="a join key is") as refused:
        outputs(tmp_path, REVIEWS, [review(1, 3, 1), business("CA", 1), bad])
    assert refused.value.details == {"line": 3, "field": "biz_id"}
