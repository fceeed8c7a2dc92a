# Everything a newcomer or CI needs. `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What is imported is compiled then: to compile everything takes as long as to install it.
PIP := python -m pip install --quiet --disable-pip-version-check --no-compile
# What looks at the dependencies has an environment of its own, so that it is no part of what it looks at.
AUDIT := .tidegate/audit
AUDIT_STAMP := $(AUDIT)/.installed
# How many processes share `make test`: two more than CI has cores, since some of them always wait for servers and runs.
PROCESSES ?= 4
# Histories that `make simulate` plays.
SEEDS ?= 20000
COMPILE = $(AUDIT)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast property catalogs simulate worlds mutants lint ui bench profile clean java programs browser prometheus kafka kafka-stop stack stack-stop postgres demo-kafka demo-s3 cluster cluster-stop chaos edits soak lock sbom audit

help: ## Show what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: java $(STAMP) ## A year of real flights through gate, log and windows, in a few minutes
	@$(BIN)/python infra/demo.py

demo-kafka: java $(STAMP) ## The same flights through a real Kafka topic, live: idle and slow partitions, windows closing
	@$(BIN)/python -m infra.demo_kafka

demo-s3: java $(STAMP) ## The same year on an S3 server and a REST catalog, which the demo starts itself
	@$(BIN)/python -m infra.demo_s3

# The many processes that tests start compile the package once, and not each for itself.
test: export PYTHONDONTWRITEBYTECODE =
# All Sparks of tests start from the archive that `tests.support.classes` makes; those with other jars run once, and leave none.
test: export TIDEGATE_CLASS_ARCHIVES = $(CURDIR)/.tidegate/classes:ro
test: java ## The checks of style and types and the whole test suite, as CI runs it
	@$(MAKE) --no-print-directory --jobs=3 programs $(STAMP) $(AUDIT_STAMP)
	@# Once, and not by each of the processes: classes for all Sparks, and pytest's compiled files.
	@$(BIN)/python -m tests.support.classes & classes=$$!; \
	  $(BIN)/python -m pytest --collect-only --quiet > .tidegate/collected.txt || { cat .tidegate/collected.txt; kill $$classes; exit 1; }; \
	  wait $$classes
	@$(BIN)/python -m pytest -m "not long_run" -n $(PROCESSES) --dist loadscope --no-loadscope-reorder --durations=30 --durations-min=5

test-fast: $(STAMP) ## The small tests: no JVM, all of them within a minute
	@$(BIN)/python -m pytest -n auto --dist loadscope -m "not spark and not jvm and not slow and not medium"

property: java $(STAMP) ## Many more random cases than CI runs, on both runners; graphs and decoders go on where they were stopped
	@TIDEGATE_HYPOTHESIS=thorough TIDEGATE_RUNNERS=all TIDEGATE_GRAPHS_COUNT=300 TIDEGATE_GRAPHS_PROGRESS=.tidegate/property/graphs.json \
	  TIDEGATE_DECODERS_PROGRESS=.tidegate/property \
	  $(BIN)/python -m pytest -k "property or failpoints or long_run"

CONFORMANCE = $(sort $(wildcard tests/inprocess/test_conformance*.py)) tests/live/test_catalog_lease.py

catalogs: java postgres $(STAMP) ## The suite of the port to stored tables, two drivers, leases, changes of columns and amendments, on Spark, in every catalog, and on S3 (40 minutes)
	@for catalog in sqlite postgres rest rest-s3; do TIDEGATE_TEST_CATALOG=$$catalog $(BIN)/python -m pytest \
	  $(CONFORMANCE) tests/iceberg/test_catalogs.py tests/iceberg/test_projects_in_catalogs.py \
	  tests/iceberg/test_lost_commands.py tests/iceberg/test_own_metadata.py tests/views/test_amend.py tests/views/test_renaming.py tests/evolve/test_sources.py \
	  tests/evolve/test_apply.py::test_E2_a_column_that_is_renamed_and_another_of_its_old_name_keep_their_values \
	  || exit 1; done
	@for catalog in sqlite-s3 postgres-s3; do \
	  TIDEGATE_TEST_CATALOG=$$catalog $(BIN)/python -m pytest $(CONFORMANCE) || exit 1; done
	@TIDEGATE_TEST_CATALOG=postgres $(BIN)/python -m pytest tests/iceberg/test_lost_answers.py

simulate: $(STAMP) ## Random histories of crashes, conflicts and lost answers (SEEDS=20000); goes on where it was stopped
	@$(BIN)/python -m tests.simulate.run --seeds $(SEEDS) $(ARGS)

worlds: $(STAMP) ## Every small world, with every crash, of oracles and engine (hours of one core; ARGS="log --json"); goes on where it was stopped
	@$(BIN)/python -m tests.small.run $(ARGS)

mutants: java $(STAMP) ## Guards of the rules are broken one by one, each has to fail a test (ARGS="NAME … --list --from N")
	@$(BIN)/python -m tests.mutants.run $(ARGS)

kafka: java $(STAMP) ## A real Kafka broker on 127.0.0.1:9092, without Docker; its data stays in .tidegate/kafka
	@$(BIN)/python -m infra.kafka start
	@echo "Next: $(BIN)/python -m infra.kafka topic NAME --partitions 3   create a topic (--help for more)"
	@echo "      make kafka-stop                                      stop the broker"

kafka-stop: ## Stop that broker
	@test ! -x $(BIN)/python || $(BIN)/python -m infra.kafka stop

stack: java $(STAMP) postgres ## The real stack without Docker: PostgreSQL, Kafka, Dagster's webserver and daemon; its data stays
	@$(BIN)/python -m infra.stack start $(ARGS)

stack-stop: ## Stop that stack
	@test ! -x $(BIN)/python || $(BIN)/python -m infra.stack stop $(ARGS)

lint: $(STAMP) ## Style, types, and which room of the package imports which
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo

ui: java $(STAMP) ## The Dagster UI of this project on http://127.0.0.1:3000
	@$(BIN)/tidegate ui

cluster: java $(STAMP) ## A Spark cluster on this machine: master and two workers (tidegate run --env cluster)
	@$(BIN)/python infra/cluster.py start

cluster-stop: ## Stop that cluster
	@test ! -x $(BIN)/python || $(BIN)/python infra/cluster.py stop

profile: java $(STAMP) ## Where the CPU of a run goes, step by step: make profile ARGS=kafka (or files, tick)
	@$(BIN)/python -m tests.benchmarks.profile $(ARGS)

bench: java $(STAMP) ## Beside Spark, Flink and DuckDB, every result checked: make bench SUITES="files hop" (all: hours)
	@$(BIN)/python tests/benchmarks/run.py $(SUITES) $(ARGS)

chaos: java $(STAMP) ## kill -9 at random during a load of 2,000,000 rows into three groups, then compare all with an oracle
	@$(BIN)/python tests/chaos/run.py $(ARGS)

edits: java $(STAMP) ## 20 projects that are edited under live load from a broker, with kills (an hour; ARGS="--seed 3"); goes on where it was stopped
	@$(BIN)/python -m tests.edits.run $(ARGS)

soak: java $(STAMP) ## Half an hour at a steady rate: does anything grow? (ARGS="--sources 20": many sources, two views each)
	@$(BIN)/python tests/soak/run.py $(ARGS)

lock: $(AUDIT_STAMP) ## Write the locks anew, with sums; versions stay where pyproject.toml allows it (ARGS=--upgrade: newest)
	@$(COMPILE) $(ARGS) pyproject.toml --extra demo --extra dev -o infra/requirements.lock
	@$(COMPILE) pyproject.toml --extra avro --extra protobuf --extra postgres -c infra/requirements.lock -o infra/image.lock
	@$(COMPILE) infra/build.in -c infra/requirements.lock -o infra/build.lock
	@$(COMPILE) $(ARGS) infra/audit.in -o infra/audit.lock

sbom: $(STAMP) $(AUDIT_STAMP) ## What tidegate is made of, packages, jars and what is packed in them, as CycloneDX: dist/sbom.json
	@$(BIN)/python -m infra.jar_parts dist/jars.json
	@$(AUDIT)/bin/python -m infra.sbom infra/image.lock dist/jars.json dist/sbom.json

# The image's lock is part of requirements.lock.
audit: sbom ## Known vulnerabilities of packages and jars that are not accepted (asks OSV; OSV_URL=… a mirror; ARGS=--json)
	@$(AUDIT)/bin/python -m infra.advisories dist/sbom.json infra/requirements.lock infra/build.lock infra/audit.lock \
	  --sums infra/kafka/jars.sha256 --sums infra/rest_catalog/jars.sha256 $(if $(OSV_URL),--osv-url $(OSV_URL)) $(ARGS)

clean: kafka-stop stack-stop cluster-stop ## Remove everything that was made here, data included
	rm -rf $(VENV) .tidegate dist .pytest_cache .ruff_cache .hypothesis

# One line and what to do, before anything is downloaded or started. Spark, too, prefers JAVA_HOME.
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
java:
	@v=$$($(JAVA) -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1); \
	  if [ "$${v:-0}" -lt 17 ]; then \
	    echo "tidegate needs Java 17, and $(JAVA) is $${v:-not there}: install it (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"; \
	    exit 1; fi

# What the tests need beyond Python and Java, one after the other: apt allows no two at a time.
programs:
	@for one in browser postgres prometheus; do $(MAKE) --no-print-directory $$one || exit 1; done

# The UI is tested in a real browser.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  echo "Installing Chromium for the browser test …"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || \
	  { echo "The browser test needs Chromium: install it (Debian: apt-get install chromium) and run again."; exit 1; }; }

# The alert rules are tested by Prometheus' own tools.
prometheus:
	@command -v promtool >/dev/null && command -v amtool >/dev/null || { \
	  echo "Installing Prometheus' tools …"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus \
	    prometheus-alertmanager; } >/dev/null 2>&1 || \
	  { echo "The tests of alerts need promtool and amtool: install them (Debian: apt-get install prometheus prometheus-alertmanager) and run again."; exit 1; }; }

# Dagster's storage in `make stack`; the distribution's own, and only its programs are used.
postgres:
	@command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || \
	  compgen -G '/usr/pgsql-*/bin/initdb' >/dev/null || { \
	  echo "Installing PostgreSQL …"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null 2>&1 || \
	  { echo "make stack needs PostgreSQL: install it (Debian: apt-get install postgresql) and run again."; exit 1; }; }

# Installed once; again when the pins or the project file change.
# Every file that pip installs has its sum in a lock; --require-hashes takes none without. The locks are whole: nothing is looked up.
$(STAMP): pyproject.toml infra/build.lock infra/requirements.lock infra/fetch_jars.py platform/tidegate/jvm/jars.sha256
	@command -v $(PYTHON) >/dev/null || { echo "tidegate needs Python 3.11: $(PYTHON) not found. Install it, or make PYTHON=/path/to/python3.11 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (the first time takes a few minutes) …"
	@$(BIN)/$(PIP) --no-deps --require-hashes -r infra/build.lock
	@# By two processes, each every other package: pip works on one core.
	@mkdir -p .tidegate; rm -f .tidegate/lock.?; awk '/^[a-z0-9]/ { n = 1 - n } { print > (".tidegate/lock." n + 0) }' infra/requirements.lock
	@$(BIN)/$(PIP) --no-deps --require-hashes --no-build-isolation -r .tidegate/lock.0 & other=$$!; \
	  $(BIN)/$(PIP) --no-deps --require-hashes --no-build-isolation -r .tidegate/lock.1 && wait $$other
	@$(BIN)/$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -m infra.fetch_jars
	@touch $@

$(AUDIT_STAMP): infra/audit.lock
	@$(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/$(PIP) --no-deps --require-hashes -r infra/audit.lock
	@touch $@
