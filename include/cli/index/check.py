"""`lyrebird index check`: compare a live index with its declaration, and its topics with its mapping."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import click
import orjson

from include.cli.json_option import json_option
from include.index.definition import IndexDefinition, index_named
from include.index.generations.active import serving
from include.index.mapping.check import MappingFinding
from include.index.mapping.declared import check, undeclared
from include.index.mapping.file import mapping_of
from include.index.mapping.schema_fit import TopicFit, topic_fits
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.unindexed_values import ignored_values
from include.log.registry.confluent import ConfluentRegistry
from include.settings.completion import names_of
from include.settings.connections import Elasticsearch, Registry
from include.settings.deployment import Deployment

__all__ = ["command"]

_WIDTH = 110
_INDENT = " " * 11
_SHOWN = ("refused", "coerced", "limited", "unsent")


@click.command(name="check")
@click.argument("name", shell_complete=names_of("indexes"))
@json_option()
def command(name: str, as_json: bool) -> None:
    """Compare live index NAME with its declaration, and its topics' schemas with its mapping.

    Tells what a topic's values become in their fields: refused, coerced, or limited. Exit code 1 when the index is
    not as declared, or when the indexer would stop.
    """
    deployment = Deployment.load()
    definition = index_named(deployment, name)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    info = serving(index, name)
    declared = mapping_of(deployment, definition)
    differences = check(info, name, declared)
    more = undeclared(info, declared)
    hidden = ignored_values(index.client, info.name)
    fits = topic_fits(ConfluentRegistry(deployment.one("registry", Registry)), definition, info.mapping, declared)
    stops = any(fit.stops for fit in fits)
    if as_json:
        value = {
            "index": info.name,
            "differences": differences,
            "undeclared": more,
            "hidden": hidden,
            "topics": [_json(fit, definition) for fit in fits],
        }
        click.echo(orjson.dumps(value).decode())
    else:
        click.echo("\n".join(differences) or f"{info.name} is as declared")
        if more:
            click.echo(f"came with newer schemas, not declared in {definition.mapping}:\n  " + "\n  ".join(more))
        for fit in fits:
            click.echo("\n".join(_lines(fit, definition)))
        if hidden:
            click.echo("values that no search finds (ignore_above, ignore_malformed):")
            click.echo("\n".join(f"  {place}: {count} documents" for place, count in hidden.items()))
        if differences or stops:
            click.echo(f"next: mend {definition.mapping}, then lyrebird index rebuild {name}")
    if differences or stops:
        sys.exit(1)


def _json(fit: TopicFit, definition: IndexDefinition) -> dict[str, Any]:
    findings = [
        asdict(each) | {"accepted": each.verdict == "coerced" and each.place in definition.coerced}
        for each in fit.findings
    ]
    return asdict(fit) | {"findings": findings}


def _lines(fit: TopicFit, definition: IndexDefinition) -> Iterator[str]:
    if fit.schema_id is None:
        yield f"{fit.topic} has no schema yet: nothing can be said of its documents"
        return
    yield f"{fit.topic} (schema {fit.schema_id}) as {fit.entity}: {'the indexer would stop' if fit.stops else 'fits'}"
    for stop in fit.stops:
        yield f"  stops    {stop}"
    if fit.adds:
        yield f"  added    before the first such document: {', '.join(fit.adds)}"
    stopped = set(fit.stops)
    for verdict in _SHOWN:
        each_of = [each for each in fit.findings if each.verdict == verdict and str(each) not in stopped]
        for reason, places in _grouped(each_of):
            accepted = "accepted: " if verdict == "coerced" else ""
            yield f"  {verdict:8} {accepted}{reason}"
            yield from textwrap.wrap(", ".join(places), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _grouped(findings: Iterable[MappingFinding]) -> Iterator[tuple[str, list[str]]]:
    """Places by reason, in the order of the first place of each."""
    by_reason: dict[str, list[str]] = {}
    for each in findings:
        by_reason.setdefault(each.reason, []).append(each.place)
    yield from by_reason.items()
