PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/pip install --disable-pip-version-check
# Bytecode that is not written is made again by every process.
unexport PYTHONDONTWRITEBYTECODE

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-6s %s\n", $$1, $$2}'

# The pip that comes with Python 3.11 takes three times as long to read an index as the one of the lock.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3-venv; }
	$(PYTHON) -m venv --clear .venv
	@sed -n '/^pip==/,/[^\\]$$/p' requirements-dev.lock > .venv/pip.lock
	$(PIP) --no-compile --require-hashes -r .venv/pip.lock
	$(PIP) --no-compile --require-hashes -r requirements-dev.lock
	$(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q -j 2 src
	@touch $@

demo: $(READY)  ## a small node under real memory pressure, explained
	$(BIN)/jettison demo
up: $(READY)  ## guard this machine; ARGS="--manifests DIR ..."
	$(BIN)/jettison up $(ARGS)

check: $(READY)  ## linters, types and import contracts
	@$(MAKE) --no-print-directory --jobs=2 types lint contracts

# Without a cache mypy says nothing for a minute, so a dot a second says that it works.
types:
	@echo $(BIN)/mypy
	@$(BIN)/mypy & checker=$$!; trap "kill $$checker; exit 130" INT TERM HUP; \
	  while kill -0 $$checker 2>/dev/null; do printf .; sleep 1; done; wait $$checker
lint:
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
contracts:
	$(BIN)/lint-imports --no-logo

test: $(READY)  ## the whole suite, with linters and types; ARGS="tests/node -k NAME" is a part of it
	@exec $(BIN)/python tests/suite.py $(ARGS)

bench: $(READY)  ## every benchmark, as ratios against a baseline of the same run
	@for b in benchmarks/*.py; do $(BIN)/python $$b || exit 1; done

LOCK = $(BIN)/pip-compile -q --generate-hashes --strip-extras --allow-unsafe --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --extra server --extra kube --extra cri
lock: $(READY)  ## pin the dependencies again
	$(LOCK) -o requirements.lock pyproject.toml
	$(LOCK) --extra dev --extra plots --extra parquet --extra dask -o requirements-dev.lock pyproject.toml

clean:  ## forget the virtual environment and every cache
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help demo up check types lint contracts test bench lock clean
