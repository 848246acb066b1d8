# Everything a newcomer needs is one command; each target sets itself up with python3, venv and pip alone.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
ARGS ?=
PYTEST_ARGS ?=
MINUTES ?= 20
SEED ?=
SEEDS ?= 3

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.demo-installed ## a story of 2,000 payments on real parts, checked to the last cent (ARGS="--seed 7 --serve")
	$(BIN)/reconciler demo $(ARGS)

.PHONY: test
test: $(VENV)/.dev-installed ## every test, on an embedded PostgreSQL; Apache Kafka joins where Java and Maven are (PYTEST_ARGS=…)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: check
check: $(VENV)/.dev-installed ## lint, format, strict types, import layers, schema drift
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m schemas.generate --check

.PHONY: faults
faults: $(VENV)/.dev-installed ## seeded plans of faults against real processes, the whole history checked (SEED=7, or SEEDS=50)
	$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

.PHONY: soak
soak: $(VENV)/.dev-installed ## load and random faults for MINUTES=20: memory, connections and loop lag, then the check
	$(BIN)/python -m tests.faults.soak --minutes $(MINUTES) $(ARGS)

.PHONY: guards
guards: $(VENV)/.dev-installed ## take each guard out in a copy and show which tests fail without it (ARGS="--only lease")
	$(BIN)/python -m tests.guards $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev-installed ## ingest and healing rates beside their ceilings, measured in one run (ARGS=…)
	$(BIN)/python -m tests.benchmarks $(ARGS)

.PHONY: schemas
schemas: $(VENV)/.dev-installed ## write the JSON Schemas and the AsyncAPI document anew from the models
	$(BIN)/python -m schemas.generate

.PHONY: lock
lock: ## resolve the dependencies anew into the three hashed locks (needs uv)
	uv pip compile $(LOCK_FLAGS) pyproject.toml -o requirements.lock
	uv pip compile $(LOCK_FLAGS) pyproject.toml --extra demo --extra build -c requirements.lock -o requirements-demo.lock
	uv pip compile $(LOCK_FLAGS) pyproject.toml --all-extras -c requirements-demo.lock -o requirements-dev.lock

LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.PHONY: clean
clean: ## take away what the other targets made
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "payment-reconciler needs Python 3.11 or newer; name one: make PYTHON=python3.12 …" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-installed: requirements-demo.lock pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes -r requirements-demo.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev-installed: requirements-dev.lock pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes -r requirements-dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/.demo-installed
