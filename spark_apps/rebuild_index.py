"""Makes the next generation of an index, fills it from its topics, compares it, and ends; promotes nothing.

    spark-submit spark_apps/rebuild_index.py INDEX [--new]

Begun again, it goes on. Prints how far it is, then what it made and how that compares, and both as JSON on the last
line. Ends with 0 when the generation is whole, as expected or not (`lyrebird index promote` judges), 1 after an error
(one line on stderr), 75 after one that may pass.
"""

from __future__ import annotations

import argparse
import json
import sys

from include.audit.search.generation_proof import prove
from include.errors import LyrebirdError, Transient
from include.index.deployed import DeployedIndex
from include.index.generations.active import serving_or_none
from include.index.generations.rebuild.deployed import plan_of
from include.index.generations.rebuild.rebuild_spark import rebuild_by_spark
from include.index.generations.rebuild.run import ProgressReporter
from include.log.running.application import log_to_stderr
from include.settings.deployment import Deployment

FOLLOW_WITHIN_S = 600.0


def tell(text: str) -> None:
    """A line for the task's log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Parse arguments, load the deployment files, rebuild; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", help="its name in the deployment files")
    parser.add_argument("--new", action="store_true", help="another generation, even if one is unfinished")
    arguments = parser.parse_args()
    log_to_stderr()
    try:
        with DeployedIndex.of(Deployment.load(), arguments.index) as on:
            plan = plan_of(on, new=arguments.new)
            tell("\n".join(plan.lines()))
            teller = ProgressReporter(lambda reached: tell(reached.text), lambda reason: tell(f"waits: {reason}"))
            done = rebuild_by_spark(on, plan, teller, within_s=FOLLOW_WITHIN_S)
            proof = prove(on, done.info, serving_or_none(on.index, arguments.index))
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 75 if isinstance(error, Transient) else 1
    result = {"rebuilt": done.to_json(), "proof": proof.to_json()}
    tell("\n".join([*done.lines(), *proof.lines(), json.dumps(result)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
