"""The filter policy: against a model of its rules, and against the tables that there are."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from include.errors import SettingsError
from include.policy.checks import TableColumns, check_columns, check_key, findings
from include.policy.masks import HashMask, KeepLastMask, Mask, NullMask
from include.policy.policy import Policy, PolicyVerdict, TableFilter
from include.record.schema import Column
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from include.source.definition import SourceDefinition, load_source

SALT = "0123456789abcdef"
DATABASES = ("x", "y")
TABLES = ["".join(letters) for n in range(1, 5) for letters in itertools.product("abz", repeat=n)]
HEAD = "sources:\n  shop:\n    host: db\n    port: 1\n    user: u\n    password: secret\n    databases: [shop, old]\n"
Found = tuple[bool, frozenset[str], Mapping[str, Mask], str]


def fits(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return fits(pattern[1:], name) or (bool(name) and fits(pattern, name[1:]))
    return bool(name) and pattern[0] in ("?", name[0]) and fits(pattern[1:], name[1:])


def model(default: str, entries: Mapping[str, TableFilter], database: str, table: str) -> Found:
    """The rules, said once more as plainly as can be."""

    def meant(text: str) -> bool:
        return all(map(fits, text.split("."), (database, table))) if "." in text else fits(text, table)

    exact = [text for text in (f"{database}.{table}", table) if text in entries]
    for text in exact + [text for text in entries if set(text) & set("*?") and meant(text)]:
        entry = entries[text]
        columns = bool(entry.ignored_columns or entry.masks)
        if entry.policy:
            passes = entry.policy == "accept"
        elif default == "drop":
            passes = True
        else:
            passes = columns
        return passes, frozenset(entry.ignored_columns), entry.masks, text
    return default == "accept", frozenset(), {}, ""


PARTS = st.text("ab*?", min_size=1, max_size=3)
NAMES = st.one_of(PARTS, st.builds("{}.{}".format, st.sampled_from(["x", "y", "*", "?"]), PARTS))
WHOLE = st.sampled_from([{}, {"policy": "accept"}, {"policy": "drop"}])
COLUMNS = st.sampled_from(
    [{"ignored_columns": ["c"]}, {"masks": {"d": None}}, {"ignored_columns": ["c"], "masks": {"d": {"keep_last": 2}}}]
)
ENTRIES = st.dictionaries(NAMES, st.one_of(WHOLE, COLUMNS).map(TableFilter.model_validate), max_size=4)


@given(st.sampled_from(["accept", "drop"]), ENTRIES)
def test_each_table_gets_what_the_rules_say_and_idle_entries_are_refused(
    default: PolicyVerdict, entries: dict[str, TableFilter]
) -> None:
    expected = {(d, t): model(default, entries, d, t) for d in DATABASES for t in TABLES}
    idle = set(entries) - {entry for *_, entry in expected.values()}
    nothing = default == "drop" and not any(passes for passes, *_ in expected.values())
    if idle or nothing:
        with pytest.raises(SettingsError, match=r"can never apply|nothing would be captured"):
            Policy.declared(default, entries, DATABASES)
        return
    policy = Policy.declared(default, entries, DATABASES)
    for (database, table), (passes, ignored, masks, entry) in expected.items():
        found = policy.of(database, table)
        assert (found.passes, found.ignored, found.masks, found.entry) == (passes, ignored, masks, entry)


@given(st.sampled_from(["accept", "drop"]), st.text("xyab", min_size=1), st.text("ab", min_size=1))
def test_no_table_of_another_database_passes(default: PolicyVerdict, database: str, table: str) -> None:
    policy = Policy.declared(default, {"*": TableFilter(policy="accept")}, DATABASES)
    assert policy.of(database, table).passes == (database in DATABASES)


def loaded(folder: Path, text: str) -> SourceDefinition:
    """The source `shop` of a file that ends in `text`, whose first line is the eighth."""
    (folder / "sources.yaml").write_text(HEAD + text, "utf-8")
    return load_source(Deployment.load(folder, {}), "shop")


POLICY = f"""\
    mask_salt: {SALT}
    filter:
      sessions:
      users:
        ignored_columns: [notes]
        masks: {{email: hash, birthday: null, phone: {{keep_last: 3}}}}
      shop.orders: {{policy: accept}}
      "shop.ord*":
"""


def test_the_example_of_the_documentation_does_what_it_says(tmp_path: Path) -> None:
    source = loaded(tmp_path, POLICY)
    passing = [t for t in ("sessions", "users", "orders", "orders_old", "other") if source.captures("shop", t)]
    assert passing == ["users", "orders", "other"]
    assert source.captures("old", "orders_old")
    assert not source.captures("old", "sessions")
    users = source.policy.of("old", "users")
    assert users.ignored == {"notes"}
    assert users.masks == {"email": HashMask(SALT), "birthday": NullMask(), "phone": KeepLastMask(3)}
    assert not source.policy.of("shop", "users").whole
    assert source.policy.of("shop", "orders").whole


def test_the_example_of_the_manual_is_accepted(tmp_path: Path) -> None:
    page = (PROJECT_ROOT / "docs" / "capture.md").read_text("utf-8")
    (example,) = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "filter_policy" in block]
    server = "shop: {host: db, port: 1, user: u, password: p, "
    values = yaml.safe_load(example)["sources"]["shop"] | {"mask_salt": SALT}
    (tmp_path / "sources.yaml").write_text(f"sources:\n  {server}{yaml.safe_dump(values, default_flow_style=True)[1:]}")
    source = load_source(Deployment.load(tmp_path, {}), "shop")
    passing = [t for t in ("sessions", "users", "orders", "other") if source.captures("shop", t)]
    assert passing == ["users", "orders"]
    assert source.captures("archive", "other")


def test_under_drop_a_listed_table_passes_without_its_ignored_columns(tmp_path: Path) -> None:
    source = loaded(tmp_path, "    filter_policy: drop\n    filter:\n      a:\n      shop.b: {ignored_columns: [c]}\n")
    assert [t for t in ("a", "b", "c") if source.captures("shop", t)] == ["a", "b"]
    assert [t for t in ("a", "b", "c") if source.captures("old", t)] == ["a"]
    assert source.policy.of("shop", "b").ignores("c")


def test_letters_case_does_not_let_a_column_out(tmp_path: Path) -> None:
    users = loaded(tmp_path, POLICY).policy.of("shop", "users")
    assert users.ignores("Notes")
    assert users.mask("EMAIL") == HashMask(SALT)
    assert users.mask("id") is None


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("shop.users", "passed by sources.shop.filter.users ({file}:12)"),
        ("shop.sessions", "dropped by sources.shop.filter.sessions ({file}:10)"),
        ("old.orders", "no entry of `filter` names it; sources.shop.filter_policy is accept"),
        ("mysql.user", "its database is not among sources.shop.databases ({file}:7)"),
    ],
)
def test_the_reason_names_the_line_that_decided(tmp_path: Path, table: str, why: str) -> None:
    database, _, name = table.partition(".")
    assert loaded(tmp_path, POLICY).policy.of(database, name).why == why.format(file=tmp_path / "sources.yaml")


def test_the_default_is_shown_with_its_line_where_the_file_states_it(tmp_path: Path) -> None:
    source = loaded(tmp_path, "    filter_policy: drop\n    filter: {a: }\n")
    assert source.policy.of("shop", "b").why.endswith(f"filter_policy ({tmp_path / 'sources.yaml'}:8) is drop")


REFUSED: list[tuple[str, str, str, int, Any]] = [
    # what the file says, the message, its path below the source, its line, allowed
    ("filter_policy: reject", "'accept' or 'drop'", "filter_policy", 8, None),
    ("filter_policy: drop", "nothing would be captured", "filter_policy", 8, None),
    ("filter: {other.a: }", "not captured", "filter.other.a", 8, ["old", "shop"]),
    ("filter: {a.b.c: }", "not a table's name", "filter.a.b.c", 8, "`table` or `database.table`, with the wildcards"),
    ("filter: {a: {ignored_column: [b]}}", "unknown key", "ignored_column", 8, ["ignored_columns", "masks", "policy"]),
    ("filter: {a: {ignored_columns: []}}", "at least 1 item", "filter.a.ignored_columns", 8, None),
    ("filter: {a: {masks: {}}}", "at least 1 item", "filter.a.masks", 8, None),
    ("filter: {a: {masks: {b: md5}}}", "not a mask", "filter.a.masks.b", 8, None),
    ("filter: {a: {masks: {b: {keep_last: -1}}}}", "not a mask", "filter.a.masks.b", 8, None),
    ("filter: {a: {masks: {b: hash}}}", "needs the source's salt", "mask_salt", 1, None),
    ("filter: {a: {policy: drop, ignored_columns: [b]}}", "drops the table and has columns", "filter.a", 8, None),
    ("filter: {a: {ignored_columns: [b], masks: {B: null}}}", "named twice", "filter.a.masks.B", 8, None),
    ("filter: {a: {ignored_columns: [b, b]}}", "named twice", "filter.a.ignored_columns.1", 8, None),
    ("filter:\n      shop.a:\n      old.a:\n      a:", "can never apply", "filter.a", 11, None),
    ('filter:\n      "*": {policy: accept}\n      "a*":', "can never apply", "filter.a*", 10, None),
    ('filter:\n      "sh*.a*":\n      "shop.ab?":', "can never apply", "filter.shop.ab?", 10, None),
]


@pytest.mark.parametrize(("text", "message", "path", "line", "allowed"), REFUSED)
def test_what_could_never_mean_anything_is_refused_with_its_place(
    tmp_path: Path, text: str, message: str, path: str, line: int, allowed: Any
) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded(tmp_path, f"    {text}\n")
    error = refused.value
    assert message in str(error)
    assert "\n" not in str(error)
    assert error.details["path"].endswith(path)
    assert error.details["file"] == str(tmp_path / "sources.yaml")
    if line != 1:
        assert error.details["line"] == line
    if allowed:
        assert str(allowed) in str(error)
    assert "secret" not in str(error)


def test_a_short_salt_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="16 characters") as refused:
        loaded(tmp_path, "    mask_salt: sesame\n    filter: {a: {masks: {b: hash}}}\n")
    assert "sesame" not in str(refused.value)
    assert refused.value.details["line"] == 8


def test_a_source_shows_no_salt_and_pickles(tmp_path: Path) -> None:
    source = loaded(tmp_path, POLICY)
    assert SALT not in repr(source)
    assert SALT not in repr(source.policy)
    assert pickle.loads(pickle.dumps(source.policy)) == source.policy


def columns(*names: str, kind: str = "varchar") -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name in names)


USERS = columns("id", "email", "notes", "birthday", "phone", "name")


def test_a_policy_that_fits_the_tables_has_no_findings(tmp_path: Path) -> None:
    policy = loaded(tmp_path, POLICY).policy
    tables = {("shop", "users"): TableColumns(USERS, ("id",)), ("shop", "sessions"): TableColumns((), ())}
    assert findings(policy, tables) == []


def test_an_unknown_column_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    policy = loaded(tmp_path, POLICY).policy
    with pytest.raises(SettingsError) as refused:
        check_columns(policy, ("shop", "users"), columns("id", "e_mail", "notes", "birthday", "phone"))
    assert refused.value.details["path"] == "sources.shop.filter.users.masks.email"
    assert refused.value.details["allowed"] == ["birthday", "e_mail", "id", "notes", "phone"]
    assert refused.value.details["line"] == 13


@pytest.mark.parametrize("kind", ["int", "enum", "varbinary", "json", "date"])
def test_keep_last_is_refused_where_its_result_is_no_value_of_the_type(tmp_path: Path, kind: str) -> None:
    policy = loaded(tmp_path, POLICY).policy
    with pytest.raises(SettingsError, match=r"does not fit.*keep_last: 3.*\['hash', 'null'\]"):
        check_columns(policy, ("shop", "users"), [*USERS[:4], Column("phone", kind)])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (("id",), None),
        (("email",), "cannot be masked"),
        (("id", "NOTES"), "cannot be ignored"),
        (("birthday", "id"), "cannot be masked"),
    ],
)
def test_a_key_column_has_to_stay(tmp_path: Path, key: tuple[str, ...], message: str | None) -> None:
    policy = loaded(tmp_path, POLICY).policy
    if message is None:
        check_key(policy, ("shop", "users"), key)
        assert policy.of("shop", "users").passes
        return
    with pytest.raises(SettingsError, match=message) as refused:
        check_key(policy, ("shop", "users"), key)
    assert refused.value.details["key"] == list(key)


def test_the_key_of_a_dropped_table_is_nobodys_concern(tmp_path: Path) -> None:
    policy = loaded(tmp_path, POLICY).policy
    check_key(policy, ("shop", "sessions"), ("id",))
    assert not policy.of("shop", "sessions").passes


@pytest.mark.parametrize(
    ("entry", "messages"),
    [
        ("ignored_columns: [c]", ["a column of `partition_by` cannot be ignored"]),
        ("masks: {c: null}", ["a column of `partition_by` cannot be null"]),
        ("masks: {c: hash}", []),
    ],
)
def test_a_column_that_chooses_the_partition_has_to_leave_values(
    tmp_path: Path, entry: str, messages: list[str]
) -> None:
    policy = loaded(
        tmp_path, f"    mask_salt: {SALT}\n    partition_by: {{a: [c]}}\n    filter: {{a: {{{entry}}}}}\n"
    ).policy
    tables = {("shop", "a"): TableColumns(columns("id", "c"), ("id",))}
    assert [error.message for error in findings(policy, tables)] == messages


def test_a_pattern_may_name_columns_that_only_some_of_its_tables_have(tmp_path: Path) -> None:
    policy = loaded(tmp_path, '    filter: {"*": {masks: {email: null, emial: null}}}\n').policy
    tables = {
        ("shop", "users"): TableColumns(columns("id", "Email"), ("id",)),
        ("shop", "orders"): TableColumns(columns("id"), ("id",)),
    }
    (error,) = findings(policy, tables)
    assert error.details["got"] == "emial"
    assert error.details["path"] == "sources.shop.filter.*.masks.emial"
    assert error.details["allowed"] == ["Email", "id"]


def test_entries_that_decide_no_table_are_named(tmp_path: Path) -> None:
    policy = loaded(tmp_path, POLICY).policy
    assert policy.unused([("shop", "users"), ("shop", "ordered")]) == ["shop.orders", "sessions"]


@pytest.mark.parametrize("entry", ["Users: {masks: {email: null}}", "shop.USERS: "])
def test_a_table_in_other_letters_than_the_servers_is_refused(tmp_path: Path, entry: str) -> None:
    policy = loaded(tmp_path, f"    filter: {{{entry}}}\n").policy
    (refused,) = findings(policy, {("shop", "users"): TableColumns(USERS, ("id",))})
    assert "other letters" in refused.message
    assert refused.details["allowed"] == ["shop.users"]
    both = {("shop", name): TableColumns(USERS, ("id",)) for name in ("users", "Users", "USERS")}
    assert findings(policy, both) == []
