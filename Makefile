# Every target makes .venv and installs what it needs; a second run is quick.
.PHONY: demo test check bench everything clean
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SETUP := pyproject.toml constraints.txt Makefile

demo: .venv/.demo
	$(BIN)/oodometer demo --html demo.html

test: .venv/.dev
	$(BIN)/python -m pytest --numprocesses 2

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.dev
	$(BIN)/python -m benchmarks.speed_estimators
	$(BIN)/python -m benchmarks.speed_randaugment
	$(BIN)/python -m benchmarks.speed_invariance
	$(BIN)/python -m benchmarks.speed_mmd
	$(BIN)/python -m benchmarks.speed_gradients
	$(BIN)/python -m benchmarks.speed_measures
	$(BIN)/python -m benchmarks.speed_pools
	$(BIN)/python -m benchmarks.quality_fmow
	$(BIN)/python -m benchmarks.quality_digits
	$(BIN)/python -m benchmarks.quality_invariance_digits
	$(BIN)/python -m benchmarks.quality_invariance_pacs
	$(BIN)/python -m benchmarks.quality_invariance_sentiment
	$(BIN)/python -m benchmarks.quality_measures_pacs
	$(BIN)/python -m benchmarks.quality_invariance_adult
	$(BIN)/python -m benchmarks.quality_hypersphere
	$(BIN)/python -m benchmarks.ablations_invariance

# All extras.
everything: .venv/.dev

clean:
	rm -rf .venv build dist demo.html

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"

.venv/.demo: .venv/bin/python $(SETUP)
	$(PIP) --editable ".[images,report]"
	touch $@

# Torch comes first: asked for later, by another package, it would bring CUDA along.
.venv/.dev: .venv/bin/python $(SETUP)
	$(PIP) torch
	$(PIP) --editable ".[all]" --group dev
	touch $@
