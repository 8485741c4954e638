"""Maps the inputs' fields to those of the output's key and value. Names alone: no types, no values.

The rules: an output's value has the fields of all inputs, in order, without those that are excluded. A join key that
has one name in several inputs stands once, where it is first shown. The key has the fields of `pkey`, else those of
all inputs' keys in order, the join key once. Any other name that comes from two inputs needs an alias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from include.errors import SettingsError
from include.join.config.definition import InputDefinition, JoinFile
from include.settings.deployment import Deployment
from include.settings.nearest import nearest

__all__ = ["FieldPlan", "InputFields", "KeyField", "field_plan"]


@dataclass(frozen=True, slots=True)
class InputFields:
    """The fields of an input's records by name, in order: those of the key, and those of the row that is the value."""

    key: tuple[str, ...]
    row: tuple[str, ...]

    @property
    def known(self) -> tuple[str, ...]:
        """All of them; what both have is one."""
        return tuple(dict.fromkeys((*self.row, *self.key)))


@dataclass(frozen=True, slots=True)
class KeyField:
    """A field of the output's key: `field` of input `input`'s key or row, `name` in the output."""

    input: int
    field: str
    name: str


@dataclass(frozen=True)
class FieldPlan:
    """What outputs are made of.

    Args:
        key: the fields of the output's key, in order. A join key's is the first input's, which each output has.
        values: of each input the fields that it gives to the value, in order: (field, name in the output).
        distinct: of each input, whether its rows under one join key all differ in the key.
        sole: of each input, whether a join key has one row at most, as it holds the primary key.
        anchored: whether the key has the whole join key, so that each of its values belongs to one.
    """

    key: tuple[KeyField, ...]
    values: tuple[tuple[tuple[str, str], ...], ...]
    distinct: tuple[bool, ...]
    sole: tuple[bool, ...]
    anchored: bool

    @property
    def determined(self) -> bool:
        """Whether the key names one row of each input, so that no two combinations compete for an output."""
        return all(self.distinct)


def field_plan(places: Deployment, join: JoinFile, inputs: Sequence[InputFields]) -> FieldPlan:
    """Match the file with the inputs' fields.

    Args:
        places: the file, for errors.
        join: what it says.
        inputs: the fields of each input.

    Raises:
        SettingsError: a field that no record has, a name that comes from two inputs, a `pkey` without the join key.
    """
    for number, (definition, fields) in enumerate(zip(join.join, inputs, strict=True)):
        _check_names(places, number, definition, fields)
    key = _pkey(places, join, inputs) if join.output.pkey is not None else _all_keys(places, join, inputs)
    joined = [set(definition.join_keys) for definition in join.join]
    own = [{each.field for each in key if each.input == i} for i in range(len(inputs))]
    return FieldPlan(
        tuple(key),
        _values(places, join, inputs),
        tuple(set(fields.key) <= own[i] | joined[i] for i, fields in enumerate(inputs)),
        tuple(set(fields.key) <= joined[i] for i, fields in enumerate(inputs)),
        joined[0] <= own[0],
    )


def _check_names(places: Deployment, number: int, definition: InputDefinition, fields: InputFields) -> None:
    for where, names in (
        ("join_keys", definition.join_keys),
        ("aliases", [alias.source for alias in definition.aliases]),
        ("exclude_fields", definition.exclude_fields),
        ("include_fields", definition.include_fields or []),
        ("where", definition.where),
    ):
        for at, name in enumerate(names):
            if name not in fields.known:
                place = ("join", number, where, name if where == "where" else at)
                meant = nearest(name, fields.known)
                raise places.error(
                    place,
                    "the input has no such field",
                    input=definition.label,
                    got=name,
                    allowed=list(fields.known),
                    fix=f"Did you mean {meant[0]}?" if meant else "Name a field of its schema.",
                )


def _join_key_names(join: JoinFile) -> list[set[str]]:
    """Of each join key: all its names, before and after aliasing, in all inputs."""
    return [
        {name for each in join.join for name in (each.join_keys[at], each.renamed(each.join_keys[at]))}
        for at in range(len(join.join[0].join_keys))
    ]


def _values(
    places: Deployment, join: JoinFile, inputs: Sequence[InputFields]
) -> tuple[tuple[tuple[str, str], ...], ...]:
    given: dict[str, tuple[int, int | None]] = {}
    values = []
    for number, (definition, fields) in enumerate(zip(join.join, inputs, strict=True)):
        mine = []
        for field in fields.row:
            shown = definition.include_fields is None or field in definition.include_fields
            if not shown or field in definition.exclude_fields:
                continue
            name = definition.renamed(field)
            joined = definition.join_keys.index(field) if field in definition.join_keys else None
            if name in given:
                other, its = given[name]
                if joined is not None and joined == its:
                    continue
                raise _clash(places, join, number, field, name, other)
            given[name] = (number, joined)
            mine.append((field, name))
        values.append(tuple(mine))
    if not given:
        raise places.error(("join",), "the output has no field", fix="Leave some out of `exclude_fields`.")
    return tuple(values)


def _clash(places: Deployment, join: JoinFile, number: int, field: str, name: str, other: int) -> SettingsError:
    return places.error(
        ("join", number),
        "two inputs give the output a field of one name",
        name=name,
        inputs=[join.join[other].label, join.join[number].label],
        fix=f"Add `aliases: [{{from: {field}, to: …}}]` to one of them, or exclude the field.",
    )


def _all_keys(places: Deployment, join: JoinFile, inputs: Sequence[InputFields]) -> list[KeyField]:
    key: list[KeyField] = []
    for number, (definition, fields) in enumerate(zip(join.join, inputs, strict=True)):
        for field in fields.key:
            if field in definition.join_keys:
                first = join.join[0].join_keys[definition.join_keys.index(field)]
                key_field = KeyField(0, first, definition.renamed(field))
                if any((other.input, other.field) == (0, first) for other in key):
                    continue
            else:
                key_field = KeyField(number, field, definition.renamed(field))
            for other in key:
                if other.name == key_field.name:
                    raise _clash(places, join, number, field, key_field.name, other.input)
            key.append(key_field)
    return key


def _pkey(places: Deployment, join: JoinFile, inputs: Sequence[InputFields]) -> list[KeyField]:
    names = join.output.pkey or []
    join_keys = _join_key_names(join)
    key: list[KeyField] = []
    for at, name in enumerate(names):
        where = ("output", "pkey", at)
        joined = next((number for number, of in enumerate(join_keys) if name in of), None)
        if joined is not None:
            first = join.join[0]
            key_field = KeyField(0, first.join_keys[joined], first.renamed(first.join_keys[joined]))
        else:
            key_field = _named(places, where, name, join, inputs)
        if any((other.input, other.field) == (key_field.input, key_field.field) for other in key):
            raise places.error(where, "the key has this field already", got=name)
        key.append(key_field)
    missing = [sorted(of) for of in join_keys if not of & set(names)]
    if missing:
        raise places.error(
            ("output", "pkey"),
            "the key must contain the join key, so that all that competes for a row of the output lies in one place",
            got=names,
            missing=missing[0],
            fix=f"Add {missing[0][0]}, or leave `pkey` out: the key is then made of all inputs' keys.",
        )
    return key


def _named(
    places: Deployment, place: tuple[str | int, ...], name: str, join: JoinFile, inputs: Sequence[InputFields]
) -> KeyField:
    after, before = [], []
    for number, (definition, fields) in enumerate(zip(join.join, inputs, strict=True)):
        for field in fields.known:
            if definition.renamed(field) == name:
                after.append(KeyField(number, field, name))
            elif field == name:
                before.append(KeyField(number, field, definition.renamed(field)))
    found = after or before
    if len(found) == 1:
        return found[0]
    if found:
        owners = [join.join[each.input].label for each in found]
        raise places.error(
            place, "several inputs have this field", got=name, inputs=owners, fix="Give it an alias in one, name that."
        )
    known = sorted(
        {
            definition.renamed(field)
            for definition, fields in zip(join.join, inputs, strict=True)
            for field in fields.known
        }
    )
    raise places.error(place, "no input has this field", got=name, allowed=known, fix="Name one of these.")
