"""Filter policy: which tables of a source are captured, without which columns, behind which masks.

```yaml
filter_policy: accept            # or drop: then only tables pass that `filter` lets pass. Default: accept
mask_salt: ${LYREBIRD_MASK_SALT}
filter:
  sessions:                      # listed with nothing: under accept dropped, under drop passed
  users:                         # loses these columns, under both
    ignored_columns: [notes]
    masks: {email: hash, birthday: null, phone: {keep_last: 3}}
  shop.orders: {policy: accept}  # says it outright, where a pattern below says otherwise
  "shop.*": {policy: drop}
```

One entry decides a table, the first of: `database.table`; a bare `table` (in every captured database); patterns, in
the order of the file. Entries do not add up. A table that none of them names follows `filter_policy`.

Refused, as each could never mean anything: an entry that others leave no table to, an entry of a database that is not
captured, columns of a table that the same entry drops, a column twice, a hash without a salt, and a drop policy that
lets nothing pass. Columns are compared as the servers do, letters' case aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainValidator, StringConstraints
from pydantic_core import PydanticCustomError

from include.errors import SettingsError
from include.policy.masks import MASKS, HashMask, Mask, parse_mask
from include.policy.patterns import TablePattern, covers
from include.settings.deployment import Deployment, Strict

__all__ = ["Policy", "PolicyVerdict", "SourceDeclaration", "TableFilter", "TableFilters", "TablePolicy"]

PolicyVerdict = Literal["accept", "drop"]
"""`accept`: what no entry names passes. `drop`: it does not."""

_SALT_LENGTH: Final = 16


def _mask(value: object) -> Mask:
    try:
        return parse_mask(value)
    except ValueError as refused:
        raise PydanticCustomError("mask", "not a mask", {"expected": ", ".join(MASKS)}) from refused


Name = Annotated[str, StringConstraints(min_length=1)]


class TableFilter(Strict):
    """One entry of `filter`."""

    policy: PolicyVerdict | None = Field(
        default=None, description="default: accept with columns, else not `filter_policy`"
    )
    ignored_columns: tuple[Name, ...] = Field(default=(), min_length=1, description="columns that are not captured")
    masks: dict[Name, Annotated[Mask, PlainValidator(_mask)]] = Field(
        default={}, min_length=1, description="column -> what leaves in the place of its values"
    )


def _listed_empty(value: object) -> object:
    """`table:` with nothing after it is an entry without keys."""
    return {} if value is None else value


TableFilters = dict[str, Annotated[TableFilter, BeforeValidator(_listed_empty)]]
"""Table or pattern -> its entry."""


@dataclass(frozen=True)
class SourceDeclaration:
    """The place where a source is declared: gives errors and explanations their file and line."""

    deployment: Deployment | None = field(default=None, repr=False, compare=False)
    path: tuple[str | int, ...] = ()

    def error(self, at: Sequence[str | int], message: str, **details: Any) -> SettingsError:
        """The error about the value at `at` inside the source."""
        path = (*self.path, *at)
        if self.deployment is None:
            return SettingsError(message, path=".".join(map(str, path)), **details)
        return self.deployment.error(path, message, **details)

    def place(self, at: Sequence[str | int]) -> str:
        """`path (file:line)` of the value at `at`; without the brackets where no file says it."""
        path = (*self.path, *at)
        place = self.deployment.places.get(path) if self.deployment else None
        return ".".join(map(str, path)) + (f" ({place})" if place else "")


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """The policy of one table; `entry` is the deciding key of `filter`, "" where none did.

    Ask `ignores` and `mask` rather than the two collections: servers do not tell apart letters' case in columns.
    """

    database: str
    table: str
    passes: bool
    why: str
    entry: str = ""
    ignored: frozenset[str] = frozenset()
    masks: Mapping[str, Mask] = field(default_factory=dict)

    def ignores(self, column: str) -> bool:
        """Whether the column is not captured."""
        return _listed(column, self.ignored) is not None

    def mask(self, column: str) -> Mask | None:
        """The column's mask, if it has one."""
        name = _listed(column, self.masks)
        return None if name is None else self.masks[name]

    @property
    def whole(self) -> bool:
        """No column is left out or masked."""
        return not self.ignored and not self.masks


@dataclass(frozen=True, slots=True)
class FilterRule:
    """One entry of `filter`, resolved: who is meant, and what becomes of it."""

    pattern: TablePattern
    passes: bool
    ignored: frozenset[str]
    masks: Mapping[str, Mask]


@dataclass(frozen=True)
class Policy:
    """The policy of one source; `rules` are in the order in which they are asked. Answers are the same for ever."""

    default: PolicyVerdict
    rules: tuple[FilterRule, ...]
    databases: tuple[str, ...]
    partition_by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    origin: SourceDeclaration = field(default_factory=SourceDeclaration)
    # Asked for every column of every table at a start.
    _known: dict[tuple[str, str], TablePolicy] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def declared(
        cls,
        default: PolicyVerdict,
        entries: Mapping[str, TableFilter],
        databases: Sequence[str],
        salt: str = "",
        partition_by: Mapping[str, Sequence[str]] | None = None,
        origin: SourceDeclaration | None = None,
    ) -> Policy:
        """Makes the policy of what a deployment file says.

        Args:
            default: what becomes of tables that no entry names.
            entries: pattern of tables → what becomes of them, in the file's order.
            databases: names of the captured databases.
            salt: goes before every value that is hashed.
            partition_by: table → columns whose values choose the partition.
            origin: where the source is declared, for errors.

        Raises:
            SettingsError: an entry contradicts itself, lacks the salt, or can never apply; or nothing is captured.
        """
        origin = origin or SourceDeclaration()
        rules = [_rule(default, text, entry, salt, origin) for text, entry in entries.items()]
        # Sorting is stable: patterns keep the order of the file.
        ordered = tuple(sorted(rules, key=lambda rule: rule.pattern.rank))
        _refuse_idle(ordered, databases, origin)
        if default == "drop" and not any(rule.passes for rule in ordered):
            raise origin.error(
                ("filter_policy",),
                "nothing would be captured: the policy is drop, and no entry of `filter` lets a table pass",
                fix="List the tables to capture under `filter`, or let `filter_policy` be accept.",
            )
        return cls(default, ordered, tuple(databases), partition_by or {}, origin)

    def of(self, database: str, table: str) -> TablePolicy:
        """Tells what becomes of this table, and which line decided it; the table need not exist."""
        found = self._known.get((database, table))
        if found is None:
            found = self._known[database, table] = self._of(database, table)
        return found

    def _of(self, database: str, table: str) -> TablePolicy:
        if database not in self.databases:
            why = f"its database is not among {self.origin.place(('databases',))}"
            return TablePolicy(database, table, passes=False, why=why)
        for rule in self.rules:
            if rule.pattern.matches(database, table):
                return self.by(rule, database, table)
        place = self.origin.place(("filter_policy",))
        return TablePolicy(
            database, table, self.default == "accept", f"no entry of `filter` names it; {place} is {self.default}"
        )

    def by(self, rule: FilterRule, database: str, table: str) -> TablePolicy:
        """Tells what becomes of a table that `rule` decides."""
        text = rule.pattern.text
        why = f"{'passed' if rule.passes else 'dropped'} by {self.origin.place(('filter', text))}"
        return TablePolicy(database, table, rule.passes, why, text, rule.ignored, rule.masks)

    def partition_columns(self, database: str, table: str) -> tuple[str, ...]:
        """Columns that choose the partition; empty = the key."""
        return tuple(self.partition_by.get(f"{database}.{table}", self.partition_by.get(table, ())))

    def unused(self, tables: Iterable[tuple[str, str]]) -> list[str]:
        """Entries of `filter` that decide none of `tables`: perhaps misspelt, perhaps of tables yet to come."""
        used = {self.of(*name).entry for name in tables}
        return [rule.pattern.text for rule in self.rules if rule.pattern.text not in used]

    @property
    def whole(self) -> bool:
        """No entry leaves out or masks a column."""
        return not any(rule.ignored or rule.masks for rule in self.rules)


def _listed(column: str, names: Iterable[str]) -> str | None:
    wanted = column.lower()
    return next((name for name in names if name.lower() == wanted), None)


def _rule(default: PolicyVerdict, text: str, entry: TableFilter, salt: str, origin: SourceDeclaration) -> FilterRule:
    path = ("filter", text)
    try:
        pattern = TablePattern.parse(text)
    except ValueError:
        raise origin.error(
            path,
            "not a table's name",
            got=text,
            allowed="`table` or `database.table`, with the wildcards * and ?",
            fix="Write ? in the place of a dot that is part of a name.",
        ) from None
    columns = bool(entry.ignored_columns or entry.masks)
    if entry.policy == "drop" and columns:
        raise origin.error(
            path, "the entry drops the table and has columns of it", fix="Leave out `policy`, or the columns."
        )
    _refuse_doubles(entry, path, origin)
    if any(isinstance(mask, HashMask) for mask in entry.masks.values()) and len(salt) < _SALT_LENGTH:
        raise origin.error(
            ("mask_salt",),
            f"the mask `hash` needs the source's salt, of {_SALT_LENGTH} characters or more",
            entry=text,
            fix="Declare `mask_salt: ${LYREBIRD_MASK_SALT}`, once and for all: another salt gives other hashes.",
        )
    masks = {name: HashMask(salt) if isinstance(mask, HashMask) else mask for name, mask in entry.masks.items()}
    passes = entry.policy == "accept" if entry.policy else columns or default == "drop"
    return FilterRule(pattern, passes, frozenset(entry.ignored_columns), masks)


def _refuse_doubles(entry: TableFilter, at: tuple[str, ...], origin: SourceDeclaration) -> None:
    places: list[tuple[str, tuple[str | int, ...]]] = [
        *((name, ("ignored_columns", i)) for i, name in enumerate(entry.ignored_columns)),
        *((name, ("masks", name)) for name in entry.masks),
    ]
    seen: set[str] = set()
    for name, place in places:
        if name.lower() in seen:
            raise origin.error(
                (*at, *place), "a column is named twice", got=name, fix="Name it once: left out, or masked."
            )
        seen.add(name.lower())


def _refuse_idle(rules: Sequence[FilterRule], databases: Sequence[str], origin: SourceDeclaration) -> None:
    """Refuse entries that decide no table that there could be."""
    for i, rule in enumerate(rules):
        pattern = rule.pattern
        meant = [database for database in databases if pattern.matches_database(database)]
        if not meant:
            raise origin.error(
                ("filter", pattern.text),
                "an entry of a database that is not captured",
                got=pattern.database,
                allowed=sorted(databases),
                fix="Correct it, or add the database to `databases`.",
            )
        before = [other.pattern for other in rules[:i]]
        if all(covers([b.table for b in before if b.matches_database(d)], pattern.table) for d in meant):
            near = [b for b in before if any(b.matches_database(d) for d in meant)]
            hidden_by = [b.text for b in near if covers([b.table], pattern.table)] or [b.text for b in near]
            raise origin.error(
                ("filter", pattern.text),
                "the entry can never apply: others decide every table that it names",
                got=pattern.text,
                others=hidden_by,
                fix="Remove it, or move it up: `database.table`, then `table`, then patterns in the file's order.",
            )
