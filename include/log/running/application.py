"""The main function of a streaming application under `spark_apps/`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from include.errors import Fenced, LyrebirdError
from include.settings.deployment import Deployment

__all__ = ["log_to_stderr", "main"]

_TALKATIVE: Final = ("py4j", "httpx", "elastic_transport")


def main(
    description: str,
    run: Callable[[str, Deployment], object],
    around: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> int:
    """Take `--application`, load the deployment files, and `run(application, deployment)` until it is stopped.

    Both stand in `around(application)`, which sees what ends them.

    Returns the process's exit code: 0 after a stop request, 3 when another process has taken over, 1 after any other
    error of ours, which is then one line on stderr.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--application", required=True, help="its name in the deployment files")
    arguments = parser.parse_args()
    log_to_stderr()
    try:
        with around(arguments.application):
            run(arguments.application, Deployment.load())
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3 if isinstance(error, Fenced) else 1
    return 0


def log_to_stderr() -> None:
    """Log from INFO on, but of libraries that tell of each call only what they warn of."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
