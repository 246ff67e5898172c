# Everything a newcomer needs: `make demo` shows it, `make test` proves it. Both set up what they use.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
KUBE   := $(BIN)/python -m tests.cluster.tool

.DEFAULT_GOAL := help
.PHONY: help setup lock lint test test-stores test-long test-load test-spark test-cluster bench crds docs demo demo-down clean
.PHONY: sim-mutants sim-soak
.PHONY: cluster-up cluster-down cluster-status cluster-load cluster-s3 cluster-slatekeeper cluster-spark images

help: ## Show the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything, as the lock file pins it

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements.lock)"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(READY)

lock: ## Pin every dependency anew in requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --all-extras --custom-compile-command "make lock" -o requirements.lock pyproject.toml requirements.in

lint: $(READY) ## Style, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## Lint, types and the fast suite (a few minutes)
	$(PYTEST) -n 2

test-stores: $(READY) ## The contract suite on real servers: S3, Azure, GCS, DynamoDB, MariaDB, PostgreSQL
	$(PYTEST) -m servers -n 2 --dist loadfile

test-long: $(READY) ## Long random, hostile-bytes and load suites (NEW=1: examples that nobody has tried; SHARE=0.1: a part of each)
	$(if $(NEW),SLATEKEEPER_NEW_EXAMPLES=1) $(if $(SHARE),SLATEKEEPER_SHARE=$(SHARE)) $(PYTEST) -m long -n 3 --dist worksteal

test-load: $(READY) ## Mixed load on a writer for MINUTES (10): every answer right, memory flat
	SLATEKEEPER_LOAD_MINUTES=$(or $(MINUTES),10) $(PYTEST) -m long tests/server/test_load.py $(ARGS)

test-spark: $(READY) ## Tests on real Spark: a local session and a small cluster on loopback (needs Java 17)
	$(PYTEST) -m spark $(ARGS)

sim-mutants: $(READY) ## Switch every safety mechanism off in turn: the simulation must notice (ARGS=--write for the docs)
	$(BIN)/python -m tests.simulation mutants $(ARGS)

sim-soak: $(READY) ## Play schedules that nobody has played before, on all cores for MINUTES
	$(BIN)/python -m tests.simulation soak $(or $(MINUTES),60) $(ARGS)

test-cluster: $(READY) ## Tests on a whole Kubernetes cluster, which they bring up and take down
	$(PYTEST) -m cluster $(ARGS)

cluster-up: $(READY) ## A Kubernetes cluster on this machine (CLUSTER=name for another beside it)
	@$(KUBE) up

cluster-down: $(READY) ## Take it down; nothing stays behind
	@$(KUBE) down

cluster-status: $(READY) ## Is it up, and how is it reached?
	@$(KUBE) status

images: $(READY) ## Build the images of images/ that are out of date (BASE=image to build them from another one)
	@BASE=$(BASE) $(KUBE) images

cluster-load: $(READY) ## Bring all of them into the cluster
	@$(KUBE) load

cluster-s3: $(READY) ## Add an S3 server to the cluster
	@$(KUBE) addon s3

cluster-slatekeeper: $(READY) ## Install Slatekeeper into the cluster by its Helm chart
	@$(KUBE) addon slatekeeper

cluster-spark: $(READY) ## Add Kubeflow's Spark operator to the cluster
	@$(KUBE) addon spark

bench: $(READY) ## Measure us and the original in one run; JSON lines with ratios
	$(BIN)/python -m bench

crds: $(READY) ## Make the CRDs anew from the models
	$(BIN)/python -m slate_operator.api.crd crds
	cp crds/*.yaml charts/slatekeeper/files/crds/

docs: $(READY) ## Make the references (command, kinds, plugin, Redis protocol, metrics) anew from the code
	$(BIN)/python -m slate_engine.cli.reference > docs/reference/cli.md
	$(BIN)/python -m slate_operator.api.reference > docs/reference/kinds.md
	$(BIN)/python -m slate_operator.plugin.reference > docs/reference/kubectl-slate.md
	$(BIN)/python -m tests.server.reference
	$(BIN)/python -m tests.server.metrics_reference

demo: $(READY) ## A database on a Kubernetes cluster of this machine: written, kept, cloned, destroyed and brought back
	@$(BIN)/python -m examples.demo

demo-down: $(READY) ## Remove the demo and its cluster
	@$(KUBE) down

clean: ## Remove what the targets above made in this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/results
