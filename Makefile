# Every target sets itself up: from a fresh clone, `make test` needs only Python 3.11 or later.
#
# The virtual environment grows in three steps, each from a lock file with exact versions and hashes:
# run.lock for a broker and the clients of the start page, dev.lock for the tools and the tests,
# spark.lock. A step is repeated when its lock or pyproject.toml changes. Where packages come from is
# pip's own configuration; no file of this repository names an index.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/.runs
INSTALLED := .venv/.installed
SPARK := .venv/.spark
WORKERS ?= 2
# Tests of clusters wait more than they work: two processors have time for three of them.
WAITERS ?= 3
SOURCES := $(wildcard src tests benchmarks examples)
LOCK_OPTIONS := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links

# make sim SEED=7, make test TESTS=tests/unit/raft, make soak ARGS="--cuts 100"
SEED ?=
TESTS ?= tests
# Which five planted bugs are tried: it moves on with every commit.
TURN ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
# The date of every file that `make dist` packs.
COMMITTED ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
ARGS ?=
BASE ?=
# Where tests are that need a JVM: to look for them everywhere takes half a minute.
SPARK_TESTS := tests/docs tests/examples tests/spark
# Of TESTS=path, all may be Spark's, or none: pytest's exit code 5 is then no failure.
NO_TESTS_IS_FINE = || { code=$$?; test $$code -eq 5 && test "$(TESTS)" != tests; }
MESSAGES ?= 100000
# Tests that run in one process and wait for no real clock: coverage is measured with these.
UNIT_TESTS := tests/unit tests/properties tests/scenarios
# Why tests were skipped; the last line of `make test` sums it up. With SKIPS_ALLOWED=0 it fails then.
SKIPS := build/skips.jsonl
NOT_NOW := not soak and not interop and not spark and not long
# Per cent of the lines of src/penstock that UNIT_TESTS run; raise it when it has grown.
COVERAGE_MIN := 86

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(SPARK) ## Install everything into .venv; the command line is then .venv/bin/penstock

$(RUNS): requirements/run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Penstock needs Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@requirements/install run "about 20 seconds"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(INSTALLED): requirements/dev.lock $(RUNS)
	@requirements/install dev "about a minute"
	@# As an installed package has it: also where Python is told to write none.
	@$(BIN)/python -m compileall -q src
	@touch $@

# Spark is half a gigabyte, which a broker does not need.
$(SPARK): requirements/spark.lock $(INSTALLED)
	@requirements/install spark "about a minute: Spark is half a gigabyte"
	@touch $@

.PHONY: run
run: $(RUNS) ## Run a broker on this machine, until Ctrl-C (ARGS="--kafka 127.0.0.1:0")
	@$(BIN)/penstock dev $(ARGS)

.PHONY: dist
dist: $(RUNS) ## Build the wheel and the sdist into dist/; the same commit gives the same bytes
	@rm -rf dist
	SOURCE_DATE_EPOCH=$(COMMITTED) $(BIN)/python -m hatchling build -t sdist -t wheel
	@cd dist && sha256sum *

# Simulations know no clock, so that they may share the processors with the installation of Spark
# and with the linters; tests with real processes may not, and come after.
.PHONY: test
test: ## Everything CI needs: style, simulated seeds, planted bugs, tests
	$(MAKE) --no-print-directory --jobs 2 lint simulate
	$(MAKE) --no-print-directory pytest

.PHONY: simulate
simulate: $(INSTALLED) ## 90 simulated clusters, 20 of them twice, and five planted bugs to be caught
	$(BIN)/python -m tests.simulation.run --seeds 0-19 --quiet
	$(BIN)/python -m tests.simulation.run --seeds 20-89 --once --quiet
	$(BIN)/python -m tests.simulation.run --mutations $(TURN)

# The inner loop. What starts processes or takes long is left to `make test`.
.PHONY: check
check: setup ## In under a minute: style, types, layers, house rules, tests of what has changed
	$(MAKE) --no-print-directory --jobs 2 lint check-tests

.PHONY: check-tests
check-tests: setup
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal \
		-m "$(NOT_NOW) and not slow and not cluster and not crash and not browser" \
		tests/house $$($(BIN)/python -m tests.house.changed) $(ARGS)

# Of everything, the unit tests come first and are measured; of TESTS=path, nothing is.
.PHONY: pytest
pytest: setup ## The tests but those marked soak or interop (TESTS=path for some)
	@rm -f $(SKIPS)
	$(if $(filter tests,$(TESTS)),$(MAKE) --no-print-directory coverage)
	$(BIN)/python -m pytest -n $(WAITERS) --dist worksteal --skips $(SKIPS) -m "$(NOT_NOW)" \
		$(if $(filter tests,$(TESTS)),$(UNIT_TESTS:%=--ignore=%)) $(TESTS) $(ARGS) $(NO_TESTS_IS_FINE)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --skips $(SKIPS) \
		-m "spark and not long and not soak and not interop" \
		$(if $(filter tests,$(TESTS)),$(SPARK_TESTS),$(TESTS)) $(ARGS) $(NO_TESTS_IS_FINE)
	@$(BIN)/python -m tests.skips $(SKIPS)

.PHONY: coverage
coverage: setup ## The unit tests, and which lines they run: at least COVERAGE_MIN per cent
	$(BIN)/python -m pytest -n $(WAITERS) --dist worksteal --skips $(SKIPS) -m "$(NOT_NOW)" \
		--cov --cov-report= --cov-fail-under=$(COVERAGE_MIN) $(UNIT_TESTS) $(ARGS)

.PHONY: spark
spark: setup ## All tests that need a JVM, the long ones and every page of the guides included
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile \
		-m "spark and not soak and not interop" \
		$(if $(filter tests,$(TESTS)),$(SPARK_TESTS),$(TESTS)) $(ARGS)

.PHONY: long
long: setup ## The tests that take too long for every run and need no JVM
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long and not spark" $(TESTS) $(ARGS)

# Further tools take part where they are: kcat (apt-get install kcat), Kafka's own (KAFKA_HOME=…).
# What a client library forgets to close when its broker is killed is not our failure.
.PHONY: interop
interop: setup ## Every client library with every codec, 100,000 messages each (MESSAGES=…)
	INTEROP_MESSAGES=$(MESSAGES) $(BIN)/python -m pytest -m interop -s -W ignore::ResourceWarning \
		tests/interop_full $(ARGS)

.PHONY: demo
demo: setup ## Brokers, workers and a Spark pipeline on an order stream; a kill, a report, a proof
	$(BIN)/python -m examples.order_stream $(ARGS)

.PHONY: lint
lint: setup ## Check style, types and layers
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-logo

.PHONY: audit
audit: ## Look for known vulnerabilities of the locked dependencies; needs pip-audit and a network
	.ci/audit

.PHONY: format
format: setup ## Rewrite the sources in the house format
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# The blocking client first: the page about Python is made of it.
.PHONY: generate
generate: $(INSTALLED) ## Renew what is generated: the blocking client, docs/reference
	$(BIN)/python -m tests.house.blocking_client
	$(BIN)/python -m pytest -q tests/house/test_docs.py -k reference --rewrite

.PHONY: sim
sim: setup ## Simulate clusters (SEED=7 for one history, event by event)
	$(BIN)/python -m tests.simulation.run $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: bench
bench: setup ## Measure, beside what else is here (ARGS="--only scaling --quick", ARGS=--record)
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m benchmarks.run $(ARGS)

# BASE=v0.1.0 names what to compare with; otherwise it is the last tag.
.PHONY: bench-check
bench-check: $(INSTALLED) ## Compare with the last tag, or BASE=commit: fails if a load is below 0.95
	$(BIN)/python -m benchmarks.check $(if $(BASE),--base $(BASE)) $(ARGS)

.PHONY: bench-peers
bench-peers: setup ## Install what we are measured against, as far as it can be had; starts no service
	$(BIN)/python -m benchmarks.peers.install

.PHONY: profile
profile: setup ## Sample a broker under load, if py-spy is there (ARGS="--load requests")
	$(BIN)/python -m benchmarks.broker.sampling $(ARGS)

.PHONY: screenshots
screenshots: $(INSTALLED) ## Pictures of every page of the dashboard, into build/screenshots
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

# Each version has its directory; a warning (a link, a section, a page in no menu) fails the build.
.PHONY: docs
docs: $(INSTALLED) ## Build the pages as a site with search, into build/site; open its index.html
	$(BIN)/python -m tests.docs.site

.PHONY: first-minutes
first-minutes: $(INSTALLED) ## What a new user does first: a clone, `make run`, README, a browser; 2 minutes
	$(BIN)/python -m tests.docs.first_minutes $(ARGS)

.PHONY: soak
soak: setup ## The long tests: many seeds, many power cuts
	$(BIN)/python -m tests.soak.run $(ARGS)

.PHONY: abuse
abuse: setup ## Hostile cases and fuzzers against real brokers (ARGS="--only kafka --seconds 60 --seed 7")
	$(BIN)/python -m tests.abuse.run $(ARGS)

# The engine has wheels for some platforms only; without one, the target says that it did nothing.
.PHONY: fuzz
fuzz: setup ## Coverage-guided fuzzing of the decoders, a minute each (ARGS="--only kafka --seconds 600")
	$(BIN)/python -c 'import atheris' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --only-binary :all: 'atheris>=3' || true
	$(BIN)/python -m tests.abuse.codec_fuzz $(ARGS)

.PHONY: flaky
flaky: setup ## Search for flaky tests: all of them, often, in random orders, beside no, one and two processor hogs
	$(BIN)/python -m tests.soak.flaky $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: lock
lock: setup ## Renew requirements/*.lock from pyproject.toml
	$(BIN)/uv pip compile $(LOCK_OPTIONS) pyproject.toml --extra server \
		--output-file requirements/runtime.lock
	$(BIN)/uv pip compile $(LOCK_OPTIONS) pyproject.toml --extra server --extra otel --extra mcp --group dev \
		--constraint requirements/runtime.lock --output-file requirements/dev.lock
	$(BIN)/uv pip compile $(LOCK_OPTIONS) pyproject.toml --extra server --group build --group clients \
		--constraint requirements/dev.lock --output-file requirements/run.lock
	$(BIN)/uv pip compile $(LOCK_OPTIONS) pyproject.toml --extra server --extra otel --extra mcp --group dev \
		--extra spark --extra jre --constraint requirements/dev.lock --output-file requirements/spark.lock
	@! grep -nE 'https?:|--(extra-)?index-url|--find-links' requirements/*.lock \
		|| { echo "a lock file names a host" >&2; exit 1; }

.PHONY: clean
clean: ## Remove .venv and everything that was built
	rm -rf .venv build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests $(wildcard benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
