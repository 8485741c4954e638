from __future__ import annotations

import dataclasses
import json

import pytest

from include.errors import SettingsError
from include.search.cursor import DistanceCursor, ListPlace
from include.search.definition import SearchTarget
from include.search.queries import Box, Circle, Filters, Pieces, by_text, listed, nearest, ranking

DELETED = {"term": {"metadata.deleted": True}}


def clauses(body: dict[str, object]) -> list[dict[str, object]]:
    return body["query"]["bool"]["filter"]  # type: ignore[index]


def test_a_users_list_is_newest_first_in_a_total_order(target: SearchTarget) -> None:
    body = listed(target, Filters(user=7), 20)
    assert body["query"]["bool"] == {"filter": [{"term": {"order.user_id": 7}}], "must_not": [DELETED]}
    assert [next(iter(each)) for each in body["sort"]] == ["order.created_at", "metadata.doc_id"]
    assert "search_after" not in body
    assert "from" not in body


def test_a_page_begins_after_the_last_one_to_the_microsecond(target: SearchTarget) -> None:
    body = listed(target, Filters(user=7), 20, ListPlace(1_000_000_000_000_001, "4711"))
    assert body["search_after"] == ["2001-09-09T01:46:40.000001Z", "4711"]


def test_words_and_quantity_are_asked_of_one_line(target: SearchTarget) -> None:
    body = by_text(target, "meat lover's pizza", Pieces(3, 3), Filters(business=4), 20)
    business, nested = clauses(body)
    assert business == {"term": {"order.business_id": 4}}
    inside = nested["nested"]["query"]["bool"]["filter"]  # type: ignore[index]
    assert inside[0]["multi_match"]["fields"] == ["order.lines.name", "order.lines.description"]
    assert inside[1] == {"range": {"order.lines.quantity": {"gte": 3, "lte": 3}}}


def test_without_a_quantity_any_line_with_the_words_will_do(target: SearchTarget) -> None:
    nested = clauses(by_text(target, "pizza", Pieces(), Filters(), 20))[-1]
    assert len(nested["nested"]["query"]["bool"]["filter"]) == 1  # type: ignore[index]


def test_a_ranking_asks_each_shard_for_many_more_names_than_it_shows(target: SearchTarget) -> None:
    names = ranking(target, "item", Filters(business=4), 10)["aggs"]["lines"]["aggs"]["names"]
    assert names["terms"] == {"field": "order.lines.name.keyword", "size": 10, "shard_size": 1_100}
    assert names["aggs"]["documents"] == {"reverse_nested": {}}


def test_a_ranking_inside_a_category_counts_its_lines_alone(target: SearchTarget) -> None:
    inside = ranking(target, "item", Filters(), 10, category="Mains")["aggs"]["lines"]["aggs"]["only"]
    assert inside["filter"] == {"term": {"order.lines.category": "Mains"}}


def test_places_are_asked_for_by_box_and_by_circle(target: SearchTarget) -> None:
    filters = Filters(box=Box(53, 179, 52, -179), circle=Circle(52.5, 13.4, 500))
    box, circle = clauses(listed(target, filters, 20))
    corners = {"top": 53, "left": 179, "bottom": 52, "right": -179}
    assert box == {"geo_bounding_box": {"order.delivery_address.location": corners}}
    assert circle["geo_distance"]["distance"] == "500m"  # type: ignore[index]
    sort = nearest(target, Circle(52.5, 13.4, 500), Filters(), 20, DistanceCursor(1.5, "7"))
    assert sort["sort"][0]["_geo_distance"]["order"] == "asc"
    assert sort["search_after"] == [1.5, "7"]


def test_times_bound_a_list_from_inclusive_to_exclusive(target: SearchTarget) -> None:
    body = listed(target, Filters(since_us=0, until_us=1_000_000), 20)
    bounds = {"gte": "1970-01-01T00:00:00.000000Z", "lt": "1970-01-01T00:00:01.000000Z"}
    assert clauses(body)[-1] == {"range": {"order.created_at": bounds}}


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (Filters(user="seven"), "not a whole number"),
        (Filters(equal={"nothing": 1}), "compared as a whole"),
        (Filters(equal={"delivery_address.street": "x"}), "compared as a whole"),
    ],
)
def test_what_the_mapping_cannot_answer_is_refused_before_it_is_asked(
    target: SearchTarget, filters: Filters, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        listed(target, filters, 20)


@pytest.mark.parametrize("size", [0, -1, 1_001])
def test_a_page_has_a_bounded_size(target: SearchTarget, size: int) -> None:
    with pytest.raises(SettingsError, match="size of a page"):
        listed(target, Filters(user=7), size)


def test_what_a_search_does_not_declare_it_cannot_be_asked_for(target: SearchTarget) -> None:
    bare = dataclasses.replace(
        target, search=target.search.model_copy(update={"lines": None, "location": None, "business": None})
    )
    for ask in (
        lambda: by_text(bare, "pizza", Pieces(), Filters(), 20),
        lambda: ranking(bare, "item", Filters(), 10),
        lambda: nearest(bare, Circle(1, 1, 1), Filters(), 20),
        lambda: listed(bare, Filters(business=1), 20),
    ):
        with pytest.raises(SettingsError, match=r"Add `(lines|location|business):` to its entry"):
            ask()


def test_in_an_index_of_several_topics_only_its_own_documents_are_meant(target: SearchTarget) -> None:
    topic = target.index.topics["assembled_order"]
    shared = dataclasses.replace(
        target, index=target.index.model_copy(update={"topics": {"assembled_order": topic, "other": topic}})
    )
    assert {"term": {"metadata.topic": "assembled_order"}} in clauses(listed(shared, Filters(), 20))
    assert shared.index_id("7") == "assembled_order/7"
    assert target.index_id("7") == "7"


def test_every_query_is_plain_json(target: SearchTarget) -> None:
    filters = Filters(7, 4, 0, 1, Box(1, 0, 0, 1), Circle(1, 1, 1), {"state": "completed"})
    for body in (
        listed(target, filters, 1),
        by_text(target, "é", Pieces(1), filters, 1),
        ranking(target, "category", filters, 1),
    ):
        assert json.loads(json.dumps(body)) == body
