# Lyrebird's commands. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPED := $(VENV)/.developed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement
NATIVE := include/source/native
LIBRARIES := $(NATIVE)/_decoder.*.so $(NATIVE)/_events.*.so include/record/native/_avro.*.so include/record/json/native/_avro_json.*.so include/join/native/_join.*.so
BUILT := $(VENV)/.compiled
ORDERS ?= 500
RATE ?= 20
SEED ?= 1
BYTES := $(addprefix tests/prove/,test_fuzz.py test_plain.py test_sanitized.py test_cat.py test_capture_crashes.py)
SERVERS := $(filter-out $(BYTES) tests/prove/test_join% tests/prove/test_lake% tests/prove/test_search% tests/prove/test_tables% tests/prove/test_eventtime%,$(wildcard tests/prove/test_*.py))

.PHONY: help setup develop fetched demo up down status test test-unit test-dags test-services test-e2e prove-capture prove-bytes prove-servers prove-join prove-lake prove-search prove-tables prove-eventtime prove-soak check format lock bench bench-capture bench-lake bench-search bench-join bench-merkle bench-tables bench-eventtime manual pictures clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) $(BUILT) ## make .venv, install what requirements.txt pins, compile row decoders, event loop, record reader, JSON writer (again only on changes)

$(INSTALLED): requirements-build.txt requirements.txt include/cli/launcher.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Python 3.11 or newer is needed; this is $$($(PYTHON) --version). Set PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) requirements-build.txt
	@# As wheels, so that pip notes a digest of each file: a test compares pyspark with what was meant to be installed.
	$(PIP) requirements.txt --use-pep517 --no-build-isolation
	install -m 755 include/cli/launcher.sh $(BIN)/lyrebird
	touch $(INSTALLED)

$(BUILT): $(INSTALLED) $(wildcard include/*/native/*.px* include/*/*/native/*.px*) $(NATIVE)/build.py
	@# Without a compiler Python does the same work more slowly; the stamp stays away, so that the next try looks again.
	@$(BIN)/python $(NATIVE)/build.py
	@if ls $(LIBRARIES) >/dev/null 2>&1; then touch $(BUILT); fi

develop: setup $(DEVELOPED) ## setup, and what requirements-dev.txt pins for tests, checks and benches

$(DEVELOPED): requirements-dev.txt $(INSTALLED)
	$(PIP) requirements-dev.txt --no-build-isolation
	touch $(DEVELOPED)

demo: setup ## orders from MariaDB to search under Airflow, live; ONCE=1 ends by itself; ORDERS= RATE= SEED= WITH=a,b
	$(BIN)/lyrebird demo --orders $(ORDERS) --rate $(RATE) --seed $(SEED) $(if $(filter 1,$(ONCE)),--once) $(if $(WITH),--with $(WITH))

up: setup ## start the one-machine stack
	$(BIN)/lyrebird up

down: setup ## stop it
	$(BIN)/lyrebird down

status: setup ## what runs, and how far behind it is
	$(BIN)/lyrebird status

test: check test-unit test-dags test-services test-e2e ## everything: check, then all tests on real servers (under 30 minutes)

test-unit: develop ## unit tests alone: no servers, some minutes; how much of include/ they run, failing below a floor
	@rm -f .coverage
	$(BIN)/python -m slipcover -m pytest -q -n 2 tests/unit
	@$(BIN)/python -m tests.support.coverage_floor

test-dags: develop ## Airflow: DAGs, supervision
	$(BIN)/pytest -q -n 2 tests/dags

fetched: develop
	@# Before tests, whose limits of time a slow network would exceed.
	@$(BIN)/lyrebird up --fetch

test-services: fetched ## contract, integration and Spark tests on real servers
	$(BIN)/pytest -q -n 2 --dist loadfile tests/contract tests/integration tests/spark

test-e2e: fetched ## the whole stack, with things killed
	$(BIN)/pytest -q -p no:randomly $(filter-out tests/e2e/test_lake% tests/e2e/test_search% tests/e2e/test_soak%,$(wildcard tests/e2e/test_*.py))

prove-capture: prove-bytes prove-servers ## capture, whole, in about an hour: prove-bytes, then prove-servers

prove-bytes: develop ## every byte of every recording broken in three ways, sessions ended at every step, fuzz tests of compiled modules under ASan and UBSan (no servers)
	$(BIN)/pytest -q -n 2 $(BYTES)

prove-servers: develop ## real servers, fetched: random values, kills, snapshots, failovers, outages of all that capture needs
	LYREBIRD_PROVE=1 $(BIN)/pytest -q $(SERVERS)

prove-join: develop ## joins of 60,000 random histories against SQL; a chain of joins that is killed at every step, rescaled, audited under load (an hour and a half)
	LYREBIRD_PROVE=1 $(BIN)/pytest -q $(wildcard tests/prove/test_join*.py)

prove-lake: develop ## the lake: its protocol over 20,000 schedules, SequenceFiles both ways with Hadoop's, 324 runs killed and stopped at every step, outages, growth, backfills under Airflow (an hour)
	LYREBIRD_PROVE=1 $(BIN)/pytest -q $(wildcard tests/prove/test_lake*.py)
	$(BIN)/pytest -q -p no:randomly $(wildcard tests/e2e/test_lake*.py)

prove-tables: fetched ## tables on the lake: killed 50 times, read by DuckDB; a hundred audits under 2,000 changed rows a second, every kind of fault (an hour)
	LYREBIRD_PROVE=1 $(BIN)/pytest -q -s $(wildcard tests/prove/test_tables*.py)

prove-eventtime: develop ## event time: 100,000 random histories in four interleavings each give one output; nine lives with kills are what their replays are (an hour)
	LYREBIRD_PROVE=1 $(BIN)/pytest -q $(wildcard tests/prove/test_eventtime*.py)

prove-soak: fetched ## the demo with the lake under load while Airflow, disk, mail server and host have their accidents (an hour; as root, who may mount a small disk)
	$(BIN)/pytest -q -s -p no:randomly $(wildcard tests/e2e/test_soak*.py)

prove-search: develop ## order search: every version of every document, deliveries that fail in 12,000 ways, both audits of a million documents under load, lost indexes, kills; expectations, rebuilds, recovery, readers under Airflow
	LYREBIRD_PROVE=1 $(BIN)/pytest -q $(wildcard tests/prove/test_search*.py)
	$(BIN)/pytest -q -p no:randomly $(wildcard tests/e2e/test_search*.py)

check: develop ## ruff, format, mypy (strict over what ships), import-linter; known vulnerabilities of what is pinned, secrets in the tree
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.support.advisories
	$(BIN)/python -m tests.support.secret_scan

format: develop ## put the sources into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: develop ## compile each requirements*.in to its .txt, with the hashes of every file that pip may take
	@# Universal: Airflow's libcst needs pyyaml-ft on Python 3.13 alone, and pip takes nothing that a lock does not have.
	@for each in -build "" -dev; do $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url \
	  --generate-hashes --output-file requirements$$each.txt requirements$$each.in; done

bench-capture: develop ## binlog to Avro beside other tools; server to Kafka, snapshots, what the database feels, memory, starts (fails below the bounds)
	@failed=0; for each in binlogs replication snapshot feel huge start; do $(BIN)/python -m tests.bench.capture.$$each || failed=1; done; exit $$failed

bench-lake: develop ## Kafka to committed objects: what a core stores, requests, memory; how long a record takes; one executor and two; a start with 10,000 partitions; what dates cost after a year (fails below the bounds)
	@failed=0; for each in throughput latency executors start year; do $(BIN)/python -m tests.bench.lake.$$each || failed=1; done; exit $$failed

bench-search: develop ## documents, indexing, rebuilds, audits and readers beside their peers, latency at 200 orders/s (fails below the bounds)
	@failed=0; for each in index.documents index.throughput index.rebuild audit.search search.history latency; do $(BIN)/python -m tests.bench.$$each || failed=1; done; exit $$failed

bench-join: develop ## changes and rows that joins take in for each CPU second, beside Flink; delay, idle, outputs again after kill -9 (fails below the bounds)
	$(BIN)/python -m tests.bench.join.throughput

bench-eventtime: develop ## elements a CPU second through the offline detector, beside Spark's own transformWithState in Python; live delay, idle, a day again (fails below the bounds)
	$(BIN)/python -m tests.bench.eventtime.throughput

bench-tables: develop ## tables on the lake: changed rows into a million keys beside delta-rs' merge, 5,000 changes a second into ten million on one core (fails below the bounds; a quarter of an hour)
	$(BIN)/python -m tests.bench.lake.tables

bench-merkle: develop ## the proof of tables: rows a CPU second at the server and on Spark beside other formulas, what these do not see, what writers feel, an audit of a million documents (fails below the bounds)
	@failed=0; for each in audit.merkle capture.feel audit.documents; do $(BIN)/python -m tests.bench.$$each || failed=1; done; exit $$failed

bench: setup ## latency from commit to searchable: 2,000 orders at 20/s through the whole platform
	$(MAKE) demo ONCE=1 ORDERS=2000 RATE=20

manual: develop ## the pages of docs/ that are made from the code: deployment reference, commands, DAGs, incidents, metrics
	$(BIN)/python -m tests.support.manual

pictures: develop ## the pictures of docs/pictures: a demo with its tables, photographed in Chromium (a quarter of an hour)
	$(BIN)/python -m tests.support.manual.pictures

clean: ## remove .venv, state and caches of tools (downloads stay in $$LYREBIRD_CACHE)
	@if [ -x $(BIN)/lyrebird ]; then $(BIN)/lyrebird down; fi
	rm -f $(LIBRARIES)
	rm -rf $(VENV) .lyrebird .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
