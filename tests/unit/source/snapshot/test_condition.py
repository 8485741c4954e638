"""The condition of a snapshot: parsed or refused, and nothing else is rendered than columns, signs and placeholders."""

from __future__ import annotations

import pickle
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pymysql.converters import escape_item

from include.policy.policy import Policy, TableFilter
from include.record.schema import Column, TableSchema
from include.source.rows.shape import TableShape
from include.source.snapshot.condition import Condition, ConditionError, Predicate, leaving, require_policy

COLUMNS = (Column("id", "int"), Column("State", "varchar"), Column("e`m%l", "varchar"), Column("email", "varchar"))
LEAVING = leaving(
    TableShape((*COLUMNS, Column("notes", "text")), TableSchema("shop", "t", COLUMNS, ("id",)), masks={"email": bytes})
)
INJECTIONS = (
    "1=0)) UNION ALL SELECT id, email FROM users -- ",
    "id = 1; DROP TABLE t",
    "id = 1 -- ",
    "id = 1 # x",
    "id = 1 /* x */",
    "id = /*!50000 1 */",
    "id = (SELECT 1)",
    "EXISTS (SELECT 1 FROM users)",
    "id IN (SELECT id FROM users)",
    "SLEEP(9) = 1",
    "id = SLEEP(9)",
    "id = @@version",
    "id = _utf8'x'",
    "State = 'a' 'b'",
    'State = "x"',
    "State = 'x\\",
    "State = 'x\\' OR 1=1 -- ",
    "id = 1 OR",
    "id",
    "id = x'41'",
    "id + 1 = 2",
    "id LIKE 'x'",
    "State = 'open' COLLATE utf8_bin",
    "users.email = 1",
    "id = 1e999",
    "id = 12abc",
    "(id = 1",
    "id = 1)",
    "id IN ()",
    "id BETWEEN 1",
    "id IS 1",
    "NOT",
    "'a\ud800' = State",
    "State = 'a\0'",
    "(" * 60 + "id = 1" + ")" * 60,
    "id = " + "1" * 66,
    "id = 1" + " " * 20_000 + "AND id = 2",
)
WORDS = [
    *[
        "id",
        "state",
        "`e``m%l`",
        "email",
        "7",
        "-1.5",
        "'x'",
        "'",
        "''",
        "\\'",
        "NULL",
        "TRUE",
        "AND",
        "OR",
        "NOT",
        "IN",
    ],
    *[
        "(",
        ")",
        ",",
        "=",
        "<=>",
        "<",
        "BETWEEN",
        "IS",
        "UNION",
        "SELECT",
        "--",
        ";",
        "/*",
        "*/",
        "#",
        "%",
        "%s",
        "@",
        "\\",
        "\n",
    ],
]
WORD = re.compile(r"AND|OR|NOT|IN|IS NULL|IS NOT NULL|BETWEEN|%s|[=<>!(),]+|`id`|`State`|`e``m%%l`")


def rendered(text: str) -> Predicate:
    return Condition.parse(text).bound(LEAVING)


@pytest.mark.parametrize(
    ("text", "sql", "values"),
    [
        ("", "", ()),
        ("id > 7", "`id` > %s", (7,)),
        ("ID>=-7 and`id`<>+1.50", "`id` >= %s AND `id` <> %s", (-7, Decimal("1.50"))),
        ("state in ('new', 'it''s')", "`State` IN ( %s , %s )", ("new", "it's")),
        (r"state = 'a\\b\'c'", "`State` = %s", (r"a\b'c",)),
        ("state NOT IN (NULL, TRUE)", "`State` NOT IN ( %s , %s )", (None, True)),
        ("id BETWEEN 1 AND 2 OR NOT (id IS NULL)", "`id` BETWEEN %s AND %s OR NOT ( `id` IS NULL )", (1, 2)),
        ("state IS NOT NULL AND 7 < id", "`State` IS NOT NULL AND %s < `id`", (7,)),
        ("`e``m%l` != id", "`e``m%%l` != `id`", ()),
        ("state = '100%s'", "`State` = %s", ("100%s",)),
    ],
)
def test_a_condition_is_rendered_with_placeholders(text: str, sql: str, values: tuple[Any, ...]) -> None:
    assert rendered(text) == (sql, values)


@pytest.mark.parametrize("text", INJECTIONS)
def test_anything_else_than_a_condition_is_refused(text: str) -> None:
    with pytest.raises(ConditionError) as refused:
        Condition.parse(text)
    assert isinstance(refused.value.details["position"], int)
    assert pickle.loads(pickle.dumps(refused.value)).details == refused.value.details


@pytest.mark.parametrize("text", ["id = 1 AND email = 'x'", "notes IS NULL", "nothing = 1", "EMAIL = 'x'"])
def test_columns_that_do_not_leave_as_they_are_are_refused_with_their_place(text: str) -> None:
    with pytest.raises(ConditionError, match="leaves as it is") as refused:
        rendered(text)
    name = refused.value.details["near"]
    assert text[refused.value.details["position"] - 1 :].startswith(name)


def test_the_policy_alone_refuses_what_it_keeps_back() -> None:
    policy = Policy.declared(
        "accept", {"t": TableFilter.model_validate({"ignored_columns": ("notes",), "masks": {"email": None}})}, ["shop"]
    )
    tables = [policy.of("shop", "t"), policy.of("shop", "u")]
    require_policy(Condition.parse("id = 1 AND who_knows = 2"), tables)
    for name in ("Notes", "email"):
        with pytest.raises(ConditionError, match=r"shop\.t "):
            require_policy(Condition.parse(f"{name} = 1"), tables)


@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from(WORDS),
            max_size=14,
        ).map(" ".join),
    )
)
@example("state IN ('a', 'b') AND NOT id BETWEEN 1 AND 2")
def test_whatever_is_not_refused_is_columns_signs_and_placeholders(text: str) -> None:
    try:
        sql, values = rendered(text)
    except ConditionError:
        return
    assert WORD.sub("", sql).strip() == ""
    assert sql.replace("%%", "").count("%s") == len(values)
    # What the values become keeps to its literals.
    literals = [escape_item(value, "utf8mb4") for value in values]
    assert len(re.findall(r"'(?:[^'\\]|\\.)*'", "".join(each for each in literals if each[:1] == "'"))) == sum(
        isinstance(value, str) for value in values
    )
