"""Verdicts and states in colour, on a terminal alone."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from include.cli.colours import painted


@pytest.mark.parametrize(
    ("text", "colour", "word"),
    [
        ("chains of e: clean (names)", "green", "clean"),
        ("  raw  0  up to date", "green", "up to date"),
        ("shop.orders: 3 altered", "red", "altered"),
        ("kafka  gave up  17", "red", "gave up"),
        ("late  4 min", "yellow", "late"),
    ],
)
def test_a_verdict_has_the_colour_of_what_it_asks_for(text: str, colour: str, word: str) -> None:
    assert painted(text) == text.replace(word, click.style(word, fg=colour))


@pytest.mark.parametrize(
    "text", ["0 missing, 0 extra", "no findings", "cdc.shop.late.orders", "events.late", "s3://lake/stale/x", "related"]
)
def test_what_there_is_none_of_and_parts_of_names_stay_plain(text: str) -> None:
    assert painted(text) == text


def test_a_pipe_gets_no_colours() -> None:
    @click.command()
    def told() -> None:
        click.echo(painted("clean"))

    assert CliRunner().invoke(told).output == "clean\n"
    assert CliRunner().invoke(told, color=True).output == "\x1b[32mclean\x1b[0m\n"
