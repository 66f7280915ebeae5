# `make demo` and `make test` need nothing before them: each sets up a local .venv first, and does so only once.
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint clean

PYTHON ?= python3
# The pinned torch. On a Linux machine without a GPU, TORCH may also carry pip options, such as an index of CPU builds.
TORCH ?= torch==2.13.0

BIN := .venv/bin
# Set-up is repeated when what it depends on changes, and only then.
STAMP := .venv/.ready-$(shell { cat pyproject.toml setup.py; echo '$(TORCH)'; } | cksum | cut -d ' ' -f 1)

help:
	@echo "make setup   local .venv with everything, and the embedded model"
	@echo "make demo    vanilla against DFlash on this machine, in minutes"
	@echo "make test    lint, types and all tests"
	@echo "make lint    lint and types only"
	@echo "make clean   remove the .venv and all caches inside this folder"

setup: $(STAMP)
	@$(BIN)/python -m dcoco_bench.embedded > .venv/embedded-model

demo: setup
	@$(BIN)/dcoco-bench demo

test: lint
	@threads=$$($(BIN)/python -c 'from dcoco_bench.machine import usable_cpus; print(min(4, usable_cpus()))'); \
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-$$threads} $(BIN)/python -m pytest

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy dcoco_bench methods setup.py

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: dcoco-bench needs Python 3.11 or newer, and '$(PYTHON)' is not one; run: make PYTHON=python3.11 ..." >&2; \
		exit 1; }
	@echo "Setting up .venv (once; later runs skip this) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH) -e ".[embedded,dev]"
	@rm -f .venv/.ready-*
	@touch $@
