"""`ConfluentRegistry`: schemas in any registry that speaks Confluent's protocol."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import quote

from typing_extensions import override

from include.errors import InvalidRecord, Terminal, Transient
from include.log.http import Http, HttpAnswer, basic
from include.log.ports import Compatibility, SchemaLanguage, SchemaRegistry, UnknownSchema
from include.log.registry.references import whole_json_schema
from include.record.references import whole_avro
from include.settings.certificates import tls_context
from include.settings.connections import Registry
from include.settings.secret import revealed

__all__ = ["ConfluentRegistry"]

T = TypeVar("T", dict[str, Any], list[Any])
_TYPE: Final = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class ConfluentRegistry(SchemaRegistry):
    """`SchemaRegistry` over HTTP; the settings' `url` is the folder of `/subjects` and `/schemas`.

    Answers are kept for the life of the object, as neither ids nor their schemas ever change.
    """

    def __init__(self, settings: Registry | str, *, timeout_s: float = 10.0) -> None:
        """`settings`: the section, or an address alone. `Terminal` for certificates that are not on this host."""
        if isinstance(settings, str):
            settings = Registry(url=settings)
        self.url = settings.url.rstrip("/")
        tls = tls_context("registry", settings.ca_file, settings.client_cert, settings.client_key)
        self._http = Http(self.url, {**_TYPE, **_authorization(settings)}, timeout_s, tls)
        self._ids: dict[tuple[str, str], int] = {}
        self._schemas: dict[int, tuple[SchemaLanguage, dict[str, Any]]] = {}

    @override
    def register(
        self,
        subject: str,
        schema: Mapping[str, Any],
        compatibility: Compatibility | None = "BACKWARD",
        language: SchemaLanguage = "AVRO",
    ) -> int:
        """Sets the subject's level first where it has another than is asked for."""
        # A union as `schema` gives it: as an object a registry does not know it for Avro.
        union = language == "AVRO" and isinstance(schema.get("type"), list)
        text = json.dumps(schema["type"] if union else schema)
        if (subject, text) not in self._ids:
            name = quote(subject, safe="")
            if compatibility is not None:
                self._level(subject, name, compatibility)
            answer = self._ask("POST", f"/subjects/{name}/versions", {"schema": text, "schemaType": language})
            if answer.status == HTTPStatus.CONFLICT:
                raise Terminal(
                    "the registry refuses an incompatible schema",
                    subject=subject,
                    level=compatibility,
                    reason=_message(answer),
                    fix="Add fields with a default, or start a new topic.",
                )
            self._ids[subject, text] = int(self._good(answer, subject=subject)["id"])
        return self._ids[subject, text]

    @override
    def schema(self, schema_id: int) -> dict[str, Any]:
        return self._found(schema_id)[1]

    @override
    def language(self, schema_id: int) -> SchemaLanguage:
        return self._found(schema_id)[0]

    @override
    def newest(self, subject: str) -> int | None:
        answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if _is_absent(answer) else int(self._good(answer, subject=subject)["id"])

    @override
    def subjects(self, schema_id: int) -> tuple[str, ...]:
        answer = self._ask("GET", f"/schemas/ids/{schema_id}/versions")
        versions = [] if _is_absent(answer) else self._read(answer, list, schema_id=schema_id)
        if not versions:
            # Some registries say nothing of an id that they do not know; this raises there.
            self.schema(schema_id)
        return tuple(sorted({each["subject"] for each in versions}))

    def _found(self, schema_id: int) -> tuple[SchemaLanguage, dict[str, Any]]:
        if schema_id not in self._schemas:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}")
            if _is_absent(answer):
                raise UnknownSchema("no schema of this id is registered", reason="schema id", schema_id=schema_id)
            good = self._good(answer, schema_id=schema_id)
            # Left out by registries for Avro, as it was the only language once.
            language: Any = good.get("schemaType") or "AVRO"
            if language not in ("AVRO", "JSON"):
                raise InvalidRecord(
                    "schema is in a language that is not read",
                    reason=language,
                    schema_id=schema_id,
                    allowed="AVRO, JSON",
                )
            try:
                parsed = json.loads(good["schema"])
                others = self._referenced(good)
                if others:
                    parsed = whole_avro(parsed, others) if language == "AVRO" else whole_json_schema(parsed, others)
            except RecursionError as error:
                raise InvalidRecord("schema is too deep", reason="depth", schema_id=schema_id) from error
            self._schemas[schema_id] = language, parsed if isinstance(parsed, dict) else {"type": parsed}
        return self._schemas[schema_id]

    def _referenced(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """All schemas that the one of an answer refers to, and those that these refer to, by name."""
        schemas: dict[str, Any] = {}
        waiting = list(answer.get("references") or ())
        while waiting:
            reference = waiting.pop()
            if reference["name"] not in schemas:
                place = {"subject": reference["subject"], "version": reference["version"]}
                path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
                other = self._good(self._ask("GET", path), **place)
                schemas[reference["name"]] = json.loads(other["schema"])
                waiting += other.get("references") or ()
        return schemas

    def close(self) -> None:
        """Give up the connection; may be called twice."""
        self._http.close()

    def _level(self, subject: str, name: str, wanted: Compatibility) -> None:
        answer = self._ask("GET", f"/config/{name}")
        # Absent: the subject has no level of its own, and the server's default is not to be relied on.
        found = None if _is_absent(answer) else self._good(answer, subject=subject)
        if found is None or found.get("compatibilityLevel") != wanted:
            self._good(self._ask("PUT", f"/config/{name}", {"compatibility": wanted}), subject=subject)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> HttpAnswer:
        try:
            answer = self._http.ask(method, path, None if body is None else json.dumps(body).encode())
        except ssl.SSLCertVerificationError as error:
            raise Terminal(
                "the schema registry's certificate is not trusted",
                system="registry",
                url=self.url,
                reason=str(error),
                fix="Name its authority: `ca_file` of `registry`.",
            ) from error
        except OSError as error:
            raise Transient(
                "the schema registry does not answer",
                fix="Is it up? See `lyrebird status`.",
                system="registry",
                url=self.url,
                reason=str(error) or type(error).__name__,
            ) from error
        if answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise Transient(
                "the schema registry failed",
                fix="See `lyrebird logs registry`.",
                system="registry",
                url=self.url + path,
                status=answer.status,
                reason=_message(answer),
            )
        return answer

    def _good(self, answer: HttpAnswer, **place: Any) -> dict[str, Any]:
        return self._read(answer, dict, **place)

    def _read(self, answer: HttpAnswer, kind: type[T], **place: Any) -> T:
        try:
            content = json.loads(answer.body) if answer.status < HTTPStatus.MULTIPLE_CHOICES else None
        except ValueError:
            content = None
        if not isinstance(content, kind):
            raise Terminal(
                "the schema registry refuses",
                system="registry",
                url=answer.url,
                status=answer.status,
                reason=_message(answer),
                fix="Check `registry` in the deployment files.",
                **place,
            )
        return content


def _authorization(settings: Registry) -> dict[str, str]:
    if settings.token is not None:
        return {"Authorization": f"Bearer {revealed(settings.token)}"}
    if settings.user is not None:
        return {"Authorization": basic(settings.user, revealed(settings.password) or "")}
    return {}


def _is_absent(answer: HttpAnswer) -> bool:
    """Whether a registry says that it has no such thing: a 404 with its error code.

    Without one it is not a registry's address, and the refusal ends the request there: sent a body next, Apicurio's
    server sometimes leaves such an address without any answer.
    """
    if answer.status != HTTPStatus.NOT_FOUND:
        return False
    try:
        found = json.loads(answer.body)
    except ValueError:
        return False
    return isinstance(found, dict) and "error_code" in found


def _message(answer: HttpAnswer) -> str:
    try:
        found = json.loads(answer.body)
    except ValueError:
        return answer.body.decode("utf-8", "replace")[:500]
    return str(found.get("message", found) if isinstance(found, dict) else found)[:500]
