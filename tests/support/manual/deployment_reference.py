"""docs/deployment-reference.md: every section and key of the deployment files, from the models that read them."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from include.audit.definition import AuditDefinition
from include.audit.expectations.definition import TopicExpectations
from include.audit.merkle.definition import TableAudit
from include.document.definition import DocumentDefinition
from include.eventtime.config.definition import JobEntry
from include.index.definition import IndexDefinition
from include.join.config.definition import JoinFile
from include.join.config.deployed import JoinEntry
from include.lake.definition import LakeGroup
from include.lake.tables.definition import TableEntry
from include.search.dark_rows.definition import DarkRowsDefinition
from include.search.definition import SearchDefinition
from include.settings.applications import Alerts, Application
from include.settings.connections import Cluster, Elasticsearch, Kafka, Registry, StoreSettings
from include.settings.deployment import Strict
from include.source.definition import SourceDefinition
from tests.support.manual.tables import cell, table

__all__ = ["HEAD", "SECTIONS", "Section", "fields", "models", "page"]


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the deployment files, the model of its entries (or of itself) and the page that explains it."""

    name: str
    model: type[BaseModel]
    named: bool
    """Whether the section holds named entries."""
    about: str
    beside: tuple[type[BaseModel], ...] = ()
    """Models of the files that an entry names."""


SECTIONS: Final = (
    Section("sources", SourceDefinition, True, "The servers that are captured: [capture](capture.md)."),
    Section("documents", DocumentDefinition, True, "Documents made of tables: [documents](documents.md)."),
    Section("joins", JoinEntry, True, "Joins of keyed changelogs: [joins](joins.md).", (JoinFile,)),
    Section("eventtime", JobEntry, True, "Jobs of event time: [event time](event-time.md)."),
    Section("indexes", IndexDefinition, True, "Indexes of Elasticsearch: [indexing](indexing.md)."),
    Section("searches", SearchDefinition, True, "What applications ask an index: [search](search.md)."),
    Section("dark_rows", DarkRowsDefinition, True, "Documents compared with joined rows: [joins](joins.md)."),
    Section("lake", LakeGroup, True, "Groups of topics on object storage: [the lake](lake.md)."),
    Section("tables", TableEntry, True, "Current-state tables on the lake: [tables](tables.md)."),
    Section("audits", AuditDefinition, True, "Audits of indexes, documents and joins: [audits](audits.md)."),
    Section("table_audits", TableAudit, True, "Audits of tables against their database: [audits](audits.md)."),
    Section("expectations", TopicExpectations, True, "Great Expectations suites: [audits](audits.md)."),
    Section("applications", Application, True, "What Airflow keeps running: [operations](operations.md)."),
    Section("alerts", Alerts, False, "Who gets the mails: [operations](operations.md)."),
    Section("cluster", Cluster, False, "How this installation names itself in documents."),
    Section("kafka", Kafka, False, "The brokers, and options of every client."),
    Section("registry", Registry, False, "The schema registry, by its Confluent interface."),
    Section("elasticsearch", Elasticsearch, False, "The search cluster."),
    Section("store", StoreSettings, False, "The bucket: [the lake](lake.md)."),
    Section(
        "expiry", StoreSettings, False, "The bucket, by credentials that may delete: [the lake](lake-operations.md)."
    ),
)
"""In the order of the page: the way of the data, then what all stages share."""

HEAD: Final = """\
# Deployment reference

Every key of the deployment files: its type, its default, its meaning. Made from the models that read the files
(`python -m tests.support.manual`); `lyrebird check` refuses what is not here, with file, line and the allowed values.

All `*.yaml` files of one folder make one deployment (`include/deployment/`, else `$LYREBIRD_DEPLOYMENT`). A section may
be spread over files. `${NAME}`, `${NAME:-default}`, `${file:/PATH}` and `${conn:ID.FIELD}` in a text
[are filled](production.md#where-secrets-come-from). A key without a default is required.
"""


def page() -> str:
    """The page, as Markdown."""
    parts = [HEAD, " · ".join(f"[{section.name}](#{section.name})" for section in SECTIONS) + "\n"]
    parts += (_section(section) for section in SECTIONS)
    return "\n".join(parts)


def _section(section: Section) -> str:
    """The section's own keys, then those of each part that its tables name."""
    holds = f"`{section.name}: {{NAME: …}}`." if section.named else "One mapping."
    model, *inner = models(section)
    parts = [f"## {section.name}", f"{section.about} {holds} {_sentence(_doc(model))}", _table(model, section)]
    for part in inner:
        parts += [f"### {section.name}.{part.__name__}", _sentence(_doc(part)), _table(part, section)]
    return "\n\n".join(parts)


def models(section: Section) -> list[type[BaseModel]]:
    """The section's model and those inside of it, each once.

    Raises:
        ValueError: two of them have one name.
    """
    reached: dict[str, type[BaseModel]] = {}
    waiting: list[type[BaseModel]] = [section.model, *section.beside]
    while waiting:
        model = waiting.pop(0)
        if reached.setdefault(model.__name__, model) is not model:
            raise ValueError(f"two models of {section.name} are called {model.__name__}")
        for info in model.model_fields.values():
            waiting += (found for found in _models_in(info.annotation) if found.__name__ not in reached)
    return list(reached.values())


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)
    # An alias made by `type X = …`, or Annotated.
    if hasattr(annotation, "__origin__") and annotation.__origin__ is not annotation:
        yield from _models_in(annotation.__origin__)


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A key as the table shows it."""

    name: str
    type: str
    default: str
    meaning: str


def fields(model: type[BaseModel]) -> list[FieldRow]:
    """Every key of a model. A key without a description of its own has that of the part that it holds."""
    schema = model.model_json_schema()
    parts = schema.get("$defs", {})
    if "$ref" in schema:
        # A model that holds itself.
        schema = parts[schema["$ref"].rpartition("/")[2]]
    required, docs = set(schema.get("required", ())), _attribute_docs(model)
    rows: list[FieldRow] = []
    for name, shape in schema.get("properties", {}).items():
        meaning = shape.get("description") or docs.get(name) or _of_part(shape, parts)
        if "const" in shape:
            meaning = "chooses this part"
        default = "" if name in required else _default(model, name, shape)
        rows.append(FieldRow(name, _type(shape), default, _flat(meaning)))
    return rows


def _of_part(shape: dict[str, Any], parts: dict[str, Any]) -> str:
    """What the one part says of itself that a shape names; "" where it names none."""
    if "$ref" in shape:
        return str(parts[shape["$ref"].rpartition("/")[2]].get("description", "")).partition("\n")[0]
    inside = [shape.get("items"), shape.get("additionalProperties"), *shape.get("anyOf", ())]
    return next(filter(None, (_of_part(each, parts) for each in inside if isinstance(each, dict))), "")


def _table(model: type[BaseModel], section: Section) -> str:
    return table("key", "type", "default", "meaning", rows=(_row(row, section) for row in fields(model)))


def _row(row: FieldRow, section: Section) -> str:
    kind = row.type.replace("](#", f"](#{section.name}")
    return f"| `{row.name}` | {kind} | {row.default} | {cell(row.meaning)} |"


def _type(shape: dict[str, Any]) -> str:
    """A JSON schema in words."""
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in shape:
            return " or ".join(dict.fromkeys(_type(each) for each in shape[word] if each.get("type") != "null"))
    if "const" in shape:
        return f"`{shape['const']}`"
    if "enum" in shape:
        return " \\| ".join(f"`{each}`" for each in shape["enum"])
    match shape.get("type"):
        case "array":
            return f"list of {_type(shape.get('items', {}))}"
        case "object":
            inside = shape.get("additionalProperties")
            return f"mapping: name → {_type(inside)}" if isinstance(inside, dict) and inside else "mapping"
        case "integer" | "number":
            return "number" + _bounds(shape) if shape["type"] == "number" else "integer" + _bounds(shape)
        case "string":
            return {"date-time": "time with zone"}.get(shape.get("format", ""), "text")
        case "boolean":
            return "true \\| false"
    return "any value"


def _bounds(shape: dict[str, Any]) -> str:
    """`, ≥ 1, ≤ 65535`."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    return "".join(f", {sign} {shape[key]:,}" for key, sign in signs.items() if key in shape)


def _default(model: type[BaseModel], name: str, shape: dict[str, Any]) -> str:
    info = next(info for key, info in model.model_fields.items() if (info.alias or key) == name)
    value = shape["default"] if "default" in shape else info.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "its defaults"
    if value is None or value in ("", [], {}, ()):
        return "none"
    return f"`{json.dumps(value, ensure_ascii=False)}`" if not isinstance(value, str) else f"`{value}`"


def _attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field: what the source says and `Field` does not."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if owner in (Strict, BaseModel) or not issubclass(owner, BaseModel):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for node, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr):
                text = below.value
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[node.target.id] = text.value
    return found


def _doc(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "")


def _sentence(text: str) -> str:
    """Capital first, full stop last."""
    return text if text.endswith((".", "`", ":")) else f"{text}."


def _flat(text: str) -> str:
    return " ".join(text.split())
