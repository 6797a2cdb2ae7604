# The two commands of a fresh machine are `make demo` and `make test`; everything else is for daily work.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.neuron-lab-setup
export TORCH_SPEC ?= torch==2.13.*

.PHONY: setup demo lab test lint bench core clean

setup: $(STAMP)

$(STAMP): pyproject.toml scripts/setup.py
	$(PYTHON) scripts/setup.py --venv $(VENV)
	@touch $(STAMP)

core: setup
	$(BIN)/python -m neuron_lab core build

demo: core
	$(BIN)/python scripts/demo.py

lab: core
	$(BIN)/jupyter lab --notebook-dir=notebooks

test: core
	$(BIN)/python scripts/browser.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: core
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist demo.pftrace demo.ipynb demo.neuron.parquet
