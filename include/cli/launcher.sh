#!/bin/sh
# Installed as .venv/bin/lyrebird by `make setup`: runs the project that this environment belongs to.
bin=$(dirname "$(readlink -f "$0")")
root=$(dirname "$(dirname "$bin")")
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$bin/python" -m include "$@"
