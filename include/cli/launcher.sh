#!/bin/sh
# Installed as .venv/bin/lyrebird by `make setup`: runs the checkout that this environment belongs to, which is not
# installed itself. The path is exported, so that Spark's workers find the same checkout. `pip install .` needs no such
# file: its command is declared in pyproject.toml.
bin=$(dirname "$(readlink -f "$0")")
root=$(dirname "$(dirname "$bin")")
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$bin/python" -m include "$@"
