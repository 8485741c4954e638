"""A run's knobs: one declaration, from which Params, options, words and checked values come."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from include.errors import SettingsError
from include.settings.run import DATE, NULL, Names, NamesOnce, RunParams, every, knob

Day = Annotated[str, knob("A day.", title="From", param="from", option="--since", schema=DATE)]


class Cooking(RunParams):
    """A run of a kitchen."""

    cook: str = knob("Who cooks.", option="NAME", among="cook")
    meals: Names = knob("What is cooked.", (), option="--meal", among="meal", section="meals")
    guests: NamesOnce = every("guest", "--guest", "guests")
    heat: Literal["low", "high"] = knob("How hot.", "low")
    salt: int | None = knob("Grains.", None, ge=0, le=9)
    day: Day = ""
    tools: Names = knob("What is taken.", (), schema=NULL)
    taste: bool = knob("Try it first.", False)
    token: str = knob("Of tasks alone.", "", param=None)


def asked(**params: Any) -> Cooking:
    return Cooking.from_params({"cook": "ann", **params}, cook=["ann", "bob"], meals=["soup"], guests=["eve", "dan"])


def test_params_have_the_fields_text_default_and_schema() -> None:
    params = Cooking.params(cook=["ann", "bob"], meals=["soup"])
    assert list(params) == ["cook", "meals", "guests", "heat", "salt", "from", "tools", "taste"]
    cook = {"default": "ann", "type": "string", "title": "Cook", "description": "Who cooks.", "enum": ["ann", "bob"]}
    assert params["cook"] == cook
    assert (params["meals"]["default"], params["meals"]["items"]) == ([], {"type": "string", "enum": ["soup"]})
    assert params["guests"]["items"] == {"type": "string"}
    assert (params["heat"]["default"], params["heat"]["enum"]) == ("low", ["low", "high"])
    salt = {"default": None, "type": ["null", "integer"], "title": "Salt", "description": "Grains."}
    assert params["salt"] == {**salt, "minimum": 0, "maximum": 9}
    day = {"default": None, "type": ["null", "string"], "title": "From", "description": "A day.", "format": "date"}
    assert params["from"] == day
    assert (params["tools"]["default"], params["tools"]["type"]) == (None, ["null", "array"])
    assert (params["taste"]["default"], params["taste"]["type"]) == (False, "boolean")


def test_a_deployment_may_have_other_defaults() -> None:
    params = Cooking.params({"heat": "high", "salt": 0}, cook=["ann"])
    assert [params[name]["default"] for name in ("cook", "heat", "salt", "taste")] == ["ann", "high", 0, False]
    assert Cooking.params()["heat"]["default"] == "low"


def test_names_of_one_deployment_stay_out_of_another() -> None:
    Cooking.params(meals=["soup"])
    assert "enum" not in Cooking.params()["meals"]["items"]


def test_what_is_left_empty_has_its_default_and_no_name_may_mean_all() -> None:
    run = asked(meals=[], heat=None, salt=None, **{"from": None})
    assert run == Cooking(cook="ann", guests=("dan", "eve"))
    assert asked(guests=["eve", "eve"]).guests == ("eve",)
    assert asked(salt=0).salt == 0


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"cook": "zoe"}, "params.cook"),
        ({"cook": None}, "params.cook"),
        ({"meals": ["soap"]}, "params.meals"),
        ({"meals": ["soup", "soup"]}, "params.meals"),
        ({"heat": "hell"}, "params.heat"),
        ({"salt": 10}, "params.salt"),
    ],
)
def test_a_wrong_value_is_refused_by_its_params_name_with_the_next_step(params: dict[str, Any], path: str) -> None:
    with pytest.raises(SettingsError) as refused:
        asked(**params)
    assert refused.value.details["path"] == path
    assert refused.value.fix
    assert "\n" not in str(refused.value)


def test_a_section_without_any_name_is_named() -> None:
    with pytest.raises(SettingsError, match="no meal is declared") as refused:
        Cooking.from_params({"cook": "ann"}, meals=[])
    assert refused.value.details["path"] == "meals"


def test_options_have_the_same_texts_types_and_defaults() -> None:
    @click.command()
    @Cooking.options("cook", "meals", "heat", "salt", "day", "taste")
    @Cooking.options("token", help="Another text.")
    def command(**given: Any) -> None:
        click.echo(repr(Cooking(**given)))

    told = CliRunner().invoke(command, ["--help"]).output
    for text in (
        "NAME",
        "[low|high]",
        "[default: low]",
        "0<=x<=9",
        "--since DAY",
        "Again for another.",
        "Another text",
    ):
        assert text in told
    made = CliRunner().invoke(command, ["ann", "--meal", "soup", "--meal", "pie", "--salt", "3", "--taste"]).output
    assert made.strip() == repr(Cooking(cook="ann", meals=("soup", "pie"), salt=3, taste=True))
    assert CliRunner().invoke(command, ["ann", "--salt", "10"]).exit_code == 2


runs = st.builds(
    Cooking,
    cook=st.from_regex(r"[a-z]{1,5}", fullmatch=True),
    meals=st.lists(st.sampled_from(["soup", "-pie"]), unique=True).map(tuple),
    heat=st.sampled_from(["low", "high"]),
    salt=st.none() | st.integers(0, 9),
    day=st.sampled_from(["", "2026-11-20"]),
    tools=st.sampled_from([(), ("pan", "pot")]),
    taste=st.booleans(),
    token=st.sampled_from(["", "t"]),
)


@given(runs)
def test_words_are_read_back_as_the_same_run(run: Cooking) -> None:
    command = click.command(Cooking.options()(lambda **given: Cooking(**given)))
    assert command.main(run.words(), standalone_mode=False) == run


def test_words_leave_out_defaults_and_may_be_of_some_fields() -> None:
    run = Cooking(cook="ann", meals=("soup",), heat="low", taste=True)
    assert run.words() == ["ann", "--meal", "soup", "--taste"]
    assert run.words("taste") == ["--taste"]
