from __future__ import annotations

import json

import pytest

from include.index.bulk.request import classify_item, classify_request, document_line, groups_of
from include.index.identity import DocumentIdentity
from include.index.server.port import BulkAnswer, ItemAnswer


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (200, "", "done"),
        (201, "", "done"),
        (409, "version_conflict_engine_exception", "stale"),
        (429, "es_rejected_execution_exception", "retry"),
        (429, "circuit_breaking_exception", "retry"),
        (429, "cluster_block_exception", "slow"),
        (500, "null_pointer_exception", "broken"),
        (500, "mapper_exception", "retry"),
        (503, "unavailable_shards_exception", "retry"),
        (403, "cluster_block_exception", "slow"),
        (403, "security_exception", "index_fault"),
        (401, "security_exception", "index_fault"),
        (400, "index_closed_exception", "slow"),
        (404, "index_not_found_exception", "index_fault"),
        (400, "invalid_index_name_exception", "index_fault"),
        (400, "strict_dynamic_mapping_exception", "dead"),
        (400, "document_parsing_exception", "dead"),
        (400, "mapper_parsing_exception", "dead"),
        (400, "illegal_argument_exception", "dead"),
        (400, "some_other_exception", "alone"),
        # A part of a known type is another type.
        (400, "my_document_parsing_exception", "alone"),
        (413, "", "alone"),
    ],
)
def test_an_item_is_classified_by_status_and_exact_type(status: int, kind: str, expected: str) -> None:
    assert classify_item(status, kind) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (BulkAnswer(200, [ItemAnswer(201)]), "items"),
        (BulkAnswer(200, []), "retry"),
        (BulkAnswer(200, [ItemAnswer(201), ItemAnswer(201)]), "retry"),
        (BulkAnswer(200, None), "retry"),
        (BulkAnswer(0, type="ConnectionError"), "retry"),
        (BulkAnswer(500), "retry"),
        (BulkAnswer(503), "retry"),
        (BulkAnswer(429, type="es_rejected_execution_exception"), "retry"),
        (BulkAnswer(429, type="cluster_block_exception"), "slow"),
        (BulkAnswer(403, type="cluster_block_exception"), "slow"),
        (BulkAnswer(413), "split"),
        (BulkAnswer(400, type="illegal_argument_exception"), "halve"),
        (BulkAnswer(400, type="invalid_index_name_exception"), "index_fault"),
        (BulkAnswer(401), "index_fault"),
        (BulkAnswer(403, type="security_exception"), "index_fault"),
        (BulkAnswer(404, type="index_not_found_exception"), "index_fault"),
    ],
)
def test_a_request_is_classified_before_its_items(answer: BulkAnswer, expected: str) -> None:
    assert classify_request(answer, 1) == expected


def test_a_line_carries_id_external_version_body_and_metadata() -> None:
    line = document_line(7, DocumentIdentity('a"ü', 5), "order", b'{"x":1}', b'{"deleted":false}')
    action, document, rest = line.data.split(b"\n")
    assert json.loads(action) == {"index": {"_id": 'a"ü', "version": 5, "version_type": "external"}}
    assert json.loads(document) == {"order": {"x": 1}, "metadata": {"deleted": False}}
    assert (rest, line.deleted) == (b"", False)


def test_a_tombstone_has_metadata_and_no_body() -> None:
    line = document_line(0, DocumentIdentity("1", 5), "order", None, b'{"deleted":true}')
    assert json.loads(line.data.split(b"\n")[1]) == {"metadata": {"deleted": True}}
    assert line.deleted


def test_groups_hold_at_most_their_bytes_and_a_larger_line_goes_alone() -> None:
    lines = [
        document_line(n, DocumentIdentity(str(n), 1), "o", b"x" * size, b"{}")
        for n, size in enumerate((10, 10, 500, 10))
    ]
    groups = groups_of(lines, 2 * len(lines[0].data))
    assert [[line.ref for line in group] for group in groups] == [[0, 1], [2], [3]]
    assert groups_of([], 10) == []
