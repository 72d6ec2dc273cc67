# Two commands for a person: `make run` and `make test`. Both set up what they need, from package registries only.
# Everything lives in .venv/ and .cache/ inside this folder, and `make clean` removes both; only Kubernetes as the end-to-end
# tests build it is kept for all checkouts of this user, in ~/.cache/muster.

# The system's own, where it will do: mostly it is the faster one (docs/adr/0107).
PYTHON ?= $(shell python3 tests/base_python.py 2>/dev/null || echo python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-dev
SEEDS ?= 300
FROM ?= 0
PROGRESS ?=
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest
# Hundreds of replicas and clients are started here: each would compile our modules anew, as no installed one does.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run run-redis test test-fast test-unit test-slow test-computes test-fuzz test-damage fuzz faults changes seven rolling beside beside-earlier valkey quotas closing logins transactions applications lake held-log rounds soak test-sim test-clients test-integration test-together test-paced test-quiet test-beside checked check fmt bench bench-before operator-bench sim sim-night clean \
  test-compiled wheel lock sbom audit test-pipeline docs pipeline-demo bench-pipeline pipeline-archive k8s promtool image images e2e e2e-first e2e-api e2e-up e2e-in e2e-down \
  e2e-kind kind-up kind-in kind-down

help:
	@echo "make run        three replicas, real flight data, real clients, a killed coordinator (under 90 s after set-up)"
	@echo "make run-redis  the same with the flights in Redis Streams: Redis is killed too, and read by XINFO at the end"
	@echo "make test       everything: units, simulation, real processes with real clients (40 to 45 minutes on two cores)"
	@echo "make test-fast  units, properties, scenarios (about 8 minutes); ROOM=groups for those of one room"
	@echo "make check      ruff, mypy --strict, import contracts"
	@echo "make sim SEEDS=1000   more simulated clusters; FROM=seed, and PROGRESS=file to go on where it was ended"
	@echo "make sim-night HOURS=8   new seeds for so long; what came of them is in .cache/sim-night/reliability.json"
	@echo "make fuzz MINUTES=45  as many hostile requests to a replica as the time gives"
	@echo "make faults FAULTS=60 processes killed and frozen under real clients, what those saw judged; AGAINST=kafka prints Kafka's"
	@echo "make test-damage DAMAGES=all  every written byte of a replica flipped or cut; PROGRESS=file to go on where it was ended"
	@echo "make changes    brokers come and go under real clients, folders are replaced, somebody is killed in each step of a move"
	@echo "make seven      four brokers join three with 150 partitions, and leave again, under real clients"
	@echo "make rolling    a release and the one before beside each other for a minute under clients, and back"
	@echo "make beside     ten minutes of kills beside a real Kafka whose groups are ours"
	@echo "make beside-earlier  groups beside Kafka 3.9: clients, their own logins, ACLs in front, groups copied there and back"
	@echo "make valkey     the tests of topics in Redis on a Valkey 8.0"
	@echo "make quotas     a Java producer and a Java consumer are held within 10 % of their rates at each level of quotas"
	@echo "make applications  Kafka Connect, MirrorMaker 2 and others that are built on Kafka, on a cluster each"
	@echo "make closing    an open cluster becomes closed by settings, step by step and back, under real clients"
	@echo "make logins     each way to show who one is in five families of clients, through rotation, fail-over and new sessions"
	@echo "make held-log   a log of three real Kafka brokers, with groups of every kind, as Kafka's own tools tell it"
	@echo "make lake       tables behind a real S3 API and in HDFS: kills of driver and server in a commit, writers beside writers; YARN"
	@echo "make rounds     1,000 rounds of a stream with restarts and a later release in the middle, beside a batch"
	@echo "make soak       200,000 connections and 120,000 hostile requests, and what is left of them in memory"
	@echo "make e2e        a real Kubernetes node in a sandbox, tests, gone again (root; builds Kubernetes once, 6 to 10 minutes)"
	@echo "make e2e-first  of it what every change must pass: from nothing to a healthy group as the README says it"
	@echo "make e2e-up, make e2e-in CMD='…', make e2e-down   keep such a node while you work (e2e/README.md)"
	@echo "make e2e-kind   the same on three nodes: drain, a frozen node, a lost node (Docker in the sandbox; nightly)"
	@echo "make pipeline-demo   a minute of a cluster, its offsets log as tables and a report that the coordinators confirm"
	@echo "make bench-pipeline  the pipeline beside DuckDB, Polars and plain processes; SCALE=100M for a large log"
	@echo "make pipeline-archive  the pipeline as a zip for spark-submit --py-files (YARN), in dist/"
	@echo "make lock, make sbom, make audit   what the image has: versions and hashes, as CycloneDX, and what is known against it"
	@echo "make docs       the documents as pages with a search, in .cache/site"
	@echo "make bench      beside Kafka on this machine, 25 minutes; ROWS=name for one row, ROWS=all for everything, FORM=pure"

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

# Needs redis-server, 7.0 or newer.
run-redis: setup
	$(BIN)/muster demo --redis

# What computes runs at the lowest priority beside what waits now and then, on the processor time that it leaves. What
# measures a pause runs alone, and Spark with a real Kafka too: beside the simulator its groups did not settle in time.
WAITS := test-slow test-clients test-together test-paced
COMPUTES := test-sim test-fuzz test-computes
BESIDE := .cache/beside.log
FAILURES := .cache/failures.log

test: checked test-unit test-pipeline test-beside test-quiet

# mypy has one processor. On the other one all tests are compiled, which in a fresh clone each worker would do anew.
checked: setup
	@$(PYTEST) tests --collect-only --quiet >/dev/null 2>&1 & \
	  $(MAKE) --no-print-directory check; status=$$?; wait; exit $$status

test-beside: setup
	@mkdir -p $(dir $(BESIDE)); rm -f $(FAILURES); export MUSTER_FAILURES=$(abspath $(FAILURES)); \
	  echo "$(COMPUTES) run beside $(WAITS); they are shown when those have ended ($(BESIDE))"; \
	  $(BIN)/python -m tests.low_priority $(MAKE) --no-print-directory $(COMPUTES) >$(BESIDE) 2>&1 & computes=$$!; \
	  $(MAKE) --no-print-directory $(WAITS); waits=$$?; \
	  wait $$computes; computes=$$?; cat $(BESIDE); \
	  [ ! -e $(FAILURES) ] || { echo "What failed, once more ($(FAILURES)):"; cat $(FAILURES); }; \
	  [ $$waits = 0 ] && [ $$computes = 0 ]

test-fast: test-unit

# ROOM=groups: only the tests of that room.
ROOM ?=

test-unit: setup
	$(PYTEST) tests$(if $(ROOM),/$(ROOM)) -n 2 -o faulthandler_timeout=400 -m "not sim and not integration and not clients and not slow and not pipeline and not fuzz and not applications"

# 300,000 inputs to one replica on virtual time; `make fuzz` goes on for MINUTES. One test at a time, the campaigns first:
# each is half a minute and more, and the others are seconds.
test-fuzz: setup
	$(PYTEST) tests --suite fuzz -n 2 --dist load --maxschedchunk 1 -m fuzz

DAMAGES ?= 3000

# One byte of a replica's files flipped, or the file cut there, and a start; the sample alone is in `make test-unit` too.
test-damage: setup
	$(BIN)/python -m tests.damage --damages $(DAMAGES) --jobs $(JOBS) $(if $(PROGRESS),--progress $(PROGRESS))

MINUTES ?= 45

fuzz: setup
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

FAULTS ?= 60
AGAINST ?= muster

# Process faults under real clients, of today's plan (SEED=n: of another); AGAINST=kafka prints a real Kafka's figures.
faults: setup
	$(BIN)/python -m tests.faults --faults $(FAULTS) --against $(AGAINST) $(if $(SEED),--seed $(SEED))

# Brokers come and go, folders are replaced, whoever carries out a step of a move is killed; `make test` has a short form.
changes: setup
	MUSTER_CHANGES=whole $(PYTEST) tests/faults/test_changes.py -s

# Four brokers join three that have 50 offsets partitions and 100 of topics, and leave again, under real clients.
seven: setup
	MUSTER_SEVEN=whole $(PYTEST) tests/faults/test_seven_brokers.py -s

# A roll to today's release and back, of which one replica alone runs today's for a minute; `make test` does not wait.
rolling: setup
	MUSTER_ROLLING=whole $(PYTEST) tests/releases/test_rolling.py -s

# Copiers in transactions, 20 kills and more, until one hit each moment of an end; `make test` has a short form.
transactions: setup
	MUSTER_TRANSACTIONS=whole $(PYTEST) tests/faults/test_transactions.py -s

# What is built on Kafka, from package registries, each on a cluster of its own: none of it is in `make test`.
applications: setup
	$(PYTEST) tests/applications -m applications

# Each level of quotas holds a Java producer and a Java consumer for a minute; `make test` has a short form.
quotas: setup
	MUSTER_QUOTAS=whole $(PYTEST) tests/integration/test_quotas.py -s

# An open cluster of the release before becomes closed step by step, and back at each, under six clients.
closing: setup
	MUSTER_CLOSING=whole $(PYTEST) tests/releases/test_open_to_closed.py -s

# Each mechanism of SASL, and certificates, in five families of clients, through a rotation, a fail-over and new sessions.
logins: setup
	MUSTER_LOGINS=whole $(PYTEST) tests/integration/test_each_login.py -s

# Ten minutes of kills beside three brokers of a real Kafka, whose groups are ours; `make test` has a short form.
beside: setup
	MUSTER_BESIDE=whole $(PYTEST) tests/faults/test_beside_kafka.py -s

# Groups beside the last release of Kafka before 4, with its own Java client and tools. It has no groups of other types.
beside-earlier: setup
	MUSTER_KAFKA_VERSION=3.9.2 $(PYTEST) tests/integration/test_beside_kafka.py tests/integration/test_group_migrate.py \
	  tests/integration/test_logins_beside_kafka.py tests/integration/test_acls_before_kafka.py \
	  --deselect tests/integration/test_group_migrate.py::test_groups_of_other_types_are_refused_in_words

# The tests of topics in Redis on a Valkey 8.0, which has WAITAOF.
valkey: setup
	server=$$($(BIN)/python -m tests.redis_streams.valkey) && MUSTER_REDIS_SERVER=$$server $(PYTEST) tests/redis_streams -n 2 --dist loadfile -m "integration"

# Tables behind a real S3 API and in a real HDFS: SIGKILL of driver and server at each step of a commit, 102 runs of three
# writers; a run by a real YARN.
lake: setup
	MUSTER_LAKE=whole $(PYTEST) tests/pipeline/store/test_s3.py tests/pipeline/store/test_hdfs.py tests/pipeline/cli/test_yarn.py -s

# Three real Kafka brokers write what the held log of the tests has: groups of every kind, a compacted log, an unclean
# election; and Kafka's tools judge how it is read. The one that is kept: python -m tests.pipeline.golden.make_held_log
held-log: setup
	MUSTER_HELD=made $(PYTEST) tests/pipeline/golden/test_held_log.py -s

# 1,000 rounds of a stream that dies, is vacuumed and goes on under a later release; `make test` has a short form.
rounds: setup
	MUSTER_ROUNDS=whole $(PYTEST) tests/pipeline/store/test_many_rounds.py -s

soak: setup
	MUSTER_SOAK_CONNECTIONS=200000 MUSTER_SOAK_REQUESTS=120000 $(PYTEST) tests/faults/test_connection_soak.py tests/faults/test_request_soak.py -s

# The seeds have two processes of their own.
test-sim: setup
	MUSTER_SIM_SEEDS=$(SEEDS) $(PYTEST) tests --suite seeds -m "sim and seeds"
	$(PYTEST) tests --suite sim -n 2 --dist worksteal -m "sim and not seeds"

# Four at a time: members mostly wait.
test-clients: setup
	$(PYTEST) tests --suite clients -n 4 --dist worksteal -m "clients and not sim and not pipeline"

# Real processes and real clocks of a few seconds.
test-slow: setup
	$(PYTEST) tests --suite slow -n 2 --dist worksteal -m "slow and not computes and not integration and not clients and not sim and not pipeline"

# Long properties, comparisons with Java, mutants in processes of their own.
test-computes: setup
	$(PYTEST) tests --suite computes -n 2 --dist worksteal -m "computes and slow and not integration and not clients and not sim and not pipeline"

# Four files at a time, as they mostly wait too, and a file's tests share a cluster. What measures a pause runs alone.
INTEGRATION := integration and not clients and not sim and not pipeline

test-integration: test-together test-paced test-quiet

test-together: setup
	$(PYTEST) tests --suite integration -n 3 --dist loadfile --no-loadscope-reorder -m "$(INTEGRATION) and not quiet and not paced"

# Two at a time: they wait for a rate.
test-paced: setup
	$(PYTEST) tests --suite paced -n 2 --dist loadfile -m "$(INTEGRATION) and paced"

test-quiet: setup
	$(PYTEST) tests --suite quiet -m "$(INTEGRATION) and quiet"

# The compiled form (docs/adr/0010): C's compiler is needed, and three minutes for it.
COMPILED := $(CURDIR)/.cache/compiled
COMPILED_STAMP := $(COMPILED)/.built
COMPILED_ENV := PYTHONPATH=$(COMPILED) MUSTER_FORM=compiled
SUITES ?= test-unit test-slow test-computes test-sim test-clients test-integration

$(COMPILED_STAMP): $(STAMP) $(shell find coordinator -name '*.py' -o -name '*.json')
	$(MAKE) wheel COMPILE=1
	rm -rf $(COMPILED) && $(BIN)/python -m zipfile --extract dist/muster-*.whl $(COMPILED) && touch $@

# The same suites on it.
test-compiled: $(COMPILED_STAMP)
	$(COMPILED_ENV) $(MAKE) $(SUITES)

# Two Spark sessions at most: each has a JVM of its own. What is one test of a minute is not begun last.
test-pipeline: setup
	$(PYTEST) tests/pipeline --suite pipeline -n 2 --dist loadfile --no-loadscope-reorder -m pipeline

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fmt: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sim: setup
	$(BIN)/python -m tests.sim --seeds $(SEEDS) --first $(FROM) --jobs $(JOBS) $(if $(PROGRESS),--progress $(PROGRESS))

HOURS ?= 8

# As many new seeds as the hours give: .cache/sim-night/reliability.json, and a file for each seed that failed.
sim-night: setup
	$(BIN)/python -m tests.sim.night --hours $(HOURS) --jobs $(JOBS) $(if $(filter-out 0,$(FROM)),--first $(FROM))

# Muster's side runs in its compiled form where there is a C compiler; FORM=pure measures the sources as they are.
FORM ?= $(if $(shell command -v cc),compiled,pure)

bench: setup $(if $(filter compiled,$(FORM)),$(COMPILED_STAMP))
	$(if $(filter compiled,$(FORM)),$(COMPILED_ENV)) $(BIN)/python -m bench $(ROWS)

# Beside the release that tests/releases keeps, both as sources: what a request costs now, and by how much two equal
# clusters differ on this machine. bench-before ROWS="heartbeat commit offset"
bench-before: setup
	$(BIN)/python -m bench --before $(or $(ROWS),heartbeat_1 commit_1 offset_fetch)

# The documents as pages in .cache/site; a link that leads nowhere fails.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file docs/site/mkdocs.yml
	@echo "open .cache/site/index.html"

pipeline-demo: setup
	$(BIN)/python -m tests.pipeline.demo

SCALE ?= 4M

bench-pipeline: setup
	$(BIN)/python -m bench.pipeline --records $(SCALE)

# dist/muster-pipeline.zip and the script that spark-submit starts (docs/pipeline.md, "On a cluster").
pipeline-archive: setup
	$(BIN)/python pipeline/packaging/archive.py --out dist

# 1,000 ConsumerGroups against a real API server: operator start to converged, memory; writes while they are busy.
operator-bench: setup
	$(BIN)/python -m e2e.bench_operator
	$(BIN)/python -m e2e.bench_busy
	$(BIN)/python -m e2e.bench_clusters

# Real Kubernetes (e2e/README.md). `k8s` and `images` are what the others build first. Each BOX is isolated from all others.
E2E := $(BIN)/python -m e2e.node
E2E_TESTS ?= e2e
E2E_TIMEOUT_S ?= 10800
# BOX, the name before, is an alias.
BOX ?= node
SANDBOX ?= $(BOX)
override export CMD := $(value CMD) # as typed: `$$` in it is the shell's

k8s: setup
	$(E2E) build

promtool: setup
	$(E2E) promtool

images: setup
	$(E2E) images

# dist/muster-*.whl. COMPILE=1: with the pure cores compiled by mypyc, for this Python on this platform (docs/adr/0010).
COMPILE ?=

wheel: setup
	rm -rf dist && MUSTER_COMPILE=$(COMPILE) $(BIN)/python -m pip --quiet wheel --no-deps --wheel-dir dist .

# The Dockerfile, with docker or buildah and a registry: make image BASE=python:3.11-slim TAG=muster:1 COMPILE=1
BASE ?= python:3.11-slim
TAG ?= muster:dev
LOCK ?= image

image: wheel
	cp -r operator/requirements dist/
	@builder=$$(docker info >/dev/null 2>&1 && echo docker || command -v buildah) || \
	  { echo "make image needs docker or buildah; make images needs neither"; exit 1; }; \
	  $$builder build --file operator/Dockerfile --build-arg BASE=$(BASE) --build-arg LOCK=$(LOCK) --tag $(TAG) dist

# Exact versions and hashes of what the image has (docs/adr/0061); UPGRADE=1 takes the newest that pyproject.toml allows.
lock: setup
	$(BIN)/python -m tests.supply lock $(if $(UPGRADE),--upgrade)

# What is in the image, as CycloneDX.
sbom: setup
	$(BIN)/python -m tests.supply sbom --lock $(LOCK) --out dist/muster-$(LOCK).cdx.json

# Known vulnerabilities of what is locked. 2: the advisory data could not be had, nothing was judged.
audit: setup
	$(BIN)/python -m tests.supply audit

# Jars of the Kafka beside which groups are coordinated, from Maven Central.
MORE_IMAGES := $(BIN)/python -m e2e.more_images
KAFKA_JARS := $(BIN)/python -c 'from tests import java_tools as it; it.classpath(*it.KAFKA_ALL)'
GO_CLIENTS := $(BIN)/python -c 'from tests import go_tools as it; it.built()'

# The summary names every test; the slowest are shown. A sandbox has no way out: what is downloaded is downloaded before.
e2e: setup
	@$(E2E) promtool || test -z "$$MUSTER_REQUIRE"
	@$(KAFKA_JARS) || test -z "$$MUSTER_REQUIRE"
	@$(GO_CLIENTS) || test -z "$$MUSTER_REQUIRE"
	@$(MORE_IMAGES) || test -z "$$MUSTER_REQUIRE"
	$(PYTEST) $(E2E_TESTS) --rung box -rap || [ $$? -eq 5 ] # 5: none of these tests is about the sandbox
	$(E2E) --name run --timeout $(E2E_TIMEOUT_S) run -- $(PYTEST) $(E2E_TESTS) -rap --durations=60

# What each change must pass of it: the README's way from nothing to a healthy group, and the definitions.
e2e-first: setup
	$(E2E) --name first run -- $(PYTEST) e2e/test_from_nothing.py e2e/test_crds.py -rap --durations=5

# Real etcd and API server on loopback; no root, no sandbox.
e2e-api: setup
	$(PYTEST) $(E2E_TESTS) --rung api

e2e-up: setup
	$(E2E) --name $(SANDBOX) up

e2e-in:
	@$(E2E) --name $(SANDBOX) in -- sh -c "$$CMD"

e2e-down:
	@$(E2E) --name $(SANDBOX) down

# Three nodes on kind, all in a sandbox: what needs three, and what runs on one. Docker runs in the sandbox.
KIND := $(BIN)/python -m e2e.kind
# KIND_BOX, the name before, is an alias.
KIND_BOX ?= kind
KIND_SANDBOX ?= $(KIND_BOX)
KIND_TIMEOUT_S ?= 10800

e2e-kind: setup
	@$(KAFKA_JARS) || test -z "$$MUSTER_REQUIRE"
	@$(GO_CLIENTS) || test -z "$$MUSTER_REQUIRE"
	@$(MORE_IMAGES) || test -z "$$MUSTER_REQUIRE"
	$(KIND) --name $(KIND_SANDBOX) --timeout $(KIND_TIMEOUT_S) run -- $(PYTEST) $(E2E_TESTS) --rung kind --rung node --verbose
	$(PYTEST) $(E2E_TESTS) --rung docker || [ $$? -eq 5 ] # 5: none of these tests is about Docker in a sandbox

kind-up: setup
	$(KIND) --name $(KIND_SANDBOX) up

kind-in:
	@$(KIND) --name $(KIND_SANDBOX) in -- sh -c "$$CMD"

kind-down:
	@$(KIND) --name $(KIND_SANDBOX) down

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
