# Everything a newcomer needs: `make demo` shows it, `make test` proves it. Both set up what they use.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup lock lint test test-stores test-long bench demo clean

help: ## Show the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
	$(PYTEST) -m servers

test-long: $(READY) ## Long random and hostile-bytes suites
	$(PYTEST) -m long -n 2

bench: $(READY) ## Measure us and the original in one run; JSON lines with ratios
	$(BIN)/python -m bench

demo: $(READY) ## Write, read back and explain a small database on a local folder
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/demo.sh

clean: ## Remove what the targets above made in this folder
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/results
