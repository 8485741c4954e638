"""New fields of a topic's schema go into the live mapping before the first document that has them.

A field that is there keeps its type, as the server never changes one: where the schema's new type does not fit, or
would be searched by other values than the documents show, a person decides, mostly for a new generation of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from include.errors import Terminal
from include.index.mapping.check import MappingFinding, compare, ruled, templated, types_names
from include.index.mapping.fields import analysis, dynamic_of
from include.index.mapping.limits import beyond_limits
from include.index.mapping.starter import Choice, starter
from include.index.mapping.topic_types import body_form
from include.index.mapping.value_types import Form, ListOf, MapOf, RecordType
from include.index.name import IndexName
from include.index.server.port import IndexInfo
from include.log.ports import SchemaLanguage
from include.record.json.formats import ValueForm

__all__ = ["Evolution", "Evolver", "evolve"]

_TRIES: Final = 5


@dataclass(frozen=True)
class Evolution:
    """What a schema asks of a mapping: `mapping` to be put (empty: nothing), the new `places`, what hinders it.

    `after` is the whole mapping with it, `beyond` the limits of a server that it exceeds.
    """

    mapping: Mapping[str, Any]
    places: tuple[str, ...]
    hindrances: tuple[MappingFinding, ...]
    after: Mapping[str, Any] = field(default_factory=dict)
    beyond: tuple[str, ...] = ()


def evolve(
    form: Form, entity: str, live: Mapping[str, Any], declared: Mapping[str, Any], accepted: Collection[str] = ()
) -> Evolution:
    """Plan for bodies of `form`: what the live mapping lacks, as declared, else as a starter mapping has it.

    Hindrances are fields that no value fits, and fields that would be coerced, but for the `accepted` places.
    Raises `Terminal` for a new field that neither the declaration nor a starter mapping has a type for.
    """
    additions = _Additions(live)
    fields = additions.of(RecordType({entity: form}), live, declared, "", dynamic_of(live))
    mapping: dict[str, Any] = {"properties": fields} if fields else {}
    templates = _templates(live, declared, additions)
    if templates:
        mapping["dynamic_templates"] = templates
    after = {**_merged(live, fields), "dynamic_templates": templates or live.get("dynamic_templates", [])}
    found = compare(form, after, entity)
    hindrances = [
        each
        for each in found
        if each.verdict == "refused" or (each.verdict == "coerced" and each.place not in accepted)
    ]
    # What is there is there, whatever it counts: an index may be allowed more.
    beyond = tuple(beyond_limits(after)) if fields else ()
    return Evolution(mapping, tuple(additions.places), tuple(hindrances), after, beyond)


class Evolver:
    """Evolves one index for one topic. Called with every schema before its first document; repeated calls are free.

    Any number of processes may do the same at once: putting a field twice is harmless, and who finds that another was
    quicker plans again. It is made anew when the index is.

    Args:
        describe: of an index's name gives the index as it is; None: it is not there.
        put_mapping: adds fields to an index's mapping.
        index: name of the generation.
        entity: name of the body's field in documents.
        value: what the topic's values are: bodies, or change envelopes.
        declared: the whole declared mapping.
        accepted: places whose values may be coerced.
    """

    def __init__(
        self,
        describe: Callable[[str], IndexInfo | None],
        put_mapping: Callable[[str, Mapping[str, Any]], None],
        index: str,
        *,
        entity: str,
        value: ValueForm,
        declared: Mapping[str, Any],
        accepted: Collection[str] = (),
    ) -> None:
        self._describe = describe
        self._put_mapping = put_mapping
        self._index = index
        self._entity = entity
        self._value = value
        self._declared = declared
        self._accepted = accepted
        self._done: set[int] = set()

    def __call__(self, schema_id: int, schema: Mapping[str, Any], language: SchemaLanguage) -> tuple[str, ...]:
        """Make the index fit for documents of this schema; gives the places that it added.

        Raises `Terminal`, with what to do, when a new generation is needed, and what the server raises.
        """
        if schema_id in self._done:
            return ()
        form = body_form(schema, language, self._value)
        added: tuple[str, ...] = ()
        for attempt in range(_TRIES):
            plan = evolve(form, self._entity, self._live(), self._declared, self._accepted)
            if plan.hindrances:
                raise self._unfit(schema_id, plan.hindrances)
            if not plan.mapping:
                self._done.add(schema_id)
                return added
            try:
                self._put_mapping(self._index, plan.mapping)
                added = plan.places
            except Terminal as error:
                # Another process may have given the field another type meanwhile: the next plan sees it.
                if attempt == _TRIES - 1:
                    raise self._refused(schema_id, plan, error) from error
        raise Terminal(
            "mapping is changed by others all the time",
            index=self._index,
            schema_id=schema_id,
            fix="Let one application at a time write this index.",
        )

    def _live(self) -> Mapping[str, Any]:
        info = self._describe(self._index)
        if info is None:
            raise Terminal("index does not exist", index=self._index, fix=f"Run `lyrebird index create {self._alias}`.")
        return info.mapping

    @property
    def _alias(self) -> str:
        return IndexName.parse(self._index).alias

    def _refused(self, schema_id: int, plan: Evolution, error: Terminal) -> Terminal:
        fix = "Declare them in the mapping file, e.g. a whole part as {type: flattened}, and start again."
        if analysis(plan.mapping):
            # An index of before knows no `folded`, and an open one cannot learn it.
            fix = f"Run `lyrebird index rebuild {self._alias}`, then `lyrebird index promote {self._alias}`."
        return Terminal(
            "the server refuses new fields",
            index=self._index,
            schema_id=schema_id,
            fields=list(plan.places[:10]),
            reason=error.details.get("reason", error.message),
            fix=fix,
        )

    def _unfit(self, schema_id: int, hindrances: tuple[MappingFinding, ...]) -> Terminal:
        coerced = [finding.place for finding in hindrances if finding.verdict == "coerced"]
        name = IndexName.parse(self._index)
        fix = (
            f"Change these types in the mapping file, run `lyrebird index rebuild {name.alias}`, promote what it "
            f"makes, and `lyrebird index drop {name.alias} --generation {name.generation}`"
        )
        if len(coerced) == len(hindrances):
            fix += f"; or take them as they are: `coerced: [{', '.join(coerced)}]` in `indexes.{self._alias}`"
        return Terminal(
            "the topic's schema does not fit the index",
            index=self._index,
            schema_id=schema_id,
            fields=[str(finding) for finding in hindrances],
            fix=f"{fix}.",
        )


@dataclass
class _Additions:
    """Collects what the mapping `whole` lacks."""

    whole: Mapping[str, Any]
    choices: list[Choice] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def of(
        self, form: Form, live: Mapping[str, Any], declared: Mapping[str, Any], place: str, dynamic: str
    ) -> dict[str, Any]:
        """The properties that the object `live` at `place` lacks for `form`; `dynamic` is that of the object above."""
        while isinstance(form, ListOf):
            form = form.items
        if live.get("type", "object") not in ("object", "nested") or live.get("enabled") is False:
            return {}
        dynamic = dynamic_of(live, dynamic)
        if (
            isinstance(form, MapOf)
            and not declared
            and dynamic == "true"
            and not types_names(templated(self.whole), place)
        ):
            # Another schema's evolution, at the same moment as the one that made this map, put its rules over ours.
            self.choices.append(starter(form, place))
        if not isinstance(form, RecordType):
            return {}
        out = {}
        for name, field_form in form.fields.items():
            path = f"{place}.{name}" if place else name
            there = live.get("properties", {}).get(name)
            wanted = declared.get("properties", {}).get(name, {})
            if there is not None:
                below = self.of(field_form, there, wanted, path, dynamic)
                if below:
                    # Without its type the server would take a nested field for an object.
                    out[name] = {**{k: v for k, v in there.items() if k == "type"}, "properties": below}
            elif dynamic != "false":
                self.places.append(path)
                out[name] = self._new(field_form, wanted, path)
        return out

    def _new(self, form: Form, declared: Mapping[str, Any], place: str) -> dict[str, Any]:
        if declared:
            # As declared, with what the declaration itself lacks.
            return _merged(declared, self.of(form, declared, declared, place, "strict"))
        rule = ruled(self.whole, place)
        if rule is not None:
            # A map that became a record: documents of the older schema bring this name with the map's values still.
            return dict(rule)
        choice = starter(form, place)
        self.choices.append(choice)
        return choice.mapping()


def _templates(live: Mapping[str, Any], declared: Mapping[str, Any], additions: _Additions) -> list[Mapping[str, Any]]:
    """The whole list of rules, as a put replaces it; empty when the live one has all."""
    have = list(live.get("dynamic_templates", ()))
    names = {name for template in have for name in template}
    wanted = [*declared.get("dynamic_templates", ()), *(t for c in additions.choices for t in c.all_templates())]
    new: list[Mapping[str, Any]] = []
    for template in wanted:
        if not names & template.keys():
            names |= template.keys()
            new.append(template)
    return [*have, *new] if new else []


def _merged(field: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """`field` with more properties, all the way down."""
    if not fields:
        return dict(field)
    have = dict(field.get("properties", {}))
    for name, more in fields.items():
        have[name] = _merged(have[name], more.get("properties", {})) if name in have else more
    return {**field, "properties": have}
