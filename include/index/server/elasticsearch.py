"""The port on elasticsearch-py 8.19. Bodies are handed over as bytes; the client's own retries are off.

`GET /` is never called: small distributions do not answer it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from include.errors import BackPressure, Terminal, Transient
from include.index.server.answers import WRITTEN, serializers
from include.index.server.port import BulkAnswer, IndexedDocument, IndexInfo, IndexNote, ItemAnswer, SearchIndex
from include.settings.certificates import tls_context
from include.settings.connections import Elasticsearch as Settings
from include.settings.secret import revealed

if TYPE_CHECKING:
    import elasticsearch

__all__ = ["ElasticsearchIndex", "call", "connect"]

T = TypeVar("T")
_REQUEST_S = 10.0
_BULK_S = 30.0
# What a busy node does at its own pace; sent again it would only have more to do.
_SLOW_S = 60.0
_SECTION = "elasticsearch"
_IDS = 500
# Each is left out for a while once it was found away.
_NODES_AWAY = 2
# OpenSSL's and urllib3's words for a certificate that one side does not accept; other ends of a connection pass.
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "Fingerprints did not match", "ALERT_CERTIFICATE", "ALERT_BAD_CERTIFICATE")
_MOST_HITS = 10_000
_CLOSED = "already_closed_exception"
_BULK_FILTER = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"


def connect(settings: Settings, node_class: Any = "urllib3") -> elasticsearch.Elasticsearch:
    """A client without retries of its own, as `delivery` decides what is sent again.

    Raises `Terminal` for a file of certificates that is not on this host or holds something else.
    """
    import elasticsearch

    context = tls_context(_SECTION, settings.ca_file, settings.client_cert, settings.client_key)
    tls: dict[str, Any] = {} if context is None else {"ssl_context": context}
    if settings.fingerprint is not None:
        # It takes the place of an authority and of names, which the client then does not look at.
        tls["ssl_assert_fingerprint"] = settings.fingerprint
    return elasticsearch.Elasticsearch(
        list(settings.urls),
        api_key=revealed(settings.api_key),
        basic_auth=(settings.user, revealed(settings.password) or "") if settings.user else None,
        serializers=serializers(),
        max_retries=0,
        retry_on_timeout=False,
        request_timeout=_REQUEST_S,
        node_class=node_class,
        **tls,
    )


def call(request: Callable[[], T], **details: Any) -> T:
    """Run a request; raises `Transient` (no answer), `BackPressure` (full) or `Terminal` (refused).

    What a node that is away never got is asked of the next one, as the client goes by turns. A 404 stays
    `NotFoundError` and a 409 `ConflictError` of the client, as the caller knows what they mean.
    """
    import elasticsearch

    try:
        return _asked(request)
    except (elasticsearch.NotFoundError, elasticsearch.ConflictError):
        raise
    except elasticsearch.ApiError as error:
        status, reason = error.status_code, _reason(error.body)
        if status == 429:
            raise BackPressure("Elasticsearch is full", system="elasticsearch", reason=reason, **details) from error
        if status >= 500:
            raise Transient(
                "Elasticsearch failed", system="elasticsearch", status=status, reason=reason, **details
            ) from error
        fix = "Check the user or API key in section `elasticsearch`, and its rights." if status in (401, 403) else ""
        raise Terminal("Elasticsearch refuses", status=status, reason=reason, fix=fix, **details) from error
    except elasticsearch.TransportError as error:
        if any(word in str(error.message) for word in _UNTRUSTED):
            raise Terminal(
                "Elasticsearch's certificate is not trusted, or it does not trust ours",
                reason=str(error.message),
                fix="Check ca_file, fingerprint and client_cert in section `elasticsearch`.",
                **details,
            ) from error
        raise Transient(
            "Elasticsearch does not answer",
            system="elasticsearch",
            reason=type(error).__name__,
            fix="Run `lyrebird status`, or check LYREBIRD_ELASTICSEARCH.",
            **details,
        ) from error


def _asked(request: Callable[[], T]) -> T:
    import elasticsearch
    from urllib3.exceptions import NewConnectionError

    for _ in range(_NODES_AWAY):
        try:
            return request()
        except elasticsearch.ConnectionError as error:
            if not isinstance(error.__cause__, NewConnectionError):
                raise
    return request()


class ElasticsearchIndex(SearchIndex):
    """One node or cluster. Safe to use from several threads."""

    def __init__(self, settings: Settings, client: elasticsearch.Elasticsearch | None = None) -> None:
        self.client = client or connect(settings)
        self._slow = self.client.options(request_timeout=_SLOW_S)

    @override
    def describe(self, name: str) -> IndexInfo | None:
        """An alias that leads to several indexes is `Terminal`."""
        import elasticsearch

        try:
            response = call(lambda: self.client.indices.get(index=name), index=name)
        except elasticsearch.NotFoundError:
            return None
        if len(response.body) != 1:
            raise Terminal("alias leads to several indexes", alias=name, indexes=sorted(response.body))
        concrete, info = next(iter(response.body.items()))
        uuid = info["settings"]["index"]["uuid"]
        return IndexInfo(concrete, uuid, info["mappings"], info["aliases"])

    @override
    def create(self, name: str, body: Mapping[str, Any]) -> IndexInfo:
        info = self.describe(name)
        if info is None:
            try:
                call(lambda: self._slow.indices.create(index=name, **body), index=name)
            except Terminal as error:
                # Somebody else was quicker, or the answer to an earlier attempt was lost.
                info = self.describe(name)
                if info is None:
                    raise error from error.__cause__
            info = self.describe(name)
        if info is None or info.name != name:
            raise Terminal("index was not created", index=name, found=info.name if info else None)
        return info

    @override
    def bulk(self, name: str, lines: bytes) -> BulkAnswer:
        import elasticsearch

        client = self.client.options(request_timeout=_BULK_S)
        try:
            # The client frames ready bytes itself, though its annotation names mappings only.
            response = client.bulk(index=name, operations=lines, filter_path=_BULK_FILTER)  # type: ignore[arg-type]
        except elasticsearch.ApiError as error:
            return BulkAnswer(
                error.status_code,
                type=_type(error.body),
                reason=_reason(error.body),
                retry_after_s=_seconds(error.meta.headers.get("retry-after")),
            )
        except (elasticsearch.TransportError, elasticsearch.SerializationError) as error:
            return BulkAnswer(0, type=type(error).__name__, reason=str(error))
        items = response.body.get("items")
        if not isinstance(items, list):
            return BulkAnswer(200, None)
        # Items that `answers` has read stand as they are.
        return BulkAnswer(200, [item if type(item) is ItemAnswer else _item(item) for item in items])

    @override
    def get(self, name: str, doc_id: str, routing: str | None = None) -> IndexedDocument | None:
        import elasticsearch

        try:
            response = self._newest(name, lambda: self.client.get(index=name, id=doc_id, routing=routing))
        except elasticsearch.NotFoundError as error:
            if _type(error.body) == "index_not_found_exception":
                raise _missing(name) from error
            return None
        return IndexedDocument(doc_id, response.body["_version"], response.body["_source"], routing)

    @override
    def get_many(self, name: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        """Asks for 1,000 at a time."""
        out: dict[str, IndexedDocument] = {}
        for start in range(0, len(doc_ids), 1000):
            ids = list(doc_ids[start : start + 1000])
            answer = call(
                lambda ids=ids: self.client.mget(index=name, ids=ids, source_includes=["metadata"]),  # type: ignore[misc]
                index=name,
            )
            for doc in answer.body["docs"]:
                if "error" in doc:
                    if doc["error"]["type"] == "index_not_found_exception":
                        raise _missing(name)
                    self._reopen(name, doc)
                    raise Transient("document cannot be read", system="elasticsearch", reason=doc["error"]["type"])
                if doc["found"]:
                    out[doc["_id"]] = IndexedDocument(doc["_id"], doc["_version"], doc["_source"])
        return out

    @override
    def refresh(self, name: str) -> None:
        import elasticsearch

        try:
            shards = call(lambda: self._slow.indices.refresh(index=name), index=name).body["_shards"]
        except elasticsearch.NotFoundError as error:
            raise _missing(name) from error
        if shards["failed"]:
            raise Transient("a shard was not refreshed", system="elasticsearch", index=name, failed=shards["failed"])

    @override
    def living_below(self, name: str, topic: str, version: int, most: int) -> list[IndexedDocument]:
        older = {"range": {"metadata.version": {"lt": version}}}
        return self._of_topic(name, topic, [{"term": {"metadata.deleted": False}}, older], most)

    @override
    def tombstones(
        self, name: str, topic: str, partition: int, below: int, after: tuple[int, str], most: int
    ) -> list[IndexedDocument]:
        filters: list[dict[str, Any]] = [
            {"term": {"metadata.deleted": True}},
            {"term": {"metadata.partition": partition}},
            {"range": {"metadata.offset": {"gte": after[0], "lt": below}}},
        ]
        order = ["metadata.offset", "metadata.doc_id"]
        return self._of_topic(name, topic, filters, most, sort=order, search_after=list(after))

    @override
    def copies(self, name: str, topic: str, doc_ids: Sequence[str]) -> list[IndexedDocument]:
        """Asks for 500 at a time, or fewer where they have very many copies."""
        out: list[IndexedDocument] = []
        left = [list(doc_ids[start : start + _IDS]) for start in range(0, len(doc_ids), _IDS)]
        while left:
            ids = left.pop()
            found = self._of_topic(name, topic, [{"terms": {"metadata.doc_id": ids}}], _MOST_HITS)
            if len(found) < _MOST_HITS or len(ids) == 1:
                out += found
            else:
                left += [ids[: len(ids) // 2], ids[len(ids) // 2 :]]
        return out

    def _of_topic(
        self, name: str, topic: str, filters: list[dict[str, Any]], most: int, **order: Any
    ) -> list[IndexedDocument]:
        import elasticsearch

        try:
            answer = call(
                lambda: self.client.search(
                    index=name,
                    query={"bool": {"filter": [{"term": {"metadata.topic": topic}}, *filters]}},
                    size=most,
                    source_includes=["metadata"],
                    version=True,
                    allow_partial_search_results=False,
                    **(order or {"sort": ["_doc"]}),
                ),
                index=name,
            ).body
        except elasticsearch.NotFoundError as error:
            raise _missing(name) from error
        if answer["timed_out"] or answer["_shards"]["failed"]:
            raise Transient("a shard does not answer", system="elasticsearch", index=name)
        hits = answer["hits"]["hits"]
        return [IndexedDocument(hit["_id"], hit["_version"], hit["_source"], hit.get("_routing")) for hit in hits]

    @override
    def note(self, name: str, note_id: str) -> IndexNote | None:
        import elasticsearch

        try:
            found = self._newest(name, lambda: self.client.get(index=name, id=note_id))
        except elasticsearch.NotFoundError:
            return None
        return IndexNote(found.body["_source"], found.body["_seq_no"], found.body["_primary_term"])

    @override
    def write_note(
        self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
    ) -> IndexNote | None:
        import elasticsearch

        condition: dict[str, Any] = (
            {"op_type": "create"} if last is None else {"if_seq_no": last.seq_no, "if_primary_term": last.primary_term}
        )
        try:
            done = call(
                lambda: self.client.index(index=name, id=note_id, document=dict(source), **condition), index=name
            )
        except elasticsearch.ConflictError:
            return None
        except elasticsearch.NotFoundError as error:
            raise _missing(name) from error
        return IndexNote(source, done.body["_seq_no"], done.body["_primary_term"])

    @override
    def forget_notes(self, name: str, index: str) -> int:
        """At most 10,000, more than an index ever has."""
        import elasticsearch

        try:
            call(lambda: self._slow.indices.refresh(index=name), index=name)
            hits = call(
                lambda: self.client.search(
                    index=name,
                    query={"term": {"index": index}},
                    size=_MOST_HITS,
                    source=False,
                    allow_partial_search_results=False,
                ),
                index=name,
            ).body["hits"]["hits"]
        except elasticsearch.NotFoundError:
            return 0
        for hit in hits:
            # Somebody else may have been quicker.
            with contextlib.suppress(elasticsearch.NotFoundError):
                call(lambda note_id=hit["_id"]: self.client.delete(index=name, id=note_id), index=name)  # type: ignore[misc]
        return len(hits)

    def _newest(self, name: str, request: Callable[[], T]) -> T:
        """Run a request that a shard answers from its log of writes."""
        try:
            return call(request, index=name)
        except Transient as error:
            self._reopen(name, getattr(error.__cause__, "body", None))
            raise

    def _reopen(self, name: str, answer: Any) -> None:
        """Let shards begin anew whose log of writes is closed, so that they answer the next time.

        A write that found no room on the disk closes it. The next write, or a flush, fails the shard, which then
        recovers what it has answered for; of reads alone it refuses each, until it is found idle after five minutes.
        """
        causes = _error(answer).get("root_cause") or ()
        if any(each.get("type") == _CLOSED for each in causes):
            with contextlib.suppress(Transient, BackPressure, Terminal):
                call(lambda: self._slow.indices.flush(index=name), index=name)

    @override
    def close(self) -> None:
        self.client.close()


def _missing(name: str) -> Terminal:
    alias, _, _ = name.rpartition("-v")
    return Terminal("index does not exist", index=name, fix=f"Run `lyrebird index create {alias or name}`.")


def _item(item: Mapping[str, Any]) -> ItemAnswer:
    (answer,) = item.values()
    # Mostly it is that, of thousands in each answer.
    if answer["status"] in WRITTEN:
        return WRITTEN[answer["status"]]
    error = answer.get("error") or {}
    cause = (error.get("caused_by") or {}).get("reason", "")
    reason = error.get("reason", "")
    return ItemAnswer(answer["status"], error.get("type", ""), f"{reason}: {cause}" if cause else reason)


def _error(body: Any) -> Mapping[str, Any]:
    error = body.get("error") if isinstance(body, Mapping) else None
    return error if isinstance(error, Mapping) else {}


def _type(body: Any) -> str:
    return str(_error(body).get("type", ""))


def _reason(body: Any) -> str:
    error = _error(body)
    return str(error.get("reason") or error.get("type") or str(body)[:200])


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None
