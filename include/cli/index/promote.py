"""`lyrebird index promote`: readers follow another generation from now on."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.index.run_params import PromoteRun
from include.settings.renamed import RenamedOption

__all__ = ["command"]


@click.command(name="promote")
@PromoteRun.options("index", "generation")
@click.option(
    "--dry-run",
    cls=RenamedOption,
    before=("--check",),
    is_flag=True,
    help="Say what speaks against it, and move nothing.",
)
@click.option(
    "--wait",
    "within_s",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait for it at most so long until it has what the topics hold now.",
)
@PromoteRun.options("accept_differences")
@json_option()
def command(
    index: str, generation: int | None, dry_run: bool, within_s: float, accept_differences: bool, as_json: bool
) -> None:
    """Let readers of index NAME follow another generation, at once and as a whole; back again by the same command.

    It has to be fed, to have what its topics hold, to ignore no value, and to hold the same documents as the one that
    serves (when none serves: as its topics). The one that served before stays fed until `lyrebird index drop`.
    """
    from include.audit.search.generation_proof import prove
    from include.errors import Terminal, Transient
    from include.index.deployed import DeployedIndex
    from include.index.generations.promote import promote, rebuilt_generation, standing
    from include.index.name import IndexName
    from include.settings.deployment import Deployment

    with DeployedIndex.of(Deployment.load(), index) as on:
        name = on.alias
        number = generation or rebuilt_generation(on.index, name)
        candidate = standing(
            on.index, on.admin, IndexName(name, number), on.definition, ends=on.ends, clock=on.clock, within_s=within_s
        )
        proof = prove(on, candidate.info, candidate.serving)
        against = [*candidate.refusals, *([f"{proof.findings:,} documents differ"] if proof.findings else [])]
        if not as_json:
            click.echo("\n".join([*proof.lines(), *(f"against it: {each}" for each in against)]), err=True)
        if against and not accept_differences and not candidate.serves:
            kind = Transient if candidate.passing and not candidate.lasting and not proof.findings else Terminal
            raise kind(
                "generation is not fit for readers",
                index=candidate.info.name,
                reasons=against,
                fix="Mend that, or give --accept-differences.",
            )
        if not dry_run:
            promote(on.index, on.admin, candidate)
    moved = not dry_run and not candidate.serves
    if as_json:
        before = candidate.serving.name if candidate.serving else None
        value = {"index": candidate.info.name, "before": before, "moved": moved, "against": against}
        click.echo(orjson.dumps({**value, "proof": proof.to_json()}).decode())
    elif candidate.serves:
        click.echo(f"{candidate.info.name} serves readers of {name} already")
    elif moved:
        click.echo(f"readers of {name} have {candidate.info.name} from now on")
    else:
        click.echo(f"{candidate.info.name} is fit for readers of {name}")
