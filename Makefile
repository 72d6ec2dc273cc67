# Two commands for a person: `make run` and `make test`. Both set up what they need, from package registries only.
# Everything lives in .venv/ and .cache/ inside this folder; `make clean` removes both.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-dev
SEEDS ?= 300
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup run test test-fast test-unit test-sim test-clients test-integration check fmt bench sim clean

help:
	@echo "make run        three replicas, real flight data, real clients, a killed coordinator (under 90 s after set-up)"
	@echo "make test       everything: units, simulation, real processes with real clients (about 25 minutes)"
	@echo "make test-fast  units, properties, scenarios (under 2 minutes)"
	@echo "make check      ruff, mypy --strict, import contracts"
	@echo "make sim SEEDS=1000   more simulated clusters"
	@echo "make bench      fail-over, measured with librdkafka's default settings"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Muster needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Muster and its tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

run: setup
	$(BIN)/muster demo

test: check test-unit test-sim test-clients test-integration

test-fast: test-unit

test-unit: setup
	$(PYTEST) tests -n 2 -m "not sim and not integration and not clients and not slow"

test-sim: setup
	MUSTER_SIM_SEEDS=$(SEEDS) $(PYTEST) tests -m "sim"

# Four at a time: members mostly wait.
test-clients: setup
	$(PYTEST) tests -n 4 --dist worksteal -m "clients and not sim"

# One at a time: these measure pauses and kill processes.
test-integration: setup
	$(PYTEST) tests -m "(integration or slow) and not clients and not sim"

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fmt: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sim: setup
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

bench: setup
	$(BIN)/python -m bench $(ROWS)

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
