# make chat: set everything up and talk.  make test: set everything up, check, and run the fast tests.
.DEFAULT_GOAL := help
.PHONY: help chat test test-slow check format lint type pytest results bench clean

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= 2
# Two test processes share the cores; each computes with one thread. A second pool of threads only waits.
ONE := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
PYTEST := $(ONE) nice -n 5 $(BIN)/python -m pytest -q -n $(WORKERS)

help:
	@echo "make chat        set up and talk"
	@echo "make test        set up, check format, lint and types, run the fast tests"
	@echo "make test-slow   set up, run the slow tests"
	@echo "make format      format the code         make lint, make type: check it"
	@echo "make results     write docs/RESULTS.md   make bench: run the benchmarks"
	@echo "make clean       remove the environment and what the tools left"

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Attune needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

# The core install talks; it needs no torch.
.venv/.core: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt setuptools
	$(PIP) install -q -c constraints.txt --no-build-isolation -e .
	@touch $@

# torch first and exactly, so that nothing else pulls another build of it
.venv/.torch: .venv/bin/python constraints.txt
	$(PIP) install -q -c constraints.txt setuptools torch==2.13.0
	@touch $@

.venv/.train: .venv/.torch pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt --no-build-isolation -e '.[train]'
	@touch $@

.venv/.dev: .venv/.train
	$(PIP) install -q -c constraints.txt --no-build-isolation -e '.[train,serve,dev]'
	@touch $@

chat: .venv/.core
	@$(BIN)/attune chat

test: .venv/.dev check pytest

check: lint type

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: .venv/.dev
	$(BIN)/mypy

pytest: .venv/.dev
	$(PYTEST) -m "not slow"

test-slow: .venv/.dev
	$(PYTEST) -m slow --timeout 900

format: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

results: .venv/.train
	$(BIN)/attune results

# Speeds alone: these others train for hours, need a run of one's own, or are part of one that is run.
OTHERS := $(addprefix benchmarks/,ablations.py decode_speed.py labelling.py perceiving.py reranking.py finetune_speed.py stepping.py tables.py)
bench: .venv/.train
	@for program in $(filter-out $(OTHERS),$(wildcard benchmarks/*.py)); do echo "== $$program"; $(BIN)/python "$$program" || exit 1; done

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
