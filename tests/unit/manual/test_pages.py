"""The pages that are made from the code are what the code makes, and leave nothing out."""

from __future__ import annotations

import pytest

from include.cli import check
from tests.support.manual import commands, deployment_reference, incidents, metrics
from tests.support.manual.references import ROOT

MADE = {
    "deployment-reference": deployment_reference.page,
    "cli": commands.page,
    "metrics": metrics.page,
    "incidents": incidents.page,
}


@pytest.mark.parametrize("name", MADE)
def test_a_page_that_is_made_from_the_code_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / f"{name}.md").read_text("utf-8") == MADE[name](), "run `make manual`"


def test_every_section_that_is_read_is_described() -> None:
    assert {section.name for section in deployment_reference.SECTIONS} == set(check.SECTIONS)


@pytest.mark.parametrize("section", deployment_reference.SECTIONS, ids=lambda section: section.name)
def test_every_key_has_a_type_and_a_meaning(section: deployment_reference.Section) -> None:
    for model in deployment_reference.models(section):
        assert len(deployment_reference.fields(model)) == len(model.model_fields)
        for row in deployment_reference.fields(model):
            assert row.type not in ("", "any value") or row.name in ("settings", "options"), (model, row)
            assert row.meaning, (model, row)


def test_every_option_of_every_command_says_what_it_does() -> None:
    silent = [
        (name, option.opts)
        for name, command in commands.commands()
        for option in command.params
        if getattr(option, "hidden", False) is False and hasattr(option, "help") and not option.help
        if option.param_type_name == "option"
    ]
    assert silent == []
