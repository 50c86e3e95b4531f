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
	$(BIN)/python -m benchmarks.quality_fmow
	$(BIN)/python -m benchmarks.quality_digits

# All extras, torch first: asked for later, by another package, it would bring CUDA along.
everything: .venv/.everything

clean:
	rm -rf .venv build dist demo.html

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"

.venv/.demo: .venv/bin/python $(SETUP)
	$(PIP) --editable ".[images,report]"
	touch $@

.venv/.dev: .venv/bin/python $(SETUP)
	$(PIP) --editable ".[images,report]" --group dev
	touch $@

.venv/.everything: .venv/.dev
	$(PIP) torch
	$(PIP) --editable ".[all]"
	touch $@
